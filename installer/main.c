// SPDX-License-Identifier: Apache-2.0
#include "kmod/sandbox.h"

int main(int argc, char **argv)
{
	return argc > 1 && str_eq(argv[1], SANDBOX_ARG) ? sandbox_main(argc, argv) : 0;
}
