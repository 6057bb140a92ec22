// SPDX-License-Identifier: Apache-2.0
#include "base/options/help.h"
#include "cmd/common/usage.h"
#include "status/xid.h"

#include <ctype.h>
#include <stdio.h>
#include <strings.h>

struct values {
	struct common common;
};

static json_t *error_json(const struct err_info *e)
{
	size_t count;
	const struct err_cause *causes = err_causes(e->code, &count);
	json_t *list = json_array();
	for (size_t i = 0; i < count; i++)
		json_array_append_new(list,
				      json_pack("{s:s, s:s}", "cause", causes[i].cause, "command", causes[i].command));
	return json_pack("{s:s, s:i, s:b, s:s, s:s, s:s, s:o}", "code", e->name, "exit", e->exit_status, "retryable",
			 e->retryable, "reason", e->reason, "text", e->text, "next", e->next, "causes", list);
}

static void show_error(const struct err_info *e)
{
	size_t count, width = usage_width();
	const struct err_cause *causes = err_causes(e->code, &count);
	auto_str char *text = str_dup("");
	auto_str char *title = str_fmt("%s (%s): %s.", e->name, e->reason, e->text);
	auto_str char *next = str_fmt("Next: %s.", e->next);
	help_wrap(&text, title, 0, width);
	str_add(&text, "\n");
	help_wrap(&text, next, 0, width);
	str_add(&text, "\nCauses, the most likely first, and what shows or mends each:\n");
	for (size_t i = 0; i < count; i++) {
		auto_str char *number = str_fmt("  %zu.", i + 1);
		help_row(&text, number, causes[i].cause, 6, width);
		str_add(&text, "        %s\n", causes[i].command);
	}
	printf("%s\nExit status %d; %s.\n", text, e->exit_status,
	       e->retryable ? "may pass when tried again" : "does not pass by itself");
}

// Also "e_abi" and "abi".
static const struct err_info *find_error(const char *word, struct err *err)
{
	auto_str char *name = str_fmt("%s%s", strncasecmp(word, "E_", 2) == 0 ? "" : "E_", word);
	for (char *c = name; *c; c++)
		*c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
	const struct err_info *e = err_info_by_name(name);
	if (e)
		return e;
	auto_strv struct strv names = { 0 };
	for (int code = E_SYSTEM; code < E_LAST_; code++)
		strv_add(&names, str_dup(err_info(code)->name));
	auto_str char *hint = opt_hint(name, &names);
	err_set(err, E_NOT_FOUND, "no error code '%s'%s `kmodsmith explain` lists them", word, *hint ? hint : ";");
	return NULL;
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

// "79", "xid 79", "Xid79"; NULL = it is no Xid.
static char *xid_number(char **args, size_t count)
{
	const char *word = args[count - 1];
	bool is_xid = strncasecmp(args[0], "xid", 3) == 0;
	if (is_xid && count == 1)
		word += strspn(word + 3, "-_ ") + 3;
	bool is_number = *word && strspn(word, "0123456789") == strlen(word);
	return is_number && (is_xid ? count == 1 || !args[0][3] : count == 1) ? str_dup(word) : NULL;
}

static int explain_xid(const char *number, bool is_json, struct err *err)
{
	uint64_t xid = 0;
	const struct xid_info *x = str_u64(number, 10, &xid) && xid <= UINT32_MAX ? xid_info((unsigned)xid) : NULL;
	if (!x) {
		err_set(err, E_NOT_FOUND, "Xid %s is not among those that are explained here", number);
		return err_next(err, "look it up at %s", XID_SOURCE);
	}
	if (is_json) {
		auto_json json_t *json = json_pack("{s:i, s:s, s:s, s:s}", "xid", (int)x->xid, "text", x->text, "next",
						   x->next, "source", XID_SOURCE);
		show_json(json);
		return 0;
	}
	size_t width = usage_width();
	auto_str char *text = str_dup(""), *title = str_fmt("Xid %u: %s.", x->xid, x->text),
		      *next = str_fmt("Next: %s.", x->next);
	help_wrap(&text, title, 0, width);
	str_add(&text, "\n");
	help_wrap(&text, next, 0, width);
	printf("%s\nFrom %s.\n", text, XID_SOURCE);
	return 0;
}

static int run_explain(void *values, char **args, size_t count, struct err *err)
{
	const struct values *v = values;
	if (!count) {
		show_errors(v->common.is_json);
		return 0;
	}
	auto_str char *xid = xid_number(args, count);
	if (xid)
		return explain_xid(xid, v->common.is_json, err);
	if (count > 1)
		return err_set(err, E_USAGE, "'%s %s' is neither a code nor an Xid", args[0], args[1]);
	const struct err_info *e = find_error(args[0], err);
	if (!e)
		return -1;
	auto_json json_t *one = error_json(e);
	if (v->common.is_json)
		show_json(one);
	else
		show_error(e);
	return 0;
}

static void offer_codes(const void *values, const char *option, size_t argument, struct strv *ret)
{
	(void)values;
	for (int code = E_SYSTEM; !option && !argument && code < E_LAST_; code++)
		strv_add(ret, str_dup(err_info(code)->name));
}

const struct cmd cmd_explain = {
	.name = "explain",
	.args = "[CODE|xid N]",
	.args_max = 2,
	.help = "what an error code or an Xid means and what to do",
	.about = "Every refusal of kmodsmith has a code such as E_ABI. This command tells what the code means, what\n"
		 "to do next, and the usual causes, each with a command. Without CODE it lists all codes. It also\n"
		 "tells what an Xid in the kernel log means, the number of an error of a GPU (`NVRM: Xid\n"
		 "(PCI:0000:3b:00): 79, ...`).\n\n"
		 "  kmodsmith explain E_IN_USE\n"
		 "  kmodsmith explain xid 79\n",
	.opts = { common_opts },
	.values_size = sizeof(struct values),
	.run = run_explain,
	.offer = offer_codes,
};
