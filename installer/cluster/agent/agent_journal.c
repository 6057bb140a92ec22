// SPDX-License-Identifier: Apache-2.0
#include "cluster/agent/agent_journal.h"

#include "base/file/digest.h"
#include "base/process/state_file.h"
#include "cluster/node_state/annotations.h"
#include "cluster/policy/json_fields.h"

#include <stdio.h>

static const char DIR_NAME[] = "agent", FILE_NAME[] = "agent/journal.json", DAMAGED[] = "agent/journal.damaged";
enum { SCHEMA = 1 };

const char *const agent_step_names[AGENT_STEPS] = { "idle", "accepted", "begun", "back", "done", "failed" };

// The order is stored in the form of its annotation.
static const struct node_key *go_key(void)
{
	const struct node_key *key = node_keys;
	while (!str_eq(key->name, KEY_PREFIX "go"))
		key++;
	return key;
}

int agent_journal_write(const struct root *state, const struct agent_journal *j, struct err *err)
{
	char order[KEY_TEXT] = "";
	const struct record record = { .go = j->order };
	json_t *known = json_array();
	for (size_t i = 0; i < j->known_count; i++) {
		const struct target *t = &j->known[i];
		json_array_append_new(known, json_pack("{s:s, s:s, s:o, s:o}", "driver", t->driver, "flavour",
						       t->flavour, "package", json_text(t->package), "parameters",
						       json_text(t->parameters)));
	}
	go_key()->text(&record, order, sizeof(order));
	auto_json json_t *json = json_pack(
		"{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:o, s:o, s:s, s:i, s:o, s:s, s:s, s:o}", "schema",
		SCHEMA, "order", order, "node", j->node, "step", agent_step_names[j->step], "failing",
		failing_names[j->failing], "code", j->code, "boot", j->boot, "boots", (int)j->boots, "tries",
		(int)j->tries, "previous", target_hash_json(&j->previous), "current", target_hash_json(&j->current),
		"revived", j->revived, "revivals", (int)j->revivals, "probed", target_hash_json(&j->probed), "probe",
		result_names[j->probe], "probe-code", j->probe_code, "known", known);
	if (!json)
		return err_set(err, E_SYSTEM, "the agent's journal cannot be written as JSON");
	return root_mkdirs(state, DIR_NAME, 0755, err) < 0 ? -1 : json_write(state, FILE_NAME, json, err);
}

static int refuse_journal_field(const char *name, struct err *err)
{
	return err_set(err, E_CONFIG, "%s: invalid value", name);
}

static int read_journal_text(const json_t *json, const char *name, char *ret, size_t size, struct err *err)
{
	const char *text = json_string_value(json_object_get(json, name));
	if (!text || (*text && !node_word_copy(ret, size, text, strlen(text))))
		return refuse_journal_field(name, err);
	return 0;
}

static int read_target_hash(const json_t *json, const char *name, struct target_hash *ret, struct err *err)
{
	const char *text = json_string_value(json_object_get(json, name));
	return text && target_hash_parse(text, ret) ? 0 : refuse_journal_field(name, err);
}

static int read_journal_name(const json_t *json, const char *name, const char *const *names, int count, int *ret,
			     struct err *err)
{
	const char *text = json_string_value(json_object_get(json, name));
	*ret = text ? node_name_index(names, count, text, strlen(text)) : -1;
	return *ret < 0 ? refuse_journal_field(name, err) : 0;
}

static int read_journal_count(const json_t *json, const char *name, unsigned *ret, struct err *err)
{
	const json_t *value = json_object_get(json, name);
	if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > UINT16_MAX)
		return refuse_journal_field(name, err);
	*ret = (unsigned)json_integer_value(value);
	return 0;
}

static int read_known_target(const json_t *item, struct target *t, struct err *err)
{
	const char *parameters = json_string_value(json_object_get(item, "parameters"));
	const json_t *package = json_object_get(item, "package");
	if (read_journal_text(item, "driver", t->driver, sizeof(t->driver), err) < 0 ||
	    read_journal_text(item, "flavour", t->flavour, sizeof(t->flavour), err) < 0)
		return -1;
	const char *digest = json_string_value(package);
	if (!*t->driver || !parameters || (!json_is_null(package) && !digest))
		return refuse_journal_field("known", err);
	if (digest && (!str_starts(digest, "sha256:") || !digest_is_hex(digest + 7)))
		return refuse_journal_field("package", err);
	t->parameters = str_dup(parameters);
	t->package = str_dup(digest);
	target_name(t);
	return 0;
}

static int read_known(const json_t *json, struct agent_journal *j, struct err *err)
{
	const json_t *list = json_object_get(json, "known"), *item;
	size_t i;
	if (!json_is_array(list))
		return refuse_journal_field("known", err);
	json_array_foreach(list, i, item)
	{
		struct target t = { 0 };
		int r = read_known_target(item, &t, err);
		if (r == 0)
			agent_learn(j, &t);
		target_done(&t);
		if (r < 0)
			return -1;
	}
	return 0;
}

static int parse_journal(const json_t *json, struct agent_journal *j, struct err *err)
{
	int step, failing, probe;
	struct record record = { 0 };
	const char *order = json_string_value(json_object_get(json, "order"));
	if (json_integer_value(json_object_get(json, "schema")) != SCHEMA)
		return refuse_journal_field("schema", err);
	if (!order || (*order && !go_key()->parse(order, &record)))
		return refuse_journal_field("order", err);
	j->order = record.go;
	if (read_journal_name(json, "step", agent_step_names, AGENT_STEPS, &step, err) < 0 ||
	    read_journal_name(json, "failing", failing_names, FAILING_COUNT, &failing, err) < 0 ||
	    read_journal_name(json, "probe", result_names, RESULT_COUNT, &probe, err) < 0 ||
	    read_journal_text(json, "code", j->code, sizeof(j->code), err) < 0 ||
	    read_journal_text(json, "node", j->node, sizeof(j->node), err) < 0 ||
	    read_journal_text(json, "boot", j->boot, sizeof(j->boot), err) < 0 ||
	    read_journal_text(json, "revived", j->revived, sizeof(j->revived), err) < 0 ||
	    read_journal_text(json, "probe-code", j->probe_code, sizeof(j->probe_code), err) < 0 ||
	    read_journal_count(json, "boots", &j->boots, err) < 0 ||
	    read_journal_count(json, "tries", &j->tries, err) < 0 ||
	    (json_object_get(json, "revivals") && // absent in the journal of an older agent
	     read_journal_count(json, "revivals", &j->revivals, err) < 0) ||
	    read_target_hash(json, "previous", &j->previous, err) < 0 ||
	    read_target_hash(json, "current", &j->current, err) < 0 ||
	    read_target_hash(json, "probed", &j->probed, err) < 0)
		return -1;
	j->step = (enum agent_step)step;
	j->failing = (enum failing)failing;
	j->probe = (enum result)probe;
	if (j->step != AGENT_IDLE && j->order.verb == VERB_NONE)
		return refuse_journal_field("step", err);
	if ((j->step == AGENT_FAILED) != (j->failing != FAILING_NONE) ||
	    (j->step == AGENT_FAILED) != (*j->code != '\0'))
		return refuse_journal_field("code", err);
	return read_known(json, j, err);
}

// 1 = read, 0 = there is none; E_CONFIG: it is damaged.
static int read_journal_file(const struct root *state, struct agent_journal *ret, struct err *err)
{
	auto_json json_t *json = NULL;
	auto_agent_journal struct agent_journal j = { 0 };
	int r = state_file_read(state, FILE_NAME, &json, err);
	if (r <= 0 || parse_journal(json, &j, err) < 0)
		return r == 0 ? 0 : -1;
	*ret = j;
	j = (struct agent_journal){ 0 };
	return 1;
}

int agent_journal_read(const struct root *state, struct agent_journal *ret, char **ret_why, struct err *err)
{
	struct err why;
	*ret_why = NULL;
	int r = read_journal_file(state, ret, &why);
	if (r >= 0)
		return r;
	if (why.code != E_CONFIG) {
		*err = why;
		return -1;
	}
	// Moved to a name that is not used yet, so that a second damage does not hide the first.
	auto_str char *name = str_dup(DAMAGED);
	for (unsigned i = 2; root_exists(state, name); i++) {
		free(name);
		name = str_fmt("%s.%u", DAMAGED, i);
	}
	if (root_rename(state, FILE_NAME, name, err) < 0)
		return -1;
	*ret_why = str_fmt("%s; moved to '%s'", why.text, name);
	return 0;
}

static void target_copy(const struct target *from, struct target *to)
{
	*to = *from;
	to->package = str_dup(from->package);
	to->parameters = str_dup(from->parameters);
}

int agent_current(const struct root *state, struct target *ret, struct err *err)
{
	auto_agent_journal struct agent_journal j = { 0 };
	if (read_journal_file(state, &j, err) < 0)
		return err->code == E_CONFIG ? 0 : -1;
	const struct target *t = agent_known(&j, &j.current);
	if (!target_hash_is_set(&j.current) || !t)
		return 0;
	target_copy(t, ret);
	return 1;
}

void agent_journal_done(struct agent_journal *j)
{
	for (size_t i = 0; i < j->known_count; i++)
		target_done(&j->known[i]);
	free(j->known);
	*j = (struct agent_journal){ 0 };
}

const struct target *agent_known(const struct agent_journal *j, const struct target_hash *target_hash)
{
	for (size_t i = 0; i < j->known_count; i++)
		if (target_hash_eq(&j->known[i].target_hash, target_hash))
			return &j->known[i];
	return NULL;
}

bool agent_learn(struct agent_journal *j, const struct target *target)
{
	enum { KNOWN_MOST = 16 };
	if (agent_known(j, &target->target_hash))
		return false;
	for (size_t i = 0; i < j->known_count && j->known_count >= KNOWN_MOST; i++) {
		const struct target_hash *hash = &j->known[i].target_hash;
		if (target_hash_eq(hash, &j->order.target_hash) || target_hash_eq(hash, &j->previous) ||
		    target_hash_eq(hash, &j->current))
			continue;
		target_done(&j->known[i]);
		j->known_count--;
		memmove(&j->known[i], &j->known[i + 1], (j->known_count - i) * sizeof(*j->known));
	}
	j->known = mem_grow(j->known, j->known_count + 1, sizeof(*j->known));
	target_copy(target, &j->known[j->known_count++]);
	return true;
}
