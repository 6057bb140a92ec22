// SPDX-License-Identifier: Apache-2.0
// The text of --help: wrapped to a width, the options in groups, those that most users need first.
#pragma once
#include "base/options/opt.h"

enum { HELP_WIDTH = 80 }; // where the output is no terminal

// is_all: also the groups that a command with many options leaves to --help-all.
char *help_command(const struct cmd *cmd, bool is_all, size_t width);
// Adds words, wrapped to width. column: where the text stands now, and where each further line begins.
void help_wrap(char **text, const char *words, size_t column, size_t width);
// "  LEFT     words": a row of a list, its words at column.
void help_row(char **text, const char *left, const char *words, size_t column, size_t width);
// The lines of about that are examples: those that begin with blanks.
char *help_examples(const struct cmd *cmd);
