// SPDX-License-Identifier: Apache-2.0
// A farm with one coordinator, and what that one tells whoever logs and counts.
#pragma once
#include "tests/unit/lawful.h"

#define SECONDS(n) ((n)*1000L)
#define MINUTES(n) ((n)*60 * 1000L)
#define MAPS "/api/v1/namespaces/kmodsmith/configmaps"
static const char plain[] = "{'pools':[{'name':'gpus','maxUnavailable':'100%','target':{'driver':'535.2'}}]}";

struct heard {
	char *moves, *troubles; // one line each
	bool is_each_once;      // of troubles: what is said each time that something is read counts once
	unsigned leads, rests, blind, turns;
};

static inline void heard_move(void *ctx, const struct phase_change *t)
{
	struct heard *h = ctx;
	bool is_known = t->seconds >= 0;
	str_add(&h->moves, "%s: %s -> %s%s%s\n", t->node, node_phase_info(t->from)->name, node_phase_info(t->to)->name,
		is_known ? "" : ", nobody knows when it began", t->failing ? ", the order had failed" : "");
}
static inline void heard_trouble(void *ctx, const char *what, const struct err *err)
{
	struct heard *h = ctx;
	auto_str char *line = str_fmt("%s: %s\n", what, err->text);
	if (!h->is_each_once || !strstr(h->troubles, line))
		str_add(&h->troubles, "%s", line);
}
static inline void heard_lead(void *ctx)
{
	((struct heard *)ctx)->leads++;
}
static inline void heard_rest(void *ctx, const struct slots *s)
{
	struct heard *h = ctx;
	h->rests++;
	h->blind += !s;
}

static inline void begin(struct farm *f, struct farm_coordinator *coordinator, struct heard *h)
{
	*h = (struct heard){ .moves = str_dup(""), .troubles = str_dup("") };
	farm_coordinator_begin(f, coordinator, "boss");
	coordinator->c.o.callbacks = (struct coordinator_callbacks){
		.moved = heard_move, .trouble = heard_trouble, .leads = heard_lead, .rests = heard_rest, .ctx = h
	};
}
static inline void end(struct farm *f, struct farm_coordinator *coordinator, struct heard *h)
{
	lawful(f);
	farm_coordinator_kill(coordinator);
	farm_end(f);
	free(h->moves);
	free(h->troubles);
}
