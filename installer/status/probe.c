// SPDX-License-Identifier: Apache-2.0
#include "status/probe.h"

#include "status/gpu_operator.h"
#include "status/liveness.h"
#include "status/status.h"
#include "status/status_file.h"

#include <limits.h>

static int answer(bool is_yes, char *why, char **ret_why)
{
	*ret_why = why;
	return is_yes;
}

int probe_readiness(const struct probe *p, char **ret_why, struct err *err)
{
	auto_facts struct facts f = { 0 };
	auto_status struct status s = { 0 };
	auto_json json_t *file = NULL;
	auto_liveness_verdict struct liveness_verdict init = { 0 };
	struct err why;
	bool has_daemons = true;
	if (facts_read(p->node->host, p->node->kern, &f, err) < 0 || status_read(&f, p->node, &s, err) < 0 ||
	    status_file_read(p->node->host, f.host.boot_id, &file, err) < 0 ||
	    gpu_operator_read_ready(p->node->host, &has_daemons, err) < 0 ||
	    liveness_check(p->node->host, LIVENESS_DIR, p->node->kern, UINT_MAX, &init, err) < 0)
		return -1;
	const char *state = json_string_value(json_object_get(file, "state"));
	if (!s.has_gpu)
		return answer(true, str_dup("no NVIDIA function on this machine"), ret_why);
	if (!str_eq(state, "READY"))
		return answer(false, str_fmt("the last run reported %s", state ? state : "nothing in this boot"),
			      ret_why);
	if (status_error(&s, &why) < 0)
		return answer(false, str_dup(why.text), ret_why);
	if (!has_daemons)
		return answer(false, str_dup("the daemons' status is not Ready"), ret_why);
	if (init.is_agent_down)
		return answer(false,
			      str_fmt("driver %s, but the agent of rollouts does not stay up; its log says why",
				      f.loaded.version),
			      ret_why);
	return answer(true, str_fmt("driver %s", f.loaded.version), ret_why);
}

int probe_startup(const struct probe *p, char **ret_why, struct err *err)
{
	auto_liveness_verdict struct liveness_verdict v = { 0 };
	if (liveness_check(p->node->host, LIVENESS_DIR, p->node->kern, UINT_MAX, &v, err) < 0)
		return -1;
	if (v.pid && !v.is_serving)
		return answer(false, TAKE(v.why), ret_why);
	return probe_readiness(p, ret_why, err);
}

int probe_liveness(const struct probe *p, char **ret_why, struct err *err)
{
	enum { STALL_S = 600 };
	auto_liveness_verdict struct liveness_verdict v = { 0 };
	if (liveness_check(p->pulse_dir ? p->pulse_dir : p->node->host, p->pulse_dir ? "." : LIVENESS_DIR,
			   p->node->kern, p->stall_s ? p->stall_s : STALL_S, &v, err) < 0)
		return -1;
	return answer(v.is_alive, TAKE(v.why), ret_why);
}
