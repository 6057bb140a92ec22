// SPDX-License-Identifier: Apache-2.0
// config show: what the configuration file and the environment say, as the commands understand it.
#include "cmd/common/common.h"
#include "cmd/common/entry.h"

#include <stdio.h>

struct values {
	struct common common;
	bool is_all;
};

static const struct opt opts[] = {
	{ "all", 'a', NULL, NULL, OPT_FLAG, offsetof(struct values, is_all), "also keys that nothing sets" },
	{ 0 },
};

struct listing {
	bool is_all;
	struct strv seen; // "KEY VALUE": once, whichever commands take it
	struct strv rows;
	json_t *list;
};

// As a line of the file has it; NULL = unset.
static char *value_text(const struct opt *o, const void *at)
{
	switch (o->type) {
	case OPT_FLAG:
		return str_dup(*(const bool *)at ? "yes" : "no");
	case OPT_UINT:
		return str_fmt("%u", *(const unsigned *)at);
	case OPT_LIST:
	case OPT_SECRETS:
		return strv_join(at, ",");
	default:
		return str_dup(*(char *const *)at);
	}
}

// A URL with a password, a token with its PIN. NAME@sha256:HEX is neither.
static bool may_be_secret(const char *text)
{
	for (const char *at = text; (at = strchr(at, '@')); at++)
		if (!str_starts(at, "@sha256:"))
			return true;
	return strstr(text, "pin-value=") != NULL;
}

static void add_key(const struct opt_origin *o, const void *at, struct listing *l)
{
	const bool is_set = o->by == OPT_FILE || o->by == OPT_ENV, is_file = o->by == OPT_FILE;
	auto_str char *value = is_set && !o->to ? value_text(o->opt, at) : NULL;
	auto_str char *id = str_fmt("%s %s", o->opt->name, value ? value : "");
	bool is_secret = value && may_be_secret(value);
	if ((!is_set && !l->is_all) || strv_has(&l->seen, id))
		return;
	auto_str char *from = is_set ? entry_origin_text(o) : str_dup("default");
	strv_add(&l->seen, TAKE(id));
	strv_add(&l->rows, str_fmt("%s\t%s\t%s%s%s", o->opt->name,
				   is_secret ? "(not shown)" :
				   value     ? value :
					       "-",
				   from, o->to ? ", gives way to " : "", o->to ? o->to : ""));
	json_array_append_new(
		l->list, json_pack("{s:s, s:o, s:b, s:s, s:o, s:o, s:o, s:o}", "key", o->opt->name, "value",
				   json_text(is_secret ? NULL : value), "hidden", is_secret, "by",
				   !is_set ? "default" :
				   is_file ? "file" :
					     "environment",
				   "file", json_text(is_file ? entry_config_name() : NULL), "line",
				   is_file ? json_integer(o->line) : json_null(), "variable",
				   json_text(o->by == OPT_ENV ? o->opt->env : NULL), "gives_way_to", json_text(o->to)));
}

static int add_command(const struct cmd *cmd, struct listing *l, struct err *err)
{
	struct opt_parsed parsed = { 0 };
	void *values = mem_alloc(cmd->values_size);
	int r = entry_configured(cmd, values, &parsed, err);
	for (size_t i = 0; r == 0 && i < parsed.opts; i++)
		add_key(&parsed.origins[i], (char *)values + parsed.origins[i].opt->offset, l);
	opt_done(cmd, values);
	free(values);
	return r;
}

static int run_config_show(void *values, char **args, size_t count, struct err *err)
{
	const struct values *v = values;
	struct listing l = { .is_all = v->is_all, .list = json_array() };
	auto_json json_t *list = l.list;
	int r = 0;
	(void)args, (void)count;
	strv_add(&l.rows, str_dup("KEY\tVALUE\tFROM"));
	for (size_t i = 0; r == 0 && commands[i]; i++)
		r = add_command(commands[i], &l, err);
	if (r == 0 && v->common.is_json)
		show_json(list);
	else if (r == 0 && l.rows.count > 1)
		show_table(&l.rows);
	else if (r == 0)
		printf("neither '%s' nor the environment sets anything\n", entry_config_name());
	strv_done(&l.rows);
	strv_done(&l.seen);
	return r;
}

const struct cmd cmd_config_show = {
	.name = "config show",
	.help = "show what the configuration file and the environment set, and where",
	.about = "One line per key: its value, and the line of the file or the variable that it is from. Of a key\n"
		 "that gives way to another one it says which; if that depends on the command, it has two\n"
		 "lines. Values that may hold a password are not shown.\n\n"
		 "  kmodsmith config show\n"
		 "  kmodsmith config show --all --json\n",
	.opts = { opts, common_opts },
	.values_size = sizeof(struct values),
	.run = run_config_show,
};
