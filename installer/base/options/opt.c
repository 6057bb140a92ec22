// SPDX-License-Identifier: Apache-2.0
#include "base/options/opt.h"

#include "base/core/secret.h"

#include <ctype.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>

static const char PREFIX[] = "KMODSMITH_";
enum { LONGEST = 64 }; // LONGEST: of words that are compared; no name is that long

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

// Optimal string alignment: the number of slips between two words.
static size_t distance(const char *a, const char *b)
{
	size_t rows[3][LONGEST + 1], *before = rows[0], *last = rows[1], *now = rows[2];
	size_t length = strlen(b);
	for (size_t j = 0; j <= length; j++)
		last[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		now[0] = i;
		for (size_t j = 1; j <= length; j++) {
			now[j] = smaller(smaller(last[j], now[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				now[j] = smaller(now[j], before[j - 2] + 1);
		}
		size_t *oldest = before;
		before = last;
		last = now;
		now = oldest;
	}
	return last[length];
}

const char *opt_nearest(const char *word, const struct strv *names)
{
	const char *found = NULL;
	size_t length = strlen(word), best = length / 3 + 1;
	for (size_t i = 0; i < names->count && length <= LONGEST; i++) {
		size_t slips = strlen(names->items[i]) <= LONGEST ? distance(word, names->items[i]) : best;
		if (slips < best) {
			best = slips;
			found = names->items[i];
		}
	}
	return found;
}

char *opt_hint(const char *word, const struct strv *names)
{
	const char *near = opt_nearest(word, names);
	return near ? str_fmt("; did you mean '%s'?", near) : str_dup("");
}

// The configuration keys of all commands, or their environment variables; some of them several times.
static void collect_names(const struct cmd *const *all, bool is_variables, struct strv *ret)
{
	for (; *all; all++)
		for (size_t t = 0; t < ARRAY_SIZE((*all)->opts) && (*all)->opts[t]; t++)
			for (const struct opt *o = (*all)->opts[t]; o->name; o++) {
				const char *name = is_variables ? o->env : o->name;
				if (!is_variables || (name && str_starts(name, PREFIX)))
					strv_add(ret, str_dup(name));
			}
}

// "_80_TCP", "_80_TCP_ADDR": what follows NAME_PORT of a service's port.
static bool is_port_rest(const char *rest)
{
	static const char *const protocols[] = { "TCP", "UDP", "SCTP" }, *const ends[] = { "", "_PROTO", "_PORT",
											   "_ADDR" };
	if (*rest != '_' || !isdigit((unsigned char)rest[1]))
		return false;
	rest += 1 + strspn(rest + 1, "0123456789");
	for (size_t p = 0; p < ARRAY_SIZE(protocols); p++)
		for (size_t e = 0; e < ARRAY_SIZE(ends); e++) {
			auto_str char *wanted = str_fmt("_%s%s", protocols[p], ends[e]);
			if (str_eq(rest, wanted))
				return true;
		}
	return false;
}

// kubernetes.io/docs/concepts/services-networking/service, "Environment variables": {NAME}_SERVICE_HOST,
// {NAME}_SERVICE_PORT, {NAME}_SERVICE_PORT_{PORT'S NAME}, and Docker's links {NAME}_PORT=tcp://...,
// {NAME}_PORT_80_TCP...
static bool is_service_link(const char *name, const char *value)
{
	if (str_ends(name, "_SERVICE_HOST") || str_ends(name, "_SERVICE_PORT") || strstr(name, "_SERVICE_PORT_"))
		return true;
	if (str_ends(name, "_PORT") && strstr(value, "://"))
		return true;
	for (const char *at = strstr(name, "_PORT_"); at; at = strstr(at + 1, "_PORT_"))
		if (is_port_rest(at + strlen("_PORT")))
			return true;
	return false;
}

// The option that somebody means with KMODSMITH_REST: by its name, or by its variable. One that has a variable comes
// first.
static const struct opt *find_meant(const struct cmd *const *all, const char *rest)
{
	const struct opt *found = NULL;
	auto_str char *name = str_dup(rest);
	for (char *c = name; *c; c++)
		*c = *c == '_' ? '-' : (char)tolower((unsigned char)*c);
	for (; *all; all++)
		for (size_t t = 0; t < ARRAY_SIZE((*all)->opts) && (*all)->opts[t]; t++)
			for (const struct opt *o = (*all)->opts[t]; o->name; o++)
				if ((str_eq(o->name, name) || (o->env && str_eq(o->env, rest))) &&
				    (!found || !found->env))
					found = o;
	return found;
}

// The prefix of all variables makes no two of them alike.
static char *hint_variable(const struct cmd *const *all, const char *rest, const struct strv *variables)
{
	const struct opt *meant = find_meant(all, rest);
	if (meant)
		return meant->env ? str_fmt("; did you mean '%s'?", meant->env) :
				    str_fmt("; --%s has none", meant->name);
	auto_strv struct strv rests = { 0 };
	for (size_t i = 0; i < variables->count; i++)
		strv_add(&rests, str_dup(variables->items[i] + strlen(PREFIX)));
	const char *near = opt_nearest(rest, &rests);
	return near ? str_fmt("; did you mean '%s%s'?", PREFIX, near) : str_dup("");
}

static int check_environment(const struct cmd *const *all, const char *const *others, struct err *err)
{
	auto_strv struct strv names = { 0 };
	for (; others && *others; others++)
		strv_add(&names, str_dup(*others));
	collect_names(all, true, &names);
	for (char **variable = environ; variable && *variable; variable++) {
		const char *value = strchr(*variable, '=');
		if (!str_starts(*variable, PREFIX) || !value)
			continue;
		auto_str char *name = str_ndup(*variable, (size_t)(value - *variable));
		if (strv_has(&names, name) || is_service_link(name, value + 1))
			continue;
		auto_str char *hint = hint_variable(all, name + strlen(PREFIX), &names);
		return err_set(err, E_CONFIG, "unknown environment variable '%s'%s", name, hint);
	}
	return 0;
}

struct parse {
	const struct cmd *cmd;
	const struct opt *opts[OPTS_MAX + 1];
	enum opt_source set_by[OPTS_MAX];
	unsigned lines[OPTS_MAX];
	size_t count, flags; // flags: with --output, if it means --json, which is no configuration key
	void *values;
};

static bool is_text_option(const struct opt *o)
{
	return o->type == OPT_STR || o->type == OPT_SECRET;
}

static bool is_list_option(const struct opt *o)
{
	return o->type == OPT_LIST || o->type == OPT_SECRETS;
}

static size_t find_option(const struct parse *p, const char *name) // p->count = the command has none
{
	size_t i = 0;
	while (i < p->count && !str_eq(p->opts[i]->name, name))
		i++;
	return i;
}

static void collect_options(const struct cmd *cmd, struct parse *p)
{
	static const struct opt output = { .name = "output", .letter = 'o', .arg = "json", .type = OPT_STR };
	for (size_t t = 0; t < ARRAY_SIZE(cmd->opts) && cmd->opts[t]; t++)
		for (const struct opt *o = cmd->opts[t]; o->name && p->count < OPTS_MAX; o++)
			p->opts[p->count++] = o;
	p->flags = p->count;
	if (find_option(p, "json") < p->count && find_option(p, "output") == p->count)
		p->opts[p->flags++] = &output;
}

const struct opt *opt_output_json(const struct cmd *cmd)
{
	struct parse p = { 0 };
	collect_options(cmd, &p);
	return p.flags > p.count ? p.opts[p.count] : NULL;
}

bool opt_choices(const struct opt *o, struct strv *ret)
{
	if (!o->arg || o->arg[strspn(o->arg, "abcdefghijklmnopqrstuvwxyz-_0123456789|")])
		return false;
	strv_split(ret, o->arg, "|");
	return true;
}

static int check_choice(const struct opt *o, const char *text, struct err *err)
{
	auto_strv struct strv choices = { 0 };
	if (!text || !opt_choices(o, &choices) || strv_has(&choices, text))
		return 0;
	auto_str char *all = strv_join(&choices, ", "), *hint = opt_hint(text, &choices);
	return err_set(err, E_USAGE, "--%s '%s' is not one of %s%s", o->name, text, all, hint);
}

// "a, b" is what people write.
static void add_list(struct strv *list, const char *text)
{
	auto_strv struct strv items = { 0 };
	strv_split(&items, text, ",");
	for (size_t i = 0; i < items.count; i++) {
		const char *item = str_trim(items.items[i]);
		if (*item)
			strv_add(list, str_dup(item));
	}
}

// Most names of a source, a proxy or a key hold no password; of a key the one who opens it sees to it.
static void guard_password(const struct opt *o, const char *text)
{
	if ((o->type == OPT_SECRET || o->type == OPT_SECRETS) && text && strchr(text, '@'))
		secret_guard();
}

static int set_value(struct parse *p, size_t i, const char *text, enum opt_source from, struct err *err)
{
	static const char *const yes[] = { "yes", "true", "1", "on" }, *const no[] = { "no", "false", "0", "off" };
	const struct opt *o = p->opts[i];
	void *at = (char *)p->values + o->offset;
	uint64_t number;
	size_t k = 0;
	switch (o->type) {
	case OPT_FLAG:
		while (text && k < ARRAY_SIZE(yes) && !str_eq(text, yes[k]) && !str_eq(text, no[k]))
			k++;
		if (k == ARRAY_SIZE(yes))
			return err_set(err, E_USAGE, "%s: '%s' is not yes or no", o->name, text);
		*(bool *)at = !text || str_eq(text, yes[k]);
		break;
	case OPT_STR:
	case OPT_SECRET:
		free(*(char **)at);
		*(char **)at = str_dup(text);
		guard_password(o, text);
		break;
	case OPT_LIST:
	case OPT_SECRETS:
		if (p->set_by[i] < from)
			strv_done(at);
		add_list(at, text);
		guard_password(o, text);
		break;
	case OPT_UINT:
		if (!str_u64(text, 10, &number) || number > UINT_MAX)
			return err_set(err, E_USAGE, "%s: '%s' is not a whole number", o->name, text);
		*(unsigned *)at = (unsigned)number;
		break;
	}
	p->set_by[i] = from;
	return 0;
}

static int config_line(struct parse *p, const struct opt_input *in, char *line, unsigned number, struct err *err)
{
	char *equals = strchr(line, '=');
	if (!equals)
		return err_set(err, E_CONFIG, "'%s' is not of the form KEY = VALUE", line);
	*equals = '\0';
	const char *key = str_trim(line), *value = str_trim(equals + 1);
	for (size_t i = 0; i < p->count; i++) {
		if (!str_eq(p->opts[i]->name, key))
			continue;
		p->lines[i] = number;
		return set_value(p, i, value, OPT_FILE, err) < 0 ? err_code(err, E_CONFIG) : 0;
	}
	auto_strv struct strv names = { 0 };
	collect_names(in->all, false,
		      &names); // a key of another command is not an error, nor one of an earlier version
	if (strv_has(&names, key) || str_eq(key, "cert"))
		return 0;
	auto_str char *hint = opt_hint(key, &names);
	return err_set(err, E_CONFIG, "unknown key '%s'%s", key, hint);
}

static int from_config(struct parse *p, const struct opt_input *in, struct err *err)
{
	const char *config = in->config;
	unsigned number = 0;
	while (config && *config) {
		size_t len = strcspn(config, "\n");
		auto_str char *line = str_ndup(config, len);
		char *text = str_trim(line);
		number++;
		if (*text && *text != '#' && config_line(p, in, text, number, err) < 0)
			return err_wrap(err, "'%s', line %u", in->config_name, number);
		config += len + (config[len] == '\n');
	}
	return 0;
}

static int from_env(struct parse *p, struct err *err)
{
	for (size_t i = 0; i < p->count; i++) {
		const char *text = p->opts[i]->env ? getenv(p->opts[i]->env) : NULL;
		if (text && *text && set_value(p, i, text, OPT_ENV, err) < 0) {
			err_wrap(err, "environment variable %s", p->opts[i]->env);
			return err_code(err, E_CONFIG);
		}
	}
	return 0;
}

static int set_output(struct parse *p, const char *format, struct err *err)
{
	if (!str_eq(format, "json"))
		return err_set(err, E_USAGE, "--output '%s': '%s' prints text, or json", format, p->cmd->name);
	return set_value(p, find_option(p, "json"), NULL, OPT_FLAGS, err);
}

enum { HELP_ALL = 1 }; // no letter, and below the numbers of options

// glibc leaves in optopt the letter, or the value of a long option that got an argument it does not take, or 0.
static int unknown_option(const struct parse *p, const char *word, struct err *err)
{
	if (optopt >= 256 || optopt == 'h' || optopt == HELP_ALL)
		return err_set(err, E_USAGE, "option '--%s' takes no value",
			       optopt == 'h'      ? "help" :
			       optopt == HELP_ALL ? "help-all" :
						    p->opts[optopt - 256]->name);
	if (optopt)
		return err_set(err, E_USAGE, "unknown option '-%c' for '%s'", optopt, p->cmd->name);
	auto_strv struct strv names = { 0 }, longer = { 0 };
	auto_str char *name = str_ndup(word, strcspn(word, "="));
	for (size_t i = 0; i < p->flags; i++) {
		strv_add(&names, str_fmt("--%s", p->opts[i]->name));
		if (str_starts(names.items[i], name))
			strv_add(&longer, str_dup(names.items[i]));
	}
	auto_str char *all = strv_join(&longer, ", ");
	if (longer.count)
		return err_set(err, E_USAGE, "option '%s' of '%s' is ambiguous: %s", word, p->cmd->name, all);
	auto_str char *hint = opt_hint(name, &names);
	return err_set(err, E_USAGE, "unknown option '%s' for '%s'%s", word, p->cmd->name, hint);
}

static int from_flags(struct parse *p, int argc, char **argv, struct err *err)
{
	struct option longs[OPTS_MAX + 4];
	char letters[2 * OPTS_MAX + 5], *letter = letters;
	*letter++ = ':';
	for (size_t i = 0; i < p->flags; i++) {
		const struct opt *o = p->opts[i];
		int has_value = o->type == OPT_FLAG ? no_argument : required_argument;
		longs[i] = (struct option){ o->name, has_value, NULL, (int)i + 256 }; // 256: not taken for a letter
		if (!o->letter)
			continue;
		*letter++ = o->letter;
		if (has_value)
			*letter++ = ':';
	}
	longs[p->flags] = (struct option){ "help", no_argument, NULL, 'h' };
	longs[p->flags + 1] = (struct option){ "help-all", no_argument, NULL, HELP_ALL };
	longs[p->flags + 2] = (struct option){ 0 };
	*letter++ = 'h';
	*letter = '\0';
	optind = 0;
	opterr = 0;
	for (int value; (value = getopt_long(argc, argv, letters, longs, NULL)) != -1;) {
		if (value == 'h' || value == HELP_ALL)
			return value == 'h' ? OPT_HELP : OPT_HELP_ALL;
		if (value == ':')
			return err_set(err, E_USAGE, "option '%s' needs a value", argv[optind - 1]);
		if (value == '?')
			return unknown_option(p, argv[optind - 1], err);
		size_t i = value >= 256 ? (size_t)value - 256 : 0;
		while (value < 256 && i < p->flags && p->opts[i]->letter != value)
			i++;
		if ((i < p->count ? set_value(p, i, optarg, OPT_FLAGS, err) : set_output(p, optarg, err)) < 0)
			return err_wrap(err, "command line");
	}
	return 0;
}

// `install VERSION` is `install --driver VERSION`.
static int from_argument(struct parse *p, const char *text, struct err *err)
{
	size_t i = find_option(p, p->cmd->args_option);
	const char *flag = p->set_by[i] == OPT_FLAGS ? *(char **)((char *)p->values + p->opts[i]->offset) : text;
	if (!str_eq(flag, text))
		return err_set(err, E_USAGE, "'%s %s' contradicts --%s %s", p->cmd->name, text, p->opts[i]->name, flag);
	return set_value(p, i, text, OPT_FLAGS, err);
}

static const struct opt_origin *find_origin(const struct opt_parsed *parsed, const char *name)
{
	for (size_t i = 0; i < parsed->opts; i++)
		if (str_eq(parsed->origins[i].opt->name, name))
			return &parsed->origins[i];
	return NULL;
}

enum opt_source opt_source_of(const struct opt_parsed *parsed, const char *name)
{
	const struct opt_origin *o = find_origin(parsed, name);
	return o && !o->to ? o->by : OPT_DEFAULT;
}

static void unset_value(const struct opt *o, void *at)
{
	switch (o->type) {
	case OPT_FLAG:
		*(bool *)at = false;
		break;
	case OPT_STR:
	case OPT_SECRET:
		free(TAKE(*(char **)at));
		break;
	case OPT_LIST:
	case OPT_SECRETS:
		strv_done(at);
		break;
	case OPT_UINT:
		*(unsigned *)at = 0;
		break;
	}
}

// By the sources as they were: that an option gave way itself does not bring back what gave way to it.
static void apply_ranks(const struct opt_rank *rank, void *values, struct opt_parsed *ret)
{
	for (; rank && rank->option; rank++) {
		const struct opt_origin *to = find_origin(ret, rank->to), *o = find_origin(ret, rank->option);
		if (!o || !to || !o->by || o->to || o->by >= to->by)
			continue;
		ret->origins[o - ret->origins].to = rank->to;
		unset_value(o->opt, (char *)values + o->opt->offset);
	}
}

int opt_parse(const struct cmd *cmd, const struct opt_input *in, void *values, struct opt_parsed *ret, struct err *err)
{
	struct parse p = { .cmd = cmd, .values = values };
	collect_options(cmd, &p);
	if (from_config(&p, in, err) < 0 || check_environment(in->all, in->variables, err) < 0 || from_env(&p, err) < 0)
		return -1;
	int r = from_flags(&p, in->argc, in->argv, err);
	if (r)
		return r;
	size_t count = (size_t)(in->argc - optind);
	if (count < cmd->args_min)
		return err_set(err, E_USAGE, "'%s' needs %s", cmd->name, cmd->args);
	if (count > cmd->args_max)
		return err_set(err, E_USAGE, "'%s' does not take '%s'", cmd->name,
			       in->argv[optind + (int)cmd->args_max]);
	if (count && cmd->args_option && from_argument(&p, in->argv[optind], err) < 0)
		return -1;
	*ret = (struct opt_parsed){ .args = in->argv + optind, .count = count, .opts = p.count };
	for (size_t i = 0; i < p.count; i++)
		ret->origins[i] = (struct opt_origin){ .opt = p.opts[i], .by = p.set_by[i], .line = p.lines[i] };
	apply_ranks(in->ranks, values, ret);
	for (size_t i = 0; i < p.count; i++)
		if (is_text_option(p.opts[i]) &&
		    check_choice(p.opts[i], *(char **)((char *)values + p.opts[i]->offset), err) < 0) {
			opt_blame(in, ret, values, err);
			return -1;
		}
	return 0;
}

// "--NAME" as a word, or "NAME: " where the text begins.
static bool names_option(const char *text, const char *name)
{
	size_t length = strlen(name);
	if (str_starts(text, name) && str_starts(text + length, ": "))
		return true;
	auto_str char *option = str_fmt("--%s", name);
	for (const char *at = strstr(text, option); at; at = strstr(at + 1, option))
		if (!strchr("-abcdefghijklmnopqrstuvwxyz", at[length + 2]) || !at[length + 2])
			return true;
	return false;
}

static bool quotes_text(const char *text, const char *value)
{
	auto_str char *quoted = value && *value ? str_fmt("'%s'", value) : NULL;
	return quoted && strstr(text, quoted);
}

static bool quotes_value(const char *text, const struct opt *o, const void *at)
{
	const struct strv *list = at;
	if (is_text_option(o))
		return quotes_text(text, *(char *const *)at);
	for (size_t i = 0; is_list_option(o) && i < list->count; i++)
		if (quotes_text(text, list->items[i]))
			return true;
	return false;
}

void opt_blame(const struct opt_input *in, const struct opt_parsed *parsed, const void *values, struct err *err)
{
	if (err->code != E_USAGE)
		return;
	for (size_t i = 0; i < parsed->opts; i++) {
		const struct opt_origin *origin = &parsed->origins[i];
		const struct opt *o = origin->opt;
		if ((origin->by != OPT_FILE && origin->by != OPT_ENV) || origin->to ||
		    !(names_option(err->text, o->name) || quotes_value(err->text, o, (const char *)values + o->offset)))
			continue;
		if (origin->by == OPT_FILE)
			err_wrap(err, "'%s', line %u, key '%s'", in->config_name, origin->line, o->name);
		else
			err_wrap(err, "environment variable %s", o->env);
		err_code(err, E_CONFIG);
		return;
	}
}

void opt_done(const struct cmd *cmd, void *values)
{
	struct parse p = { 0 };
	collect_options(cmd, &p);
	for (size_t i = 0; i < p.count; i++) {
		void *at = (char *)values + p.opts[i]->offset;
		if (is_list_option(p.opts[i]))
			strv_done(at);
		else if (is_text_option(p.opts[i]))
			free(TAKE(*(char **)at));
	}
}

static bool takes_option(const struct cmd *cmd, const struct opt *o)
{
	struct parse p = { 0 };
	collect_options(cmd, &p);
	for (size_t i = 0; i < p.count; i++)
		if (str_eq(p.opts[i]->name, o->name))
			return p.opts[i]->type == o->type;
	return false;
}

static void add_words(const struct opt *o, const void *at, struct strv *ret, struct strv *ret_env)
{
	const struct strv *list = at;
	if ((o->type == OPT_SECRET || o->type == OPT_SECRETS) && o->env) {
		auto_str char *text = is_list_option(o) ? strv_join(list, ",") : str_dup(*(char *const *)at);
		if (text && *text) { // an empty variable counts as none
			strv_add(ret_env, str_fmt("%s=%s", o->env, text));
			return;
		}
	}
	switch (o->type) {
	case OPT_FLAG:
		if (*(const bool *)at)
			strv_add(ret, str_fmt("--%s", o->name));
		break;
	case OPT_STR:
	case OPT_SECRET:
		if (*(char *const *)at)
			strv_add(ret, str_fmt("--%s=%s", o->name, *(char *const *)at));
		break;
	case OPT_LIST:
	case OPT_SECRETS:
		for (size_t i = 0; i < list->count; i++)
			strv_add(ret, str_fmt("--%s=%s", o->name, list->items[i]));
		break;
	case OPT_UINT:
		if (*(const unsigned *)at)
			strv_add(ret, str_fmt("--%s=%u", o->name, *(const unsigned *)at));
		break;
	}
}

void opt_words(const struct opt *const *tables, const void *values, const struct cmd *cmd, struct strv *ret,
	       struct strv *ret_env)
{
	for (; *tables; tables++)
		for (const struct opt *o = *tables; o->name; o++)
			if (takes_option(cmd, o))
				add_words(o, (const char *)values + o->offset, ret, ret_env);
}
