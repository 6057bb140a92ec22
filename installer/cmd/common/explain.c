// SPDX-License-Identifier: Apache-2.0
#include "cmd/common/common.h"

#include <stdio.h>

struct values {
	struct common common;
};

static json_t *error_json(const struct err_info *e)
{
	return json_pack("{s:s, s:i, s:b, s:s, s:s, s:s}", "code", e->name, "exit", e->exit_status, "retryable",
			 e->retryable, "reason", e->reason, "text", e->text, "next", e->next);
}

static void show_errors(bool is_json)
{
	auto_json json_t *list = json_array();
	auto_strv struct strv rows = { 0 };
	for (int code = E_SYSTEM; code < E_LAST_; code++) {
		const struct err_info *e = err_info(code);
		json_array_append_new(list, error_json(e));
		strv_add(&rows, str_fmt("%s\t%s", e->name, e->text));
	}
	if (is_json)
		show_json(list);
	else
		show_table(&rows);
}

static int run_explain(void *values, char **args, size_t count, struct err *err)
{
	const struct values *v = values;
	if (!count) {
		show_errors(v->common.is_json);
		return 0;
	}
	const struct err_info *e = err_info_by_name(args[0]);
	if (!e)
		return err_set(err, E_NOT_FOUND, "no error code '%s'; `kmodsmith explain` lists them", args[0]);
	auto_json json_t *one = error_json(e);
	if (v->common.is_json)
		show_json(one);
	else
		printf("%s (%s): %s.\nNext: %s.\nExit status %d; %s.\n", e->name, e->reason, e->text, e->next,
		       e->exit_status, e->retryable ? "may pass when tried again" : "does not pass by itself");
	return 0;
}

const struct cmd cmd_explain = {
	.name = "explain",
	.args = "[CODE]",
	.args_max = 1,
	.help = "what an error code means and what to do",
	.about = "Every refusal of kmodsmith has a code such as E_ABI. This command tells what the code means and what "
		 "to do\n"
		 "next. Without CODE it lists all codes.\n\n"
		 "  kmodsmith explain E_IN_USE\n",
	.opts = { common_opts },
	.values_size = sizeof(struct values),
	.run = run_explain,
};
