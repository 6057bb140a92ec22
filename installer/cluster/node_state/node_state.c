// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_state/node_state.h"

#include "cluster/node_state/annotations.h"

#include <stdio.h>

const struct borrowed hints[] = {
	{ "cluster-autoscaler.kubernetes.io/scale-down-disabled", "true", NULL, false },
	{ "karpenter.sh/do-not-disrupt", "true", NULL, false },
	{ 0 },
};

void node_state_init(struct node_state *m, const char *name, const char *uid)
{
	*m = (struct node_state){ .name = name,
				  .report.holders = HOLDERS_UNPUBLISHED,
				  .facts.seen = {
					  .pods = PODS_UNSEEN, .jobs = PODS_UNSEEN, .devices = DEVICES_UNKNOWN } };
	snprintf(m->uid, sizeof(m->uid), "%s", uid);
}

const struct pods_seen *node_state_pods(const struct node_state *m)
{
	static const struct pods_seen nothing = { .pods = PODS_UNSEEN,
						  .jobs = PODS_UNSEEN,
						  .devices = DEVICES_UNKNOWN };
	return stay_eq(m->facts.seen.stay, node_state_stay(m)) ? &m->facts.seen : &nothing;
}

bool node_state_is_staged(const struct node_state *m, const struct target_hash *target_hash)
{
	for (size_t i = 0; i < ARRAY_SIZE(m->report.store); i++)
		if (target_hash_is_set(target_hash) && m->report.store[i].payload == target_hash->payload)
			return true;
	return false;
}

// False: the key is not one of ours.
static bool take_own_key(struct node_state *m, const char *key, const char *value, bool is_label)
{
	for (unsigned i = 0; node_keys[i].name; i++) {
		if (node_keys[i].is_label != is_label || !str_eq(node_keys[i].name, key))
			continue;
		if (strlen(value) >= KEY_TEXT || !node_keys[i].parse(value, &m->record))
			m->record.malformed |= 1U << i;
		if (m->record.malformed) // also if the state itself is read only after that key
			m->record.phase = PHASE_UNKNOWN;
		return true;
	}
	return false;
}

// <epoch>.<n>:<verb>:<accepted|done|failed>[:<class>:<code>]
static void take_ack(struct report *r, const char *value)
{
	struct report ack = { 0 };
	size_t len;
	const char *at = value, *part = node_word_cut(&at, ':', &len);
	if (!node_seq_parse(part, len, &ack.ack.seq) || !(part = node_word_cut(&at, ':', &len)))
		return;
	int verb = node_name_index(verb_names, VERB_COUNT, part, len);
	if (!(part = node_word_cut(&at, ':', &len)))
		return;
	int result = node_name_index(result_names, RESULT_COUNT, part, len), failing = 0;
	if (result == RESULT_FAILED) {
		part = node_word_cut(&at, ':', &len);
		failing = part ? node_name_index(failing_names, FAILING_COUNT, part, len) : -1;
		if (failing <= 0 || !at || !node_word_copy(ack.ack.code, sizeof(ack.ack.code), at, strlen(at)))
			return;
	} else if (at) {
		return;
	}
	if (verb < 0 || result <= 0)
		return;
	r->ack = ack.ack;
	r->ack.verb = (enum verb)verb;
	r->ack.result = (enum result)result;
	r->ack.failing = (enum failing)failing;
}

// "none" | <target|foreign> <version> [<srcversion> <kernel release>]
static void take_loaded_annotation(struct report *r, const char *value)
{
	char word[TARGET_HASH_TEXT];
	size_t len;
	struct report loaded = { .has_loaded = true };
	const char *at = value, *part = node_word_cut(&at, ' ', &len);
	if (!node_word_copy(word, sizeof(word), part, len))
		return;
	loaded.is_foreign = str_eq(word, "foreign");
	if (!loaded.is_foreign && !target_hash_parse(word, &loaded.loaded))
		return;
	bool is_some = loaded.is_foreign || target_hash_is_set(&loaded.loaded);
	part = node_word_cut(&at, ' ', &len);
	if (is_some != (part != NULL) || (part && !node_word_copy(loaded.version, sizeof(loaded.version), part, len)))
		return;
	if (strchr(loaded.version, '/')) // it becomes the value of a label
		return;
	r->has_loaded = true;
	r->is_foreign = loaded.is_foreign;
	r->loaded = loaded.loaded;
	memcpy(r->version, loaded.version, sizeof(r->version));
}

static void take_store(struct report *r, const char *value)
{
	struct target_hash store[ARRAY_SIZE(r->store)] = { 0 };
	size_t len, count = 0;
	for (const char *at = value, *part; (part = node_word_cut(&at, ',', &len));) {
		char word[TARGET_HASH_TEXT];
		if (count == ARRAY_SIZE(store) || !node_word_copy(word, sizeof(word), part, len) ||
		    !target_hash_parse(word, &store[count++]))
			return;
	}
	memcpy(r->store, store, sizeof(r->store));
}

// <count|unknown>[ <generation>[ <pod uid>...]]
static void take_holders(struct report *r, const char *value)
{
	char word[WORD_TEXT];
	size_t len;
	uint64_t count;
	const char *at = value, *part = node_word_cut(&at, ' ', &len);
	r->holders = HOLDERS_UNKNOWN;
	if (node_word_copy(word, sizeof(word), part, len) && str_u64(word, 10, &count) && count <= INT16_MAX)
		r->holders = (int)count;
}

// <target>:<ok|fail>[:<code>]
static void take_health(struct report *r, const char *value)
{
	char word[TARGET_HASH_TEXT];
	struct target_hash target_hash;
	size_t len;
	const char *at = value, *part = node_word_cut(&at, ':', &len);
	if (!node_word_copy(word, sizeof(word), part, len) || !target_hash_parse(word, &target_hash) ||
	    !(part = node_word_cut(&at, ':', &len)))
		return;
	bool is_ok = len == 2 && memcmp(part, "ok", 2) == 0, is_fail = len == 4 && memcmp(part, "fail", 4) == 0;
	if (!is_ok && !is_fail)
		return;
	r->health.target_hash = target_hash;
	r->health.result = is_ok ? RESULT_DONE : RESULT_FAILED;
}

// <boot id> <agent version> <schema>
static void take_boot(struct report *r, const char *value)
{
	r->boot = target_hash_of_text(value);
}

static void take_gpus(struct report *r, const char *value)
{
	gpu_report_parse(value, &r->gpus);
}

static const struct {
	const char *name;
	void (*take)(struct report *r, const char *value);
} agent_keys[] = {
	{ KEY_PREFIX "agent.ack", take_ack },       { KEY_PREFIX "agent.loaded", take_loaded_annotation },
	{ KEY_PREFIX "agent.store", take_store },   { KEY_PREFIX "agent.holders", take_holders },
	{ KEY_PREFIX "agent.health", take_health }, { KEY_PREFIX "agent.boot", take_boot },
	{ KEY_PREFIX "agent.gpus", take_gpus },
};

// NVIDIA's operator writes it as an annotation (gpu-operator controllers/nodelabeling_controller.go); a label of that
// name, which people set by mistake, can only mean the same.
static void take_enabled(struct node_facts *f, const char *key, const char *value)
{
	if (str_eq(key, UPGRADE_ENABLED))
		f->is_foreign = f->is_foreign || str_eq(value, "true");
}

// NVIDIA's label counts as somebody's request, unless our own driver container set it, which may have died since.
static void settle_skip(struct node_facts *f)
{
	f->is_skipped = f->has_skip || (f->has_upgrade_skip && !f->has_upgrade_hold);
}

void node_state_annotation(struct node_state *m, const char *key, const char *value)
{
	struct node_facts *f = &m->facts;
	if (take_own_key(m, key, value, false))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(agent_keys); i++)
		if (str_eq(agent_keys[i].name, key) && strlen(value) <= KEY_VALUE_MOST)
			agent_keys[i].take(&m->report, value);
	take_enabled(f, key, value);
	f->has_enabled = f->has_enabled || str_eq(key, UPGRADE_ENABLED);
	if (str_eq(key, "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable"))
		f->has_initial_cordon = true;
	for (unsigned i = 0; hints[i].key; i++)
		if (str_eq(hints[i].key, key))
			f->hints |= (uint8_t)(1U << i);
	if (str_eq(key, KEY_PREFIX "pause"))
		f->is_paused = !str_eq(value, "false");
	else if (str_eq(key, KEY_PREFIX "keep-cordon"))
		f->keeps_cordon = !str_eq(value, "false");
	else if (str_eq(key, KEY_PREFIX "retry"))
		f->retry = target_hash_of_text(value);
	if (str_eq(key, UPGRADE_HOLD)) {
		f->has_upgrade_hold = strstr(value, UPGRADE_HELD) != NULL;
		settle_skip(f);
	}
	if (str_eq(key, KEY_PREFIX "pin")) {
		f->is_pinned = true;
		f->pin = TARGET_HASH_NONE;
		target_hash_parse(value, &f->pin);
	}
}

void node_state_label(struct node_state *m, const char *key, const char *value)
{
	struct node_facts *f = &m->facts;
	if (take_own_key(m, key, value, true))
		return;
	take_enabled(f, key, value);
	if (str_eq(key, UPGRADE_LABEL)) {
		int word = node_name_index(upgrade_words, UPGRADE_OTHER, value, strlen(value));
		f->upgrade = word < 0 ? UPGRADE_OTHER : (enum upgrade)word;
	}
	for (unsigned i = 0; operands[i].key; i++) {
		if (str_eq(operands[i].key, key) && str_eq(value, operands[i].theirs))
			f->operands |= (uint16_t)(1U << i);
		if (str_eq(operands[i].key, key) && str_eq(value, operands[i].ours))
			f->paused |= (uint16_t)(1U << i);
	}
	if (str_eq(key, "nvidia.com/mig.config"))
		f->has_mig_config = *value != '\0';
	else if (str_eq(key, "nvidia.com/mig.config.state"))
		f->mig = str_eq(value, "success") ? MIG_SUCCESS :
			 str_eq(value, "failed")  ? MIG_FAILED :
			 *value                   ? MIG_PENDING :
						    MIG_NONE;
	if (str_eq(key, KEY_PREFIX "skip"))
		f->has_skip = !str_eq(value, "false");
	else if (str_eq(key, UPGRADE_SKIP))
		f->has_upgrade_skip = !str_eq(value, "false");
	else if (str_eq(key, KEY_PREFIX "pool"))
		node_word_copy(f->pool, sizeof(f->pool), value, strlen(value));
	else if (str_eq(key, KEY_PREFIX "wave"))
		node_word_copy(f->wave, sizeof(f->wave), value, strlen(value));
	settle_skip(f);
}
