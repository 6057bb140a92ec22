// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_state/annotations.h"

#include "base/core/date.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

// What the values of keys are made of: fields, words and numbers, each with one spelling only.

int node_seq_cmp(struct seq a, struct seq b)
{
	if (a.epoch != b.epoch)
		return a.epoch < b.epoch ? -1 : 1;
	return a.n < b.n ? -1 : a.n > b.n;
}

const char *node_word_cut(const char **at, char separator, size_t *ret_len)
{
	const char *start = *at;
	*ret_len = 0;
	if (!start)
		return NULL;
	const char *end = strchr(start, separator);
	*ret_len = end ? (size_t)(end - start) : strlen(start);
	*at = end ? end + 1 : NULL;
	return start;
}

bool node_word_copy(char *to, size_t size, const char *from, size_t len)
{
	if (!len || len >= size)
		return false;
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)from[i]) && !strchr("._/-", from[i]))
			return false;
	memcpy(to, from, len);
	memset(to + len, 0, size - len);
	return true;
}

// Digits without a sign, a blank or a leading zero: each number has one spelling.
static bool node_number_cut(const char *text, size_t len, uint64_t most, uint64_t *ret)
{
	char digits[21];
	if (!len || len >= sizeof(digits) || (len > 1 && *text == '0') || strspn(text, "0123456789") < len)
		return false;
	memcpy(digits, text, len);
	digits[len] = '\0';
	return str_u64(digits, 10, ret) && *ret <= most;
}

bool node_seq_parse(const char *text, size_t len, struct seq *ret)
{
	const char *dot = memchr(text, '.', len);
	uint64_t epoch, n;
	if (!dot || !node_number_cut(text, (size_t)(dot - text), UINT32_MAX, &epoch) ||
	    !node_number_cut(dot + 1, len - (size_t)(dot + 1 - text), UINT32_MAX, &n))
		return false;
	*ret = (struct seq){ (uint32_t)epoch, (uint32_t)n };
	return true;
}

static bool read_state(const char *value, struct record *r)
{
	r->phase = node_phase_parse(value);
	r->has_phase = true;
	return r->phase != PHASE_UNKNOWN;
}
static void write_state(const struct record *r, char *ret, size_t size)
{
	snprintf(ret, size, "%s", r->has_phase ? node_phase_info(r->phase)->name : "");
}

static bool read_seq(const char *value, struct record *r)
{
	return node_seq_parse(value, strlen(value), &r->seq);
}
static void write_seq(const struct record *r, char *ret, size_t size)
{
	if (r->seq.epoch || r->seq.n)
		snprintf(ret, size, "%" PRIu32 ".%" PRIu32, r->seq.epoch, r->seq.n);
}

#define HASH_KEY(field_)                                                                       \
	static bool read_##field_(const char *value, struct record *r)                         \
	{                                                                                      \
		return target_hash_parse(value, &r->field_) && target_hash_is_set(&r->field_); \
	}                                                                                      \
	static void write_##field_(const struct record *r, char *ret, size_t size)             \
	{                                                                                      \
		if (target_hash_is_set(&r->field_) && size >= TARGET_HASH_TEXT)                \
			target_hash_text(&r->field_, ret);                                     \
	}
HASH_KEY(target)
HASH_KEY(stable)
HASH_KEY(previous)
HASH_KEY(failed)

// <epoch>.<n>:<verb>:<target>
static bool read_go(const char *value, struct record *r)
{
	size_t len;
	const char *at = value, *part = node_word_cut(&at, ':', &len);
	if (!node_seq_parse(part, len, &r->go.seq) || !(part = node_word_cut(&at, ':', &len)))
		return false;
	int verb = node_name_index(verb_names, VERB_COUNT, part, len);
	r->go.verb = verb < 0 ? VERB_NONE : (enum verb)verb;
	return verb >= 0 && at && target_hash_parse(at, &r->go.target_hash);
}
static void write_go(const struct record *r, char *ret, size_t size)
{
	char target_hash[TARGET_HASH_TEXT];
	target_hash_text(&r->go.target_hash, target_hash);
	if (r->go.seq.epoch || r->go.seq.n)
		snprintf(ret, size, "%" PRIu32 ".%" PRIu32 ":%s:%s", r->go.seq.epoch, r->go.seq.n,
			 verb_names[r->go.verb], target_hash);
}

// {"by":"kmodsmith","prior":false,"touched":false,"again":0,"until":1800000000}, with "waited":true before "again"
// where that is so. Read only if it is exactly what we would write.
static const char receipt_format[] =
	"{\"by\":\"kmodsmith\",\"prior\":%s,\"touched\":%s,%s\"again\":%d,\"until\":%" PRId64 "}";

static void write_receipt(const struct record *r, char *ret, size_t size)
{
	if (r->receipt.is_there)
		snprintf(ret, size, receipt_format, r->receipt.prior ? "true" : "false",
			 r->receipt.touched ? "true" : "false", r->receipt.waited ? "\"waited\":true," : "",
			 r->receipt.again, r->receipt.until);
}
static bool receipt_value(const char *text, const char *name, uint64_t most, uint64_t *ret)
{
	const char *at = strstr(text, name);
	return at && node_number_cut(at + strlen(name), strcspn(at + strlen(name), ",}"), most, ret);
}
static bool read_receipt(const char *value, struct record *r)
{
	uint64_t again, until;
	char same[KEY_TEXT] = "";
	struct record copy = { .receipt = { .is_there = true,
					    .prior = strstr(value, "\"prior\":true") != NULL,
					    .touched = strstr(value, "\"touched\":true") != NULL,
					    .waited = strstr(value, "\"waited\":true") != NULL } };
	if (!receipt_value(value, "\"again\":", UINT8_MAX, &again) ||
	    !receipt_value(value, "\"until\":", INT32_MAX * 8ULL, &until))
		return false;
	copy.receipt.again = (uint8_t)again;
	copy.receipt.until = (int64_t)until;
	write_receipt(&copy, same, sizeof(same));
	bool is_good = str_eq(same, value);
	r->receipt = is_good ? copy.receipt : (struct receipt){ 0 };
	return is_good;
}

// As it was read: a later version may list more, which this one does not ask for.
static bool read_baseline(const char *value, struct record *r)
{
	size_t len = strlen(value);
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)value[i]) && !strchr("._=,-", value[i]))
			return false;
	if (!len || len >= sizeof(r->baseline))
		return false;
	memcpy(r->baseline, value, len);
	memset(r->baseline + len, 0, sizeof(r->baseline) - len);
	return true;
}
static void write_baseline(const struct record *r, char *ret, size_t size)
{
	snprintf(ret, size, "%s", r->baseline);
}

// Bits as the names of the table, without their prefix and with a comma between.
static const char *short_name(const char *key)
{
	const char *dot = strrchr(key, '.'), *slash = strrchr(key, '/');
	return slash > dot ? slash + 1 : dot + 1;
}
static bool read_bits(const char *value, const struct borrowed *table, unsigned *ret)
{
	unsigned bits = 0;
	size_t len;
	for (const char *at = value, *part; (part = node_word_cut(&at, ',', &len));) {
		unsigned bit = 0;
		for (unsigned i = 0; table[i].key && !bit; i++)
			if (strlen(short_name(table[i].key)) == len && !memcmp(short_name(table[i].key), part, len))
				bit = 1U << i;
		if (!bit || bits & bit)
			return false;
		bits |= bit;
	}
	*ret = bits;
	return true;
}
static void write_bits(unsigned bits, const struct borrowed *table, char *ret, size_t size)
{
	for (unsigned i = 0; table[i].key; i++) {
		size_t len = strlen(ret);
		if (bits & 1U << i)
			snprintf(ret + len, size - len, "%s%s", len ? "," : "", short_name(table[i].key));
	}
}
#define BITS_KEY(field_, table)                                                    \
	static bool read_##field_(const char *value, struct record *r)             \
	{                                                                          \
		unsigned bits = 0;                                                 \
		bool is_good = read_bits(value, table, &bits);                     \
		r->field_ = (typeof(r->field_))bits;                               \
		return is_good;                                                    \
	}                                                                          \
	static void write_##field_(const struct record *r, char *ret, size_t size) \
	{                                                                          \
		write_bits(r->field_, table, ret, size);                           \
	}
BITS_KEY(paused, operands)
BITS_KEY(autoscaler, hints)

static void write_date(int64_t t, char *ret, size_t size)
{
	auto_str char *text = t ? date_text((time_t)t) : NULL;
	snprintf(ret, size, "%s", text ? text : "");
}
static bool read_date_text(const char *value, int64_t *ret)
{
	time_t t = 0;
	bool is_good = date_parse(value, &t) && t > 0;
	*ret = is_good ? t : 0;
	return is_good;
}
#define DATE_KEY(field_)                                                           \
	static bool read_##field_(const char *value, struct record *r)             \
	{                                                                          \
		return read_date_text(value, &r->field_);                          \
	}                                                                          \
	static void write_##field_(const struct record *r, char *ret, size_t size) \
	{                                                                          \
		write_date(r->field_, ret, size);                                  \
	}
DATE_KEY(since)
DATE_KEY(deadline)
DATE_KEY(ordered)
DATE_KEY(reason_since)

// <for this target>.<in this state>
static bool read_attempts(const char *value, struct record *r)
{
	struct seq two;
	if (!node_seq_parse(value, strlen(value), &two) || two.epoch > UINT16_MAX || two.n > UINT16_MAX)
		return false;
	r->attempts = (uint16_t)two.epoch;
	r->tries = (uint16_t)two.n;
	return true;
}
static void write_attempts(const struct record *r, char *ret, size_t size)
{
	if (r->attempts || r->tries)
		snprintf(ret, size, "%u.%u", r->attempts, r->tries);
}

// <code>[ <object>]
static bool read_reason(const char *value, struct record *r)
{
	size_t len;
	const char *at = value, *code = node_word_cut(&at, ' ', &len);
	r->reason.code = node_reason_parse(code, len);
	if (r->reason.code == REASON_COUNT || r->reason.code == REASON_NONE) {
		r->reason.code = REASON_NONE;
		return false;
	}
	if (at && (!*at || strlen(at) >= OBJECT_TEXT))
		return false;
	snprintf(r->reason.object, sizeof(r->reason.object), "%s", at ? at : "");
	return true;
}
static void write_reason(const struct record *r, char *ret, size_t size)
{
	if (r->reason.code != REASON_NONE)
		snprintf(ret, size, "%s%s%s", node_reason_info(r->reason.code)->code, *r->reason.object ? " " : "",
			 r->reason.object);
}

static bool read_outcome(const char *value, struct record *r)
{
	r->outcome = node_phase_parse(value);
	bool is_good = r->outcome == PHASE_DONE || r->outcome == PHASE_ROLLEDBACK;
	r->outcome = is_good ? r->outcome : PHASE_IDLE;
	return is_good;
}
static void write_outcome(const struct record *r, char *ret, size_t size)
{
	snprintf(ret, size, "%s", r->outcome == PHASE_IDLE ? "" : node_phase_info(r->outcome)->name);
}

#define WORD_KEY(field_)                                                                   \
	static bool read_##field_(const char *value, struct record *r)                     \
	{                                                                                  \
		return node_word_copy(r->field_, sizeof(r->field_), value, strlen(value)); \
	}                                                                                  \
	static void write_##field_(const struct record *r, char *ret, size_t size)         \
	{                                                                                  \
		snprintf(ret, size, "%s", r->field_);                                      \
	}
WORD_KEY(pool)
WORD_KEY(wave)
WORD_KEY(leader)

// The hash of the nonce: users may write a long one.
static bool read_retry(const char *value, struct record *r)
{
	return node_number_cut(value, strlen(value), UINT64_MAX, &r->retry) && r->retry;
}
static void write_retry(const struct record *r, char *ret, size_t size)
{
	if (r->retry)
		snprintf(ret, size, "%" PRIu64, r->retry);
}

// <failed>.<repeated>:<target>
static bool read_drains(const char *value, struct record *r)
{
	struct seq two;
	size_t len;
	struct target_hash target_hash;
	const char *at = value, *part = node_word_cut(&at, ':', &len);
	if (!node_seq_parse(part, len, &two) || two.epoch > UINT16_MAX || two.n > UINT16_MAX || !(two.epoch || two.n) ||
	    !at || !target_hash_parse(at, &target_hash) || !target_hash_is_set(&target_hash))
		return false;
	r->drains.target_hash = target_hash;
	r->drains.failed = (uint16_t)two.epoch;
	r->drains.repeated = (uint16_t)two.n;
	return true;
}
static void write_drains(const struct record *r, char *ret, size_t size)
{
	char target_hash[TARGET_HASH_TEXT];
	target_hash_text(&r->drains.target_hash, target_hash);
	if (r->drains.failed || r->drains.repeated)
		snprintf(ret, size, "%u.%u:%s", r->drains.failed, r->drains.repeated, target_hash);
}

#define KEY(name, field_, is_label)                                      \
	{                                                                \
		KEY_PREFIX name, is_label, read_##field_, write_##field_ \
	}
const struct node_key node_keys[] = {
	KEY("state", state, true),
	KEY("seq", seq, false),
	KEY("target", target, false),
	KEY("stable", stable, false),
	KEY("previous", previous, false),
	KEY("failed-target", failed, false),
	KEY("go", go, false),
	KEY("cordon", receipt, false),
	KEY("baseline", baseline, false),
	KEY("paused", paused, false),
	KEY("autoscaler", autoscaler, false),
	KEY("since", since, false),
	KEY("deadline", deadline, false),
	KEY("attempts", attempts, false),
	KEY("reason", reason, false),
	KEY("outcome", outcome, false),
	KEY("rollout", pool, false),
	KEY("wave-assigned", wave, false),
	KEY("retry-seen", retry, false),
	KEY("drains", drains, false),
	KEY("coordinator", leader, false),
	KEY("reason-since", reason_since, false),
	KEY("ordered", ordered, false),
	{ 0 },
};

bool node_key_is_malformed(const struct record *record, const char *name)
{
	for (unsigned i = 0; node_keys[i].name; i++)
		if (str_eq(node_keys[i].name, name))
			return record->malformed & 1U << i;
	return false;
}
