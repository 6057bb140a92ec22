// SPDX-License-Identifier: Apache-2.0
// The table of commands and the way into them; no decision is made here.
#include "cmd/common.h"
#include "cmd/dtk.h"
#include "cmd/entry.h"
#include "kmod/sandbox.h"

int main(int argc, char **argv)
{
	if (argc > 1 && str_eq(argv[1], SANDBOX_ARG))
		return sandbox_main(argc, argv);
	entry_guard();
	const char *slash = argc ? strrchr(argv[0], '/') : NULL;
	if (argc && str_eq(slash ? slash + 1 : argv[0], DTK_PROGRAM))
		return dtk_main(argc, argv);
	if (argc < 2 || str_eq(argv[1], "--help") || str_eq(argv[1], "-h") || str_eq(argv[1], "help"))
		return entry_usage(argc < 2);
	if (str_eq(argv[1], "--version"))
		return entry_version();
	int words;
	const struct cmd *cmd = entry_find(argc - 1, argv + 1, &words);
	return cmd ? entry_run(cmd, argc - words, argv + words) : entry_unknown(argc - 1, argv + 1);
}
