// SPDX-License-Identifier: Apache-2.0
#include "precompiled/trust/signers.h"

#include <time.h>

int signers_open(const struct strv *names, const char *reference, struct signers *ret, struct err *err)
{
	const char *password = getenv("KMODSMITH_KEY_PASSWORD");
	auto_signers struct signers s = { .keys = mem_alloc((names->count + 1) * sizeof(struct key *)),
					  .makers = mem_alloc((names->count + 1) * sizeof(*s.makers)) };
	for (; s.count < names->count; s.count++) {
		if (key_open(names->items[s.count], password, &s.keys[s.count], err) < 0)
			return err_wrap(err, "--key");
		s.makers[s.count] =
			(struct signature_maker){ .key = s.keys[s.count], .reference = reference, .now = time(NULL) };
	}
	*ret = s;
	s = (struct signers){ 0 };
	return 0;
}

void signers_done(struct signers *s)
{
	for (size_t i = 0; i < s->count; i++)
		key_free(s->keys[i]);
	free(s->keys);
	free(s->makers);
	*s = (struct signers){ 0 };
}
