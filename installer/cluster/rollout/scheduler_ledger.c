// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_state/annotations.h"
#include "cluster/rollout/scheduler.h"

void scheduler_ledger_done(struct slot_ledger *l)
{
	free(l->items);
	*l = (struct slot_ledger){ 0 };
}

static const char *const slot_names[] = { [SLOT_WAIT] = "wait", [SLOT_WORK] = "work" };

static void add_ledger_part(const struct slot_ledger *l, enum slot slot, struct strv *parts)
{
	auto_strv struct strv uids = { 0 };
	for (size_t i = 0; i < l->count; i++)
		if (l->items[i].slot == slot)
			strv_add(&uids, str_dup(l->items[i].uid));
	strv_sort(&uids);
	auto_str char *list = strv_join(&uids, ",");
	if (uids.count)
		strv_add(parts, str_fmt("%s %s", slot_names[slot], list));
}

char *scheduler_ledger_text(const struct slot_ledger *l)
{
	auto_strv struct strv parts = { 0 };
	add_ledger_part(l, SLOT_WORK, &parts);
	add_ledger_part(l, SLOT_WAIT, &parts);
	return strv_join(&parts, ";");
}

static bool parse_ledger_part(const char *part, size_t len, struct slot_ledger *l)
{
	enum slot slot = SLOT_WAIT;
	size_t name = 0, uid_len;
	for (; slot <= SLOT_WORK; slot++) {
		name = strlen(slot_names[slot]);
		if (len > name + 1 && memcmp(part, slot_names[slot], name) == 0 && part[name] == ' ')
			break;
	}
	if (slot > SLOT_WORK)
		return false;
	auto_str char *uids = str_ndup(part + name + 1, len - name - 1);
	for (const char *at = uids, *uid; (uid = node_word_cut(&at, ',', &uid_len));) {
		struct ledger_entry entry = { .slot = slot };
		if (l->count == LEDGER_MOST || !node_word_copy(entry.uid, sizeof(entry.uid), uid, uid_len))
			return false;
		l->items[l->count++] = entry;
	}
	return true;
}

bool scheduler_ledger_parse(const char *text, struct slot_ledger *ret)
{
	size_t len;
	*ret = (struct slot_ledger){ 0 };
	if (!text || !*text)
		return true;
	struct slot_ledger l = { .items = mem_grow(NULL, LEDGER_MOST, sizeof(*l.items)) };
	for (const char *at = text, *part; (part = node_word_cut(&at, ';', &len));) {
		if (!parse_ledger_part(part, len, &l)) {
			scheduler_ledger_done(&l);
			return false;
		}
	}
	*ret = l;
	return true;
}
