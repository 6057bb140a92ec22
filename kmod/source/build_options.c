// SPDX-License-Identifier: Apache-2.0
#include "kmod/source/build_options.h"

#include "kmod/kernel_tree/tree.h"

int build_options_check(const struct build_options *options, const struct tree *tree, struct err *err)
{
	return !tree->is_rt || options->is_rt_allowed ?
		       0 :
		       err_set(err, E_SOURCE_KERNEL,
			       "kernel %s is PREEMPT_RT, which NVIDIA does not support; --allow-rt builds anyway",
			       tree->release);
}
