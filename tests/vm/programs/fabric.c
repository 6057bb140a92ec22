// SPDX-License-Identifier: Apache-2.0
// Stands for nv-fabricmanager in guests, which have no switches that the real one could manage: reads the configuration
// that -c names, keeps a GPU open, and stays in the foreground until a signal. It ends at once where there is a file
// /run/nvidia-fabricmanager/fail.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char version[] = "Fabric Manager version is : " VERSION;

int main(int argc, char **argv)
{
	char line[256];
	FILE *config = argc == 3 && strcmp(argv[1], "-c") == 0 ? fopen(argv[2], "r") : NULL;
	puts(version);
	fflush(stdout);
	if (!config || access("/run/nvidia-fabricmanager/fail", F_OK) == 0)
		return 3;
	while (fgets(line, sizeof(line), config))
		if (strcmp(line, "DAEMONIZE=1\n") == 0)
			return 4;
	if (open("/dev/nvidia0", O_RDWR) < 0)
		return 5;
	for (;;)
		pause();
}
