// SPDX-License-Identifier: Apache-2.0
#include "cluster/rollout/merge_patch.h"

#include "cluster/node_state/annotations.h"

void node_patch_done(struct node_patch *p)
{
	for (size_t i = 0; i < p->count; i++)
		free(p->changes[i].value);
	free(p->changes);
	*p = (struct node_patch){ 0 };
}

static void add_change(struct node_patch *p, const char *key, const char *value, bool is_label)
{
	p->changes = mem_grow(p->changes, p->count + 1, sizeof(*p->changes));
	p->changes[p->count++] = (struct change){ key, value && *value ? str_dup(value) : NULL, is_label };
}

static void add_keys(struct node_patch *p, const struct record *from, const struct record *to)
{
	for (unsigned i = 0; node_keys[i].name; i++) {
		char was[KEY_TEXT] = "", is[KEY_TEXT] = "";
		node_keys[i].text(from, was, sizeof(was));
		node_keys[i].text(to, is, sizeof(is));
		// What meant nothing reads like what is absent, but it is there.
		bool was_junk = from->malformed & 1U << i && !(to->malformed & 1U << i);
		if (was_junk || !str_eq(was, is))
			add_change(p, node_keys[i].name, is, node_keys[i].is_label);
	}
}

static void add_borrowed(struct node_patch *p, const struct borrowed *table, unsigned from, unsigned to, bool is_label)
{
	for (unsigned i = 0; table[i].key; i++) {
		if ((from ^ to) & 1U << i)
			add_change(p, table[i].key, to & 1U << i ? table[i].ours : table[i].theirs, is_label);
	}
}

// NVIDIA's label, for dashboards that read it: upgrade-done and nothing else, with the state that says so, taken away
// when that ends, and never repeated (T61, 5.12). Any other word would start something (states.h).
static void add_upgrade(struct node_patch *p, const struct node_state *m, const struct decision *d, bool has_mirror)
{
	bool was_done = m->record.has_phase && m->record.phase == PHASE_DONE, is_done = d->next.phase == PHASE_DONE;
	bool is_ours = has_mirror && !node_state_is_foreign(m), is_said = m->facts.upgrade == UPGRADE_DONE;
	if (d->drops_word || (is_ours && was_done && !is_done && is_said)) {
		add_change(p, UPGRADE_LABEL, NULL, true);
		p->tests_upgrade = true;
	} else if (is_ours && is_done && !was_done && !is_said) {
		add_change(p, UPGRADE_LABEL, upgrade_words[UPGRADE_DONE], true);
	}
}

void node_patch_make(const struct node_state *m, const struct decision *d, bool has_mirror, struct node_patch *ret)
{
	bool is_order = node_seq_cmp(d->next.go.seq, m->record.go.seq) != 0;
	*ret = (struct node_patch){ .seq = m->record.seq,
				    .cordon = d->cordon,
				    .tests_cordon = d->next.receipt.is_there != m->record.receipt.is_there ||
						    d->cordon != CORDON_KEEP,
				    .was_cordoned = m->facts.is_unschedulable,
				    .tests_holders = is_order && d->next.go.verb == VERB_REPLACE,
				    .tests_loaded = d->cordon == CORDON_OFF && m->record.receipt.touched };
	if (!d->rule)
		return;
	add_keys(ret, &m->record, &d->next);
	add_borrowed(ret, operands, m->record.paused, d->next.paused, true);
	add_borrowed(ret, hints, m->record.autoscaler, d->next.autoscaler, false);
	enum upgrade word = m->facts.upgrade;
	ret->upgrade = word != UPGRADE_NONE && word < UPGRADE_OTHER ? upgrade_words[word] : NULL;
	ret->tests_upgrade = d->cordon == CORDON_OFF && node_state_is_foreign(m) && ret->upgrade;
	add_upgrade(ret, m, d, has_mirror);
}
