// SPDX-License-Identifier: Apache-2.0
#include "cmd/entry.h"

#include "cmd/common.h"

#include <stdio.h>

static const char CONFIG_FILE[] = "etc/kmodsmith/kmodsmith.conf";

const struct cmd *entry_find(const char *name)
{
	for (size_t i = 0; commands[i]; i++)
		if (str_eq(commands[i]->name, name))
			return commands[i];
	return NULL;
}

int entry_usage(bool is_error)
{
	FILE *out = is_error ? stderr : stdout;
	fprintf(out, "kmodsmith puts the NVIDIA kernel driver on GPU nodes and keeps it right.\n\n"
		     "Usage: kmodsmith COMMAND [OPTIONS] [ARGUMENTS]\n\nCommands:\n");
	for (size_t i = 0; commands[i]; i++)
		fprintf(out, "  %-12s %s\n", commands[i]->name, commands[i]->help);
	fprintf(out, "\n`kmodsmith COMMAND --help` teaches each one; `kmodsmith --version` tells the version.\n");
	return is_error ? err_info(E_USAGE)->exit_status : 0;
}

int entry_unknown(const char *name)
{
	struct err err;
	err_set(&err, E_USAGE, "unknown command '%s'; `kmodsmith --help` lists them", name);
	log_err(&err);
	return err_info(err.code)->exit_status;
}

// KMODSMITH_CONFIG names a file that must exist; the default one may be absent.
static int read_config(char **ret, struct err *err)
{
	const char *named = getenv("KMODSMITH_CONFIG");
	auto_root struct root slash = ROOT_NONE;
	if (root_init(&slash, "/", err) < 0)
		return -1;
	int r = root_read(&slash, named ? named : CONFIG_FILE, ret, NULL, err);
	if (r == 0 && named)
		return err_set(err, E_CONFIG, "KMODSMITH_CONFIG names '%s', which does not exist", named);
	return r;
}

static int setup_log(const struct common *c, struct err *err)
{
	if (c->log_format && !str_eq(c->log_format, "text") && !str_eq(c->log_format, "json"))
		return err_set(err, E_USAGE, "log-format: '%s' is neither text nor json", c->log_format);
	log_setup(c->is_quiet     ? LOG_LEVEL_WARN
		  : c->is_verbose ? LOG_LEVEL_DEBUG
				  : LOG_LEVEL_INFO,
		  str_eq(c->log_format, "json"));
	return 0;
}

static void show_failure(const struct err *err, bool is_json)
{
	const struct err_info *info = err_info(err->code);
	log_err(err);
	if (!is_json)
		return;
	auto_json json_t *failure =
		json_pack("{s:{s:s, s:s, s:b, s:o, s:s}}", "error", "code", info->name, "reason", info->reason,
			  "retryable", info->retryable, "text", json_text(err->text), "next", info->next);
	show_json(failure);
}

static int parse_and_run(const struct cmd *cmd, int argc, char **argv, void *values, struct err *err)
{
	auto_str char *config = NULL;
	char **args = NULL;
	size_t count = 0;
	if (read_config(&config, err) < 0)
		return -1;
	int r = opt_parse(cmd, commands, argc, argv, config, values, &args, &count, err);
	if (r > 0) {
		auto_str char *help = opt_help(cmd);
		printf("%s", help);
		return 0;
	}
	if (r < 0 || setup_log(values, err) < 0)
		return -1;
	return cmd->run(values, args, count, err);
}

int entry_run(const struct cmd *cmd, int argc, char **argv)
{
	struct err err = { 0 };
	void *values = mem_alloc(cmd->values_size);
	int r = parse_and_run(cmd, argc, argv, values, &err);
	bool is_json = ((const struct common *)values)->is_json;
	opt_done(cmd, values);
	free(values);
	if (r >= 0 && fflush(stdout) == 0)
		return r;
	if (r >= 0)
		err_set(&err, E_SYSTEM, "write the result to standard output: %m");
	show_failure(&err, is_json);
	return err_info(err.code)->exit_status;
}
