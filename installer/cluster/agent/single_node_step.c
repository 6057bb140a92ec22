// SPDX-License-Identifier: Apache-2.0
// The agent that is its own coordinator: `mode: self`.
#include "cluster/agent/agent_internal.h"
#include "cluster/kube/api.h"
#include "cluster/kube/clock.h"

#include <ctype.h>

enum { STEPS_MOST = 16 };

bool agent_is_self(const struct agent *a)
{
	return a->policy.mode == MODE_SELF;
}

const struct record *agent_orders(const struct agent *a)
{
	if (agent_is_self(a))
		return &a->self.m.record;
	return a->node.is_read ? &a->node.m.record : NULL;
}

// In the log, and on the Node where that is to be had. The words of the rules are of cordons and evictions, which there
// are none of here.
static void report_step(struct agent *a, const struct single_node_step *step)
{
	struct err why;
	const char *name = node_phase_info(step->to)->name;
	const struct node_reason_info *info = node_reason_info(step->reason.code);
	auto_str char *cause = step->reason.code == REASON_NONE ?
				       str_dup("") :
				       str_fmt(" (%s%s%s; next: %s)", info->code, *step->reason.object ? " " : "",
					       step->reason.object, info->next);
	auto_str char *message = str_fmt("by its own order: %s%s", name, cause);
	if (step->to == PHASE_CORDONED || step->to == PHASE_RELEASING)
		return;
	auto_str char *reason = str_fmt("Rollout%c%s", toupper((unsigned char)*name), name + 1);
	const struct api_event event = { .node = a->site->node,
					 .uid = a->node.m.uid,
					 .reason = reason,
					 .message = message,
					 .is_warning = step->to == PHASE_FAILED || step->to == PHASE_HELD ||
						       step->to == PHASE_ROLLEDBACK || step->to == PHASE_RESTORING,
					 .component = "kmodsmith-agent" };
	a->site->machine.did(a->site->machine.ctx, message);
	if (a->node.is_read && api_event(a->site->kube, &event, &why) < 0)
		agent_log_trouble_once(a, "an event", &why);
}

// By what the agent would tell a coordinator, and by nothing else.
void agent_command(struct agent *a)
{
	static const struct node_facts nobody;
	struct agent_annotations words;
	struct single_node_step step;
	struct err why;
	if (!agent_is_self(a) || !a->facts.is_known)
		return;
	agent_annotations(&a->journal, &a->facts, &a->told, a->site->boot, &words);
	for (int i = 0; i < STEPS_MOST; i++) {
		int r = single_node_step(&a->self, a->site->state, &a->policy, &words,
					 a->node.is_read ? &a->node.m.facts : &nobody, kube_wall_s(), &step, &why);
		if (r < 0)
			agent_stuck(a, &a->is_unordered, "nothing is ordered", &why);
		else if (a->is_unordered)
			agent_unstuck(a, &a->is_unordered);
		if (r <= 0)
			return;
		if (step.is_move)
			report_step(a, &step);
	}
}
