// SPDX-License-Identifier: Apache-2.0
// The model check of upgrade-design 4.4: every world that can be reached from the first one by anything that nodes,
// agents, people and a coordinator that may stop between any two writes can do, breadth first, each visited once. The
// invariants are checked on every decision; from every world, faults ended, everything must come to rest (I12).
#include "tests/unit/rollout_acts.h"
#include "tests/unit/sample.h"

static bool is_at_rest(const struct world *w)
{
	for (unsigned i = 0; i < w->nodes; i++) {
		enum node_phase p = w->m[i].record.phase;
		if ((node_phase_info(p)->is_disruptive && p != PHASE_UNKNOWN) || p == PHASE_STAGING ||
		    p == PHASE_LOADING)
			return false;
	}
	return true;
}

// I12: nobody interferes any more, holders leave when asked, agents answer well or (is_bad) say that the target is bad.
// I11: and then nothing is written any more.
static bool settles(struct world w, bool is_bad)
{
	enum { ROUNDS = 80, WRITES = 60, QUIET = 12 };
	unsigned writes = 0, quiet = 0;
	for (unsigned round = 0; round < ROUNDS && quiet < QUIET; round++) {
		bool is_busy = write_ledger(&w);
		for (unsigned i = 0; i < w.nodes; i++) {
			struct decision d;
			bool is_target = target_hash_eq(&w.m[i].record.go.target_hash, &sides[NEW]);
			bool is_probe = w.m[i].record.go.verb == VERB_VALIDATE;
			environment(&w, i, ACT_LEAVE);
			if (!answer(&w, i, is_bad && is_target && is_probe ? ACT_PERMANENT : ACT_DONE) &&
			    w.m[i].record.go.verb != VERB_NONE && !heard(&w.m[i]))
				answer(&w, i, ACT_PERMANENT);
			decide(&w, i, &d);
			if (!check_decision(&w, i, &d))
				return false;
			if (d.rule) {
				apply(&w, i, &d);
				is_busy = true;
				writes++;
			}
		}
		quiet = is_busy ? 0 : quiet + 1;
		pass_time(&w);
	}
	if (quiet < QUIET || writes > WRITES)
		return violates("I11: it never stops writing", &w, 0);
	return is_at_rest(&w) || violates("I12: it never comes to rest", &w, 0);
}

// Visited worlds, each once, with where it came from.
struct seen {
	struct packed world;
	uint32_t from;
	uint8_t act, node;
};
static struct seen *seen;
static uint32_t *slots_of_table, count;
enum { TABLE = 1 << 23, WORLDS_MOST = 2500000 };

static uint32_t hash_of(const struct packed *p)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);
	const unsigned char *bytes = (const unsigned char *)p;
	for (size_t i = 0; i < sizeof(*p); i++)
		h = (h ^ bytes[i]) * UINT64_C(0x100000001b3);
	return (uint32_t)(h ^ h >> 29) & (TABLE - 1);
}

static void visit(const struct packed *p, uint32_t from, enum act act, unsigned node)
{
	uint32_t at = hash_of(p);
	for (; slots_of_table[at]; at = (at + 1) & (TABLE - 1))
		if (!memcmp(&seen[slots_of_table[at] - 1].world, p, sizeof(*p)))
			return;
	seen[count] = (struct seen){ *p, from, (uint8_t)act, (uint8_t)node };
	slots_of_table[at] = ++count;
}

static void show_node(const struct world *w, unsigned i)
{
	const struct record *r = &w->m[i].record;
	const struct report *a = &w->m[i].report;
	print_message("   %s %s%s go=%s:%u target=%u loaded=%u%s%s holders=%d attempts=%u.%u reason=%s slot=%d\n",
		      node_names[i], node_phase_info(r->phase)->name, r->has_phase ? "" : "(no label)",
		      verb_names[r->go.verb], side_of(&r->go.target_hash), side_of(&r->target), side_of(&a->loaded),
		      w->m[i].facts.is_unschedulable ? " cordoned" : "", r->receipt.is_there ? " receipt" : "",
		      a->holders, r->attempts, r->tries, node_reason_info(r->reason.code)->code, (int)w->slot[i]);
}

static void show_trace(uint32_t at)
{
	if (at)
		show_trace(seen[at].from);
	struct world w;
	unpack(&seen[at].world, domain->nodes, &w);
	print_message("%s %s%s\n", at ? act_names[seen[at].act] : "the beginning",
		      at && seen[at].act >= ACT_OF_NODE ? node_names[seen[at].node] : "",
		      w.rollout.is_halted ? " (halted)" : "");
	for (unsigned i = 0; i < w.nodes; i++)
		show_node(&w, i);
}

static void first_world(struct world *w)
{
	memset(w, 0, sizeof(*w));
	w->nodes = domain->nodes;
	w->people = (uint8_t)domain->people;
	w->rollout.target = sides[NEW];
	w->rollout.stable = sides[OLD];
	for (unsigned i = 0; i < w->nodes; i++) {
		char uid[] = { 'u', (char)('0' + i), '\0' };
		node_state_init(&w->m[i], node_names[i], uid);
		w->m[i].report.has_loaded = true;
		w->m[i].report.loaded = sides[OLD];
		w->m[i].report.holders = w->m[i].facts.seen.pods = 0;
		w->m[i].facts.is_ready = true;
		w->m[i].facts.operands = 1;
	}
}

static void step_from(uint32_t at)
{
	for (unsigned act = 0; act < ACT_END && !*violation; act++)
		for (unsigned i = 0; i < (act < ACT_OF_NODE ? 1 : domain->nodes) && !*violation; i++) {
			struct world w;
			if (domain->without & 1U << act)
				continue;
			unpack(&seen[at].world, domain->nodes, &w);
			if (!act_on(&w, (enum act)act, i))
				continue;
			struct packed p = pack(&w);
			visit(&p, at, (enum act)act, i);
		}
}

static void explore(const struct domain *d, unsigned settle_each)
{
	size_t settled = 0;
	set_up(d);
	count = 0;
	*violation = '\0';
	slots_of_table = mem_alloc(TABLE * sizeof(*slots_of_table));
	seen = mem_alloc((WORLDS_MOST + 1024) * sizeof(*seen));
	struct world w;
	first_world(&w);
	struct packed p = pack(&w);
	visit(&p, 0, ACT_TICK, 0);
	uint32_t at = 0;
	for (; at < count && count < WORLDS_MOST && !*violation; at++) {
		step_from(at);
		if (*violation || at % settle_each)
			continue;
		unpack(&seen[at].world, d->nodes, &w);
		settled += 2;
		if (settles(w, false))
			settles(w, true);
	}
	print_message("model check, %s: %u worlds, %zu runs to the end\n", d->name, count, settled);
	if (*violation) {
		show_trace(at - 1);
		fail_msg("%s", violation);
	}
	if (count >= WORLDS_MOST)
		fail_msg("more than %d worlds", WORLDS_MOST);
	free(seen);
	free(slots_of_table);
}

#define NO(act) (1U << ACT_##act)
#define NO_PEOPLE                                                                                                   \
	(NO(HALT_RESUME) | NO(PAUSE) | NO(RETARGET) | NO(DROP_LEASE) | NO(CORDON) | NO(UNCORDON) | NO(DROP_LABEL) | \
	 NO(DROP_RECEIPT) | NO(DROP_GO) | NO(DROP_ALL) | NO(RETRY) | NO(SKIP) | NO(READY) | NO(SPOIL))

static const struct domain domains[] = {
#include "tests/unit/rollout_model.def"
};

static void all_domains(void **state)
{
	(void)state;
	struct sample sample = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(domains); i++) {
		if (sample_next(&sample))
			explore(&domains[i], 64);
		else
			print_message("# model check, %s: left out\n", domains[i].name);
	}
	sample_tell(&sample, "model check");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_domains),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
