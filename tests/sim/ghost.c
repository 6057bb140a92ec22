// SPDX-License-Identifier: Apache-2.0
// Requests that are still under way when whoever sent them has given up, or is dead.
#include "tests/sim/own.h"

struct sim_ghost {
	struct sim *sim;
	char *client, *method, *path, *type;
	json_t *body;
	struct sim_ghost *next;
};

void sim_ghosts_free(struct sim_ghost *g)
{
	while (g) {
		struct sim_ghost *next = g->next;
		free(g->client);
		free(g->method);
		free(g->path);
		free(g->type);
		json_decref(g->body);
		free(g);
		g = next;
	}
}

static void deliver_late_request(void *ctx)
{
	const struct sim_ghost *g = ctx;
	auto_sim_path struct sim_path p = { 0 };
	auto_sim_answer struct sim_answer a = { 0 };
	struct sim_request r = { .client = g->client,
				 .method = g->method,
				 .path = g->path,
				 .type = g->type,
				 .body = g->body,
				 .is_late = true };
	sim_address(&r, &p);
	sim_serve(g->sim, &r, &p, &a);
}

void sim_linger(struct sim *s, const struct sim_request *r, long late_ms)
{
	struct sim_ghost *g = mem_alloc(sizeof(*g));
	*g = (struct sim_ghost){ .sim = s,
				 .client = str_dup(r->client),
				 .method = str_dup(r->method),
				 .path = str_dup(r->path),
				 .type = str_dup(r->type),
				 .body = json_deep_copy(r->body),
				 .next = s->ghosts };
	s->ghosts = g;
	sim_after(late_ms, deliver_late_request, g);
}
