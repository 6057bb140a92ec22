// SPDX-License-Identifier: Apache-2.0
#include "base/opt.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>

enum { OPTS_MAX = 96, HELP_COLUMN = 28 };

// Who set a value last: a higher source replaces what a lower one put into a list.
enum source { FROM_DEFAULT, FROM_FILE, FROM_ENV, FROM_FLAG };

struct parse {
	const struct cmd *cmd;
	const struct opt *opts[OPTS_MAX];
	enum source set_by[OPTS_MAX];
	size_t count;
	void *values;
};

static void collect(const struct cmd *cmd, struct parse *p)
{
	for (size_t t = 0; t < ARRAY_SIZE(cmd->opts) && cmd->opts[t]; t++)
		for (const struct opt *o = cmd->opts[t]; o->name && p->count < OPTS_MAX; o++)
			p->opts[p->count++] = o;
}

static int set_flag(const struct opt *o, const char *text, bool *ret, struct err *err)
{
	static const char *const yes[] = { "yes", "true", "1", "on" }, *const no[] = { "no", "false", "0", "off" };
	for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
		if (str_eq(text, yes[i]) || str_eq(text, no[i])) {
			*ret = str_eq(text, yes[i]);
			return 0;
		}
	}
	return err_set(err, E_USAGE, "%s: '%s' is neither yes nor no", o->name, text);
}

static int set(struct parse *p, size_t i, const char *text, enum source from, struct err *err)
{
	const struct opt *o = p->opts[i];
	void *at = (char *)p->values + o->offset;
	uint64_t number;
	switch (o->type) {
	case OPT_FLAG:
		if (set_flag(o, text ? text : "yes", at, err) < 0)
			return -1;
		break;
	case OPT_STR:
		free(*(char **)at);
		*(char **)at = str_dup(text);
		break;
	case OPT_LIST:
		if (p->set_by[i] < from)
			strv_done(at);
		strv_split(at, text, ",");
		break;
	case OPT_UINT:
		if (!str_u64(text, 10, &number) || number > UINT_MAX)
			return err_set(err, E_USAGE, "%s: '%s' is no whole number", o->name, text);
		*(unsigned *)at = (unsigned)number;
		break;
	}
	p->set_by[i] = from;
	return 0;
}

static bool is_known(const struct cmd *const *all, const char *key)
{
	for (; *all; all++) {
		struct parse p = { 0 };
		collect(*all, &p);
		for (size_t i = 0; i < p.count; i++)
			if (str_eq(p.opts[i]->name, key))
				return true;
	}
	return false;
}

static int config_line(struct parse *p, const struct cmd *const *all, char *line, struct err *err)
{
	char *equals = strchr(line, '=');
	if (!equals)
		return err_set(err, E_CONFIG, "'%s' is not KEY = VALUE", line);
	*equals = '\0';
	const char *key = str_trim(line), *value = str_trim(equals + 1);
	for (size_t i = 0; i < p->count; i++)
		if (str_eq(p->opts[i]->name, key))
			return set(p, i, value, FROM_FILE, err) < 0 ? err_code(err, E_CONFIG) : 0;
	return is_known(all, key) ? 0 : err_set(err, E_CONFIG, "unknown key '%s'", key);
}

static int from_config(struct parse *p, const struct cmd *const *all, const char *config, struct err *err)
{
	unsigned number = 0;
	while (config && *config) {
		size_t len = strcspn(config, "\n");
		auto_str char *line = str_ndup(config, len);
		char *text = str_trim(line);
		number++;
		if (*text && *text != '#' && config_line(p, all, text, err) < 0)
			return err_wrap(err, "configuration file, line %u", number);
		config += len + (config[len] == '\n');
	}
	return 0;
}

static int from_env(struct parse *p, struct err *err)
{
	for (size_t i = 0; i < p->count; i++) {
		const char *text = p->opts[i]->env ? getenv(p->opts[i]->env) : NULL;
		if (text && *text && set(p, i, text, FROM_ENV, err) < 0)
			return err_wrap(err, "environment variable %s", p->opts[i]->env);
	}
	return 0;
}

// What getopt_long needs, from our table; val is index + 256 so that it cannot be taken for a letter.
static void make_getopt(const struct parse *p, struct option *longs, char *letters)
{
	*letters++ = ':';
	for (size_t i = 0; i < p->count; i++) {
		const struct opt *o = p->opts[i];
		longs[i] = (struct option){ o->name, o->type == OPT_FLAG ? no_argument : required_argument, NULL,
					    (int)i + 256 };
		if (o->letter) {
			*letters++ = o->letter;
			if (o->type != OPT_FLAG)
				*letters++ = ':';
		}
	}
	longs[p->count] = (struct option){ "help", no_argument, NULL, 'h' };
	longs[p->count + 1] = (struct option){ 0 };
	*letters++ = 'h';
	*letters = '\0';
}

static size_t index_of(const struct parse *p, int value)
{
	if (value >= 256)
		return (size_t)value - 256;
	size_t i = 0;
	while (i < p->count && p->opts[i]->letter != value)
		i++;
	return i;
}

// glibc leaves in optopt the letter, or the value of a long option that got an argument it does not take, or 0.
static int unknown(const struct parse *p, const char *word, struct err *err)
{
	if (optopt >= 256 || optopt == 'h')
		return err_set(err, E_USAGE, "option '--%s' takes no value",
			       optopt == 'h' ? "help" : p->opts[optopt - 256]->name);
	if (optopt)
		return err_set(err, E_USAGE, "unknown option '-%c' for '%s'", optopt, p->cmd->name);
	return err_set(err, E_USAGE, "unknown option '%s' for '%s'", word, p->cmd->name);
}

static int from_flags(struct parse *p, int argc, char **argv, struct err *err)
{
	struct option longs[OPTS_MAX + 2];
	char letters[2 * OPTS_MAX + 3];
	make_getopt(p, longs, letters);
	optind = 0;
	opterr = 0;
	for (int value; (value = getopt_long(argc, argv, letters, longs, NULL)) != -1;) {
		if (value == 'h')
			return 1;
		if (value == ':')
			return err_set(err, E_USAGE, "option '%s' needs a value", argv[optind - 1]);
		if (value == '?')
			return unknown(p, argv[optind - 1], err);
		if (set(p, index_of(p, value), optarg, FROM_FLAG, err) < 0)
			return err_wrap(err, "command line");
	}
	return 0;
}

int opt_parse(const struct cmd *cmd, const struct cmd *const *all, int argc, char **argv, const char *config,
	      void *values, char ***ret_args, size_t *ret_count, struct err *err)
{
	struct parse p = { .cmd = cmd, .values = values };
	collect(cmd, &p);
	if (from_config(&p, all, config, err) < 0 || from_env(&p, err) < 0)
		return -1;
	int r = from_flags(&p, argc, argv, err);
	if (r)
		return r;
	size_t count = (size_t)(argc - optind);
	if (count < cmd->args_min)
		return err_set(err, E_USAGE, "'%s' needs %s", cmd->name, cmd->args);
	if (count > cmd->args_max)
		return err_set(err, E_USAGE, "'%s' does not take '%s'", cmd->name, argv[optind + (int)cmd->args_max]);
	*ret_args = argv + optind;
	*ret_count = count;
	return 0;
}

void opt_done(const struct cmd *cmd, void *values)
{
	struct parse p = { 0 };
	collect(cmd, &p);
	for (size_t i = 0; i < p.count; i++) {
		void *at = (char *)values + p.opts[i]->offset;
		if (p.opts[i]->type == OPT_LIST)
			strv_done(at);
		else if (p.opts[i]->type == OPT_STR)
			free(TAKE(*(char **)at));
	}
}

static bool takes(const struct cmd *cmd, const struct opt *o)
{
	struct parse p = { 0 };
	collect(cmd, &p);
	for (size_t i = 0; i < p.count; i++)
		if (str_eq(p.opts[i]->name, o->name))
			return p.opts[i]->type == o->type;
	return false;
}

static void add_words(const struct opt *o, const void *at, struct strv *ret)
{
	switch (o->type) {
	case OPT_FLAG:
		if (*(const bool *)at)
			strv_add(ret, str_fmt("--%s", o->name));
		break;
	case OPT_STR:
		if (*(char *const *)at)
			strv_add(ret, str_fmt("--%s=%s", o->name, *(char *const *)at));
		break;
	case OPT_LIST:
		for (size_t i = 0; i < ((const struct strv *)at)->count; i++)
			strv_add(ret, str_fmt("--%s=%s", o->name, ((const struct strv *)at)->items[i]));
		break;
	case OPT_UINT:
		if (*(const unsigned *)at)
			strv_add(ret, str_fmt("--%s=%u", o->name, *(const unsigned *)at));
		break;
	}
}

void opt_words(const struct opt *const *tables, const void *values, const struct cmd *cmd, struct strv *ret)
{
	for (; *tables; tables++)
		for (const struct opt *o = *tables; o->name; o++)
			if (takes(cmd, o))
				add_words(o, (const char *)values + o->offset, ret);
}

static void help_line(char **text, const struct opt *o)
{
	char letter[5] = "    ";
	if (o->letter)
		snprintf(letter, sizeof(letter), "-%c, ", o->letter);
	auto_str char *left = str_fmt("  %s--%s%s%s", letter, o->name, o->arg ? " " : "", o->arg ? o->arg : "");
	int gap = HELP_COLUMN - (int)strlen(left);
	if (gap < 2) {
		str_add(text, "%s\n%*s%s", left, HELP_COLUMN, "", o->help);
	} else {
		str_add(text, "%s%*s%s", left, gap, "", o->help);
	}
	if (o->env)
		str_add(text, " [%s]", o->env);
	str_add(text, "\n");
}

char *opt_help(const struct cmd *cmd)
{
	struct parse p = { 0 };
	collect(cmd, &p);
	char *text = str_fmt("kmodsmith %s: %s\n\nUsage: kmodsmith %s [OPTIONS]%s%s\n\n%s\nOptions:\n", cmd->name,
			     cmd->help, cmd->name, cmd->args ? " " : "", cmd->args ? cmd->args : "", cmd->about);
	for (size_t i = 0; i < p.count; i++)
		help_line(&text, p.opts[i]);
	str_add(&text, "  -h, --help                this text\n");
	return text;
}
