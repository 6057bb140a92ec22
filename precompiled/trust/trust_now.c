// SPDX-License-Identifier: Apache-2.0
#include "precompiled/trust/trust.h"

void trust_now(const struct root *host, const char *named, struct trust_now *ret)
{
	auto_root struct root dir = ROOT_NONE;
	struct err why;
	*ret = (struct trust_now){ 0 };
	int r = trust_dir(host, named, &dir, &why);
	ret->is_absent = r == 0;
	if (r < 0 || trust_open(&dir, &ret->trust, &why) < 0)
		ret->unread = why;
}

void trust_now_done(struct trust_now *t)
{
	trust_done(&t->trust);
	*t = (struct trust_now){ 0 };
}
