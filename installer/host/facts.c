// SPDX-License-Identifier: Apache-2.0
#include "host/facts.h"

int facts_read(const struct root *host, const struct root *kern, struct facts *ret, struct err *err)
{
	auto_facts struct facts f = { 0 };
	if (host_read(host, kern, &f.host, err) < 0 || gpus_read(kern, &f.gpus, err) < 0 ||
	    modules_read(host, kern, f.host.release, &f.loaded, err) < 0)
		return -1;
	*ret = f;
	f = (struct facts){ 0 };
	return 0;
}

void facts_done(struct facts *f)
{
	host_done(&f->host);
	gpus_done(&f->gpus);
	modules_done(&f->loaded);
	existing_driver_done(&f->existing_driver);
}

bool facts_has_gpu(const struct facts *f)
{
	return gpus_count_ours(&f->gpus, GPU_DISPLAY) + gpus_count_ours(&f->gpus, GPU_SWITCH) > 0;
}
