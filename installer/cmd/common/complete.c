// SPDX-License-Identifier: Apache-2.0
#include "cmd/common/complete.h"

#include "base/file/file.h"
#include "cmd/common/common.h"
#include "cmd/common/entry.h"
#include "cmd/common/usage.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { DEADLINE_S = 2 }; // somebody waits at a prompt

// As cobra has them: the last line of what is offered.
static const char NO_FILES[] = ":4\n", FILES[] = ":0\n";

// Shells expand what they are offered, and names come from files and clusters. help: NULL = none.
static void print_word(const char *typed, const char *word, const char *help)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:@/+=";
	if (str_starts(word, typed) && !word[strspn(word, plain)])
		printf("%s%s%s\n", word, help ? "\t" : "", help ? help : "");
}

// The first words of all commands, or the verbs of a group.
static void offer_commands(const struct group *group, const char *typed)
{
	const struct group *last = NULL;
	for (size_t i = 0; commands[i]; i++) {
		const struct group *its = usage_group_of(commands[i]);
		if (group ? its == group : !its)
			print_word(typed, commands[i]->name + (group ? strlen(group->name) + 1 : 0), commands[i]->help);
		else if (!group && its != last)
			print_word(typed, its->name, its->help);
		last = its;
	}
}

// By its name or its letter. NULL = there is none.
static const struct opt *find_option(const struct cmd *cmd, const char *name, char letter)
{
	for (size_t t = 0; t < ARRAY_SIZE(cmd->opts) && cmd->opts[t]; t++)
		for (const struct opt *o = cmd->opts[t]; o->name; o++)
			if (name ? str_eq(o->name, name) : o->letter == letter)
				return o;
	const struct opt *output = opt_output_json(cmd);
	return output && (name ? str_eq(output->name, name) : output->letter == letter) ? output : NULL;
}

static void offer_options(const struct cmd *cmd, const char *typed)
{
	for (size_t t = 0; t < ARRAY_SIZE(cmd->opts) && cmd->opts[t]; t++)
		for (const struct opt *o = cmd->opts[t]; o->name; o++) {
			auto_str char *word = str_fmt("--%s", o->name);
			print_word(typed, word, o->help);
		}
	print_word(typed, "--help", "the options on standard output");
	if (cmd->often)
		print_word(typed, "--help-all", "every option, also the rare ones");
}

// The option of this word that takes a value: *ret_value is the one in "--flavour=open" and "-fopen", NULL = it is the
// next word.
static const struct opt *find_valued(const struct cmd *cmd, const char *word, const char **ret_value)
{
	const struct opt *o = NULL;
	const char *end = word + strcspn(word, "=");
	*ret_value = NULL;
	if (str_starts(word, "--")) {
		auto_str char *name = str_ndup(word + 2, (size_t)(end - word - 2));
		o = find_option(cmd, name, 0);
		*ret_value = *end ? end + 1 : NULL;
	}
	for (const char *letter = word + 1; *word == '-' && word[1] != '-' && *letter && !(o && o->arg); letter++) {
		o = find_option(cmd, NULL, *letter);
		*ret_value = letter[1] ? letter + 1 : NULL;
	}
	return o && o->arg ? o : NULL;
}

static bool is_path(const char *arg)
{
	static const char *const paths[] = { "FILE", "DIR", "PATH", "ROOT", "LAYOUT", "SOURCE", "DEST" };
	arg += strspn(arg, "[");
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		if (str_starts(arg, paths[i]))
			return true;
	return false;
}

// Finds the word for this argument in the synopsis; the last may be repeated. NULL = there is none.
static char *argument_name(const struct cmd *cmd, size_t argument)
{
	auto_strv struct strv names = { 0 };
	strv_split(&names, cmd->args ? cmd->args : "", " ");
	if (argument >= cmd->args_max || !names.count)
		return NULL;
	return str_dup(names.items[argument < names.count ? argument : names.count - 1]);
}

// argv[0] is the last word of the command, argv[argc - 1] what was typed so far. Returns the last line.
static const char *offer_values(const struct cmd *cmd, int argc, char **argv)
{
	const struct opt *option = NULL;
	const char *typed = argv[argc - 1], *value = typed, *inside = NULL;
	auto_strv struct strv words = { 0 };
	size_t argument = 0;
	bool is_end = false; // of the options
	for (int i = 1; i < argc - 1; i++) {
		bool is_value = option != NULL, is_option = !is_value && !is_end && *argv[i] == '-' && argv[i][1];
		is_end |= is_option && str_eq(argv[i], "--");
		option = is_option ? find_valued(cmd, argv[i], &inside) : NULL;
		if (inside)
			option = NULL;
		argument += !is_value && !is_option;
	}
	int before = argc - (option ? 2 : 1);
	if (!option && !is_end && *typed == '-') {
		option = find_valued(cmd, typed, &inside);
		if (!option || !inside) {
			offer_options(cmd, typed);
			return NO_FILES;
		}
		value = inside;
	}
	auto_str char *arg = option ? str_dup(option->arg) : argument_name(cmd, argument);
	const struct opt its = { .arg = arg };
	if (!opt_choices(&its, &words) && cmd->offer) {
		void *values = mem_alloc(cmd->values_size);
		entry_values(cmd, before, argv, values); // incomplete as it is
		cmd->offer(values, option ? option->name : NULL, argument, &words);
		opt_done(cmd, values);
		free(values);
	}
	for (size_t i = 0; i < words.count; i++) {
		auto_str char *word = str_fmt("%.*s%s", (int)(value - typed), typed, words.items[i]);
		print_word(typed, word, NULL);
	}
	return arg && !words.count && is_path(arg) ? FILES : NO_FILES;
}

static void give_up(int signal)
{
	(void)signal;
	_exit(write(STDOUT_FILENO, NO_FILES, strlen(NO_FILES)) < 0);
}

int complete_main(int argc, char **argv)
{
	struct err ignored;
	int words = 0, null = file_open_arg("/dev/null", O_WRONLY, &ignored);
	bool is_help = argc > 1 && str_eq(argv[0], "help");
	dup2(null, STDERR_FILENO); // a line of a log would be in the midst of what is typed
	signal(SIGALRM, give_up);
	alarm(DEADLINE_S);
	argc -= is_help;
	argv += is_help;
	const struct cmd *cmd = argc > 1 ? entry_find(argc - 1, argv, &words) : NULL;
	const struct group *group = argc == 2 ? usage_find_group(argv[0]) : NULL;
	const char *directive = NO_FILES;
	if (cmd && !is_help)
		directive = offer_values(cmd, argc - words + 1, argv + words - 1);
	else if (argc == 1 || group)
		offer_commands(group, argv[argc - 1]);
	if (argc == 1 && !is_help) {
		print_word(argv[0], "help", "the commands, or the options of one");
		print_word(argv[0], "--help", "the commands");
		print_word(argv[0], "--version", "the version and the commit");
	}
	printf("%s", directive);
	return 0;
}

int complete_kubectl_main(int argc, char **argv)
{
	static char group[] = "rollout";
	argv[0] = group;
	return complete_main(argc, argv);
}
