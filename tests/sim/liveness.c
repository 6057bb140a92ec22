// SPDX-License-Identifier: Apache-2.0
// What the laws of a roll-out do not see in one request: how often a node was drained. Counted on every request, asked
// for by the tests.
#include "tests/sim/farm.h"

static bool is_cordoned(const json_t *node)
{
	return json_is_true(sim_at(node, "spec unschedulable"));
}

void liveness_look(struct farm *f, const struct sim_request *r, struct farm_node *n)
{
	(void)f;
	if (str_starts(r->client, "boss") && !is_cordoned(r->before) && is_cordoned(r->after))
		n->cordons++;
}
