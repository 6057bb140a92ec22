// SPDX-License-Identifier: Apache-2.0
// The pod of a validation: made from the user's PodTemplate, and what its status says about the driver. Pure.
#pragma once
#include "base/formats/json.h"
#include "cluster/rollout/transition.h"

struct validation_pod {
	const char *node, *uid;  // of the node
	struct seq order;        // that proved its driver
	const char *allocatable; // see baseline_read_resources()
	unsigned deadline;       // seconds
};
// One for each order, so that it is found again, and never made twice. Caller frees.
char *validation_pod_name(const struct validation_pod *p);
// On that node, whatever taints it has, with all its GPUs unless the template asks for some itself. E_CONFIG: the
// template has what a validation may not have.
int validation_pod_make(const json_t *template, const struct validation_pod *p, json_t **ret, struct err *err);
// text: why it waits, or how it failed. deadline: its own, in seconds.
enum job_state validation_pod_judge(const json_t *pod, unsigned deadline, int64_t now, char text[OBJECT_TEXT]);
bool validation_pod_is_over(const json_t *pod);
void validation_pod_say(const char *what, char text[OBJECT_TEXT]); // the beginning, in plain characters
