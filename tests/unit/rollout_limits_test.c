// SPDX-License-Identifier: Apache-2.0
// The limits of our keys: the largest value is read and written again unchanged, the next one makes the state
// unknown, and the key is known. T13, T83.
#include "cluster/node_state/node_state.h"
#include "tests/unit/test.h"

#define P "kmodsmith.io/"
#define AIM "00000000000000aa-00000000000000bb"
#define TEN "0123456789"
#define FORTY TEN TEN TEN TEN
#define RECEIPT(again, until) \
	"{\"by\":\"kmodsmith\",\"prior\":false,\"touched\":false,\"again\":" again ",\"until\":" until "}"

static const struct {
	const char *key, *good, *bad; // NULL = that has no end
} rows[] = {
	{ P "state", "rolledback", "rolledback2" },
	{ P "state", "held", "unknown" },
	{ P "seq", "4294967295.4294967295", "4294967296.0" },
	{ P "seq", "0.1", "0.4294967296" },
	{ P "target", AIM, "00000000000000aa" },
	{ P "stable", "ffffffffffffffff-ffffffffffffffff", "0000000000000000-0000000000000000" },
	{ P "previous", "0000000000000001-0000000000000000", "none" },
	{ P "failed-target", AIM, AIM "0" },
	{ P "go", "1.1:none:none", "1.1:none:" },
	{ P "go", "1.1:stage:" AIM, "1.1:stage:" AIM ":" },
	{ P "go", "4294967295.4294967295:load:" AIM, "4294967296.1:load:" AIM },
	{ P "go", "1.1:validate:" AIM, "1.1::" AIM },
	{ P "cordon", RECEIPT("0", "1"), RECEIPT("0", "") },
	{ P "cordon", RECEIPT("255", "1800000000"), RECEIPT("256", "1800000000") },
	{ P "cordon", RECEIPT("1", "17179869176"), RECEIPT("1", "17179869177") },
	{ P "paused", "dcgm", "dcgm," },
	{ P "paused", "operator-validator,dra-driver", "operator-validator,,dra-driver" },
	{ P "paused", "dcgm-exporter,dcgm", "dcgm-exporter,nvidia.com/gpu.deploy.dcgm" },
	{ P "autoscaler", "scale-down-disabled,do-not-disrupt", "scale-down-disabled,scale-down-disabled" },
	{ P "autoscaler", "do-not-disrupt", "dcgm" },
	{ P "since", "1970-01-01T00:00:01Z", "1970-01-01T00:00:00Z" },
	{ P "deadline", "2100-01-01T00:00:00Z", "2100-02-30T00:00:00Z" },
	{ P "ordered", "2027-01-15T08:00:00Z", "2027-01-15T08:00:00" },
	{ P "reason-since", "2027-01-15T08:00:00Z", "1800000000" },
	{ P "attempts", "65535.0", "65536.0" },
	{ P "attempts", "0.65535", "0.65536" },
	{ P "reason", "jobs", "jobs " },
	{ P "reason", "jobs a b", "Jobs a b" },
	{ P "reason", "jobs " FORTY FORTY TEN "01234", "jobs " FORTY FORTY TEN "012345" },
	{ P "outcome", "done", "idle" },
	{ P "outcome", "rolledback", "failed" },
	{ P "rollout", TEN TEN "012", TEN TEN "0123" },
	{ P "wave-assigned", "a", "" },
	{ P "coordinator", FORTY TEN TEN "012", FORTY TEN TEN "0123" },
	{ P "retry-seen", "18446744073709551615", "18446744073709551616" },
	{ P "retry-seen", "1", "0" },
	{ P "drains", "65535.65535:" AIM, "65536.0:" AIM },
	{ P "drains", "0.1:" AIM, "0.65536:" AIM },
	{ P "drains", "1.0:" AIM, "1.0:none" },
	{ P "drains", "2.0:" AIM, "0.0:" AIM },
};

static const struct node_key *key_of(const char *name)
{
	const struct node_key *key = node_keys;
	while (key->name && !str_eq(key->name, name))
		key++;
	expect(key->name != NULL, name);
	return key;
}

static void say(struct node_state *m, const struct node_key *key, const char *value)
{
	node_state_init(m, "n", "u");
	if (!key->is_label)
		node_state_label(m, P "state", "evicting");
	(key->is_label ? node_state_label : node_state_annotation)(m, key->name, value);
}

static void limits_of_values(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct node_state m;
		char text[KEY_TEXT] = "";
		const struct node_key *key = key_of(rows[i].key);
		say(&m, key, rows[i].good);
		expect(m.record.phase != PHASE_UNKNOWN && !node_key_is_malformed(&m.record, key->name), rows[i].good);
		key->text(&m.record, text, sizeof(text));
		expect(str_eq(text, rows[i].good), rows[i].good);
		say(&m, key, rows[i].bad);
		expect(m.record.phase == PHASE_UNKNOWN, rows[i].bad);
		for (const struct node_key *each = node_keys; each->name; each++)
			expect(node_key_is_malformed(&m.record, each->name) == (each == key), rows[i].bad);
		expect(!node_key_is_malformed(&m.record, P "agent.ack"), rows[i].bad);
	}
}

// Keys that would say nothing are not there.
static void no_empty_values(void **state)
{
	(void)state;
	static const struct record none;
	for (const struct node_key *key = node_keys; key->name; key++) {
		char text[KEY_TEXT] = "";
		key->text(&none, text, sizeof(text));
		expect(!*text, key->name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits_of_values),
		cmocka_unit_test(no_empty_values),
	};
	return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
