// SPDX-License-Identifier: Apache-2.0
// completion: the scripts by which the shells ask `kmodsmith __complete`, of packaging/completion.
#include "cmd/common/common.h"

extern const char completion_bash[], completion_zsh[], completion_fish[];
#define SCRIPT(shell)                                                                                                \
	__asm__(".pushsection .rodata\ncompletion_" shell ": .incbin \"packaging/completion/kmodsmith." shell "\"\n" \
		".byte 0\n.popsection")
SCRIPT("bash");
SCRIPT("zsh");
SCRIPT("fish");

static const struct script {
	const char *shell, *text;
} scripts[] = { { "bash", completion_bash }, { "zsh", completion_zsh }, { "fish", completion_fish } };

static int run_completion(void *values, char **args, size_t count, struct err *err)
{
	(void)values, (void)count;
	for (size_t i = 0; i < ARRAY_SIZE(scripts); i++)
		if (str_eq(scripts[i].shell, args[0])) {
			printf("%s", scripts[i].text);
			return 0;
		}
	return err_set(err, E_USAGE, "unknown shell '%s' (expected bash, zsh or fish)", args[0]);
}

const struct cmd cmd_completion = {
	.name = "completion",
	.args = "bash|zsh|fish",
	.args_min = 1,
	.args_max = 1,
	.help = "print what makes a shell complete commands, options and values",
	.about = "The packages and `make install` have put it where the shells look. A program that was only copied\n"
		 "needs a line in the file that the shell reads at its start:\n\n"
		 "  source <(kmodsmith completion bash)     # ~/.bashrc\n"
		 "  source <(kmodsmith completion zsh)      # ~/.zshrc, below compinit\n"
		 "  kmodsmith completion fish | source      # ~/.config/fish/config.fish\n",
	.opts = { common_opts },
	.values_size = sizeof(struct common),
	.run = run_completion,
};
