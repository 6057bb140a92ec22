// SPDX-License-Identifier: Apache-2.0
// The names that the program is called by, and the dispatch to its commands.
#include "base/process/launch.h"
#include "cmd/common/common.h"
#include "cmd/common/complete.h"
#include "cmd/common/entry.h"
#include "cmd/container/driver_manager.h"
#include "cmd/container/dtk.h"
#include "cmd/container/nvidia_driver.h"
#include "kmod/sandbox/sandbox.h"

#include <sys/stat.h>

// `kubectl kmodsmith VERB` calls kubectl-kmodsmith with the verb and what follows.
static int kubectl_main(int argc, char **argv)
{
	static char group[] = "rollout";
	argv[0] = group;
	return entry_run_words(argc, argv);
}

static const struct program {
	const char *name;
	int (*main)(int argc, char **argv);
} programs[] = {
	{ "nvidia-driver", nvidia_driver_main }, { "driver-manager", driver_manager_main },   { DTK_PROGRAM, dtk_main },
	{ "kubectl-kmodsmith", kubectl_main },   { COMPLETE_KUBECTL, complete_kubectl_main },
};

int main(int argc, char **argv)
{
	umask(022); // public files must be readable for others; private ones are made with their own mode
	if (argc > 1 && str_eq(argv[1], SANDBOX_ARG))
		return sandbox_main(argc, argv);
	if (argc > 1 && str_eq(argv[1], LAUNCH_ARG))
		return launch_main(argc, argv);
	entry_open_stdio();
	const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL, *name = slash ? slash + 1 : argv[0];
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
		if (str_eq(name, programs[i].name))
			return programs[i].main(argc, argv);
	return argc > 2 && str_eq(argv[1], COMPLETE_ARG) ? complete_main(argc - 2, argv + 2) : entry_main(argc, argv);
}
