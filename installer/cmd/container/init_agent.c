// SPDX-License-Identifier: Apache-2.0
#include "cmd/container/init_agent.h"

#include "cluster/agent/agent_journal.h"

static void replace_value(char **to, const char *text)
{
	free(*to);
	*to = str_dup(text);
}

static int request_current_target(struct job_values *v, const struct machine *m, struct err *err)
{
	auto_root struct root state = ROOT_NONE;
	struct target t = { 0 };
	if (job_state(v, m, &state, err) < 0)
		return -1;
	int r = agent_current(&state, &t, err);
	if (r > 0) {
		replace_value(&v->driver, t.driver);
		replace_value(&v->flavour, *t.flavour ? t.flavour : NULL);
		replace_value(&v->digest, t.package);
		target_params(&t, &v->params);
	}
	target_done(&t);
	return r;
}

// A source is of one version, which need not be the one that is loaded by now.
static void request_loaded_driver(struct job_values *v, const struct modules *loaded)
{
	if (!str_eq(v->driver, loaded->version))
		replace_value(&v->source, NULL);
	replace_value(&v->driver, loaded->version);
	replace_value(&v->flavour, loaded->flavour == MODULE_TYPE_AUTO ? NULL : module_type_name(loaded->flavour));
	replace_value(&v->digest, NULL);
}

int init_agent_request(struct job_values *v, struct err *err)
{
	auto_machine struct machine m = { .host = ROOT_NONE, .kern = ROOT_NONE };
	auto_facts struct facts f = { 0 };
	if (machine_open(&v->origin.remote.common, &m, err) < 0 || facts_read(&m.host, &m.kern, &f, err) < 0)
		return -1;
	int r = request_current_target(v, &m, err);
	if (r < 0)
		return -1;
	if (f.loaded.version)
		request_loaded_driver(v, &f.loaded);
	return v->driver || v->source || v->payload || v->origin.package;
}
