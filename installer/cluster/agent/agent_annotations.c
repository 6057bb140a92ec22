// SPDX-License-Identifier: Apache-2.0
#include "cluster/agent/agent_annotations.h"

#include "cluster/node_state/annotations.h"

#include <inttypes.h>
#include <stdio.h>

const char *const agent_key_names[AGENT_KEYS] = {
	KEY_PREFIX "agent.ack",     KEY_PREFIX "agent.loaded", KEY_PREFIX "agent.store", KEY_PREFIX "agent.gpus",
	KEY_PREFIX "agent.holders", KEY_PREFIX "agent.health", KEY_PREFIX "agent.boot",  KEY_PREFIX "agent.trouble",
};

// <epoch>.<n>:<verb>:<accepted|done|failed>[:<class>:<code>]
static void write_ack(const struct agent_journal *j, char *ret)
{
	enum result result = j->step == AGENT_DONE   ? RESULT_DONE :
			     j->step == AGENT_FAILED ? RESULT_FAILED :
						       RESULT_ACCEPTED;
	if (j->step == AGENT_IDLE)
		return;
	int len = snprintf(ret, AGENT_VALUE, "%" PRIu32 ".%" PRIu32 ":%s:%s", j->order.seq.epoch, j->order.seq.n,
			   verb_names[j->order.verb], result_names[result]);
	if (result == RESULT_FAILED)
		snprintf(ret + len, (size_t)(AGENT_VALUE - len), ":%s:%s", failing_names[j->failing], j->code);
}

// none | <target|foreign> <version> <srcversion> <kernel release>
static void write_loaded(const struct agent_facts *f, char *ret)
{
	char target_hash[TARGET_HASH_TEXT] = "foreign";
	if (!f->is_known)
		return;
	if (!f->is_foreign)
		target_hash_text(f->is_empty ? &TARGET_HASH_NONE : &f->loaded, target_hash);
	if (f->is_empty)
		snprintf(ret, AGENT_VALUE, "%s", target_hash);
	else
		snprintf(ret, AGENT_VALUE, "%s %s %s %s", target_hash, *f->version ? f->version : "unknown",
			 *f->srcversion ? f->srcversion : "-", f->release);
}

static void write_store(const struct agent_facts *f, char *ret)
{
	for (size_t i = 0; f->is_known && i < AGENT_STORED && target_hash_is_set(&f->store[i]); i++) {
		char target_hash[TARGET_HASH_TEXT];
		size_t len = strlen(ret);
		target_hash_text(&f->store[i], target_hash);
		snprintf(ret + len, AGENT_VALUE - len, "%s%s", len ? "," : "", target_hash);
	}
}

// <count|unknown> <generation>[ <pod uid>...], as many uids as fit
static void write_holders(const struct agent_holders *h, char *ret)
{
	size_t len;
	if (!h->is_published)
		return;
	if (h->count < 0)
		snprintf(ret, AGENT_VALUE, "unknown %u", h->generation);
	else
		snprintf(ret, AGENT_VALUE, "%d %u", h->is_coarse ? h->count > 0 : h->count, h->generation);
	for (size_t i = 0; i < h->pods.count; i++)
		if ((len = strlen(ret)) + 1 + strlen(h->pods.items[i]) <= KEY_VALUE_MOST)
			snprintf(ret + len, AGENT_VALUE - len, " %s", h->pods.items[i]);
}

// <target>:<ok|fail>[:<code>]
static void write_health(const struct agent_journal *j, char *ret)
{
	char target_hash[TARGET_HASH_TEXT];
	bool is_ok = j->probe == RESULT_DONE;
	target_hash_text(&j->probed, target_hash);
	if (j->probe == RESULT_DONE || j->probe == RESULT_FAILED)
		snprintf(ret, AGENT_VALUE, "%s:%s%s%s", target_hash, is_ok ? "ok" : "fail", is_ok ? "" : ":",
			 is_ok ? "" : j->probe_code);
}

void agent_annotations(const struct agent_journal *j, const struct agent_facts *f, const struct agent_holders *h,
		       const char *boot, struct agent_annotations *ret)
{
	*ret = (struct agent_annotations){ 0 };
	write_ack(j, ret->value[AGENT_ACK]);
	write_loaded(f, ret->value[AGENT_LOADED]);
	write_store(f, ret->value[AGENT_STORE]);
	gpu_report_text(&f->gpus, ret->value[AGENT_GPUS], AGENT_VALUE);
	write_holders(h, ret->value[AGENT_HOLDERS]);
	write_health(j, ret->value[AGENT_HEALTH]);
	snprintf(ret->value[AGENT_BOOT], AGENT_VALUE, "%s %s %d", boot, KMODSMITH_VERSION, AGENT_SCHEMA);
}
