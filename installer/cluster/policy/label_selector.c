// SPDX-License-Identifier: Apache-2.0
#include "cluster/policy/label_selector.h"

#include <ctype.h>

enum { NAME_MOST = 63 };

struct reader {
	const char *at;
	const json_t *labels;
	bool meets;
	struct err *err;
};

static int refuse_selector(const struct reader *r, const char *due)
{
	return err_set(r->err, E_CONFIG, "expected %s %s%s", due, *r->at ? "at " : "at the end", r->at);
}

static void skip_blanks(struct reader *r)
{
	r->at += strspn(r->at, " \t");
}

static bool takes_sign(struct reader *r, const char *sign)
{
	if (strncmp(r->at, sign, strlen(sign)) != 0)
		return false;
	r->at += strlen(sign);
	skip_blanks(r);
	return true;
}

// Letters, digits and "-_." within.
static bool is_label_value(const char *text)
{
	size_t len = strlen(text);
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)text[i]) && !strchr("-_.", text[i]))
			return false;
	return !len || (len <= NAME_MOST && isalnum((unsigned char)text[0]) && isalnum((unsigned char)text[len - 1]));
}

static bool is_label_key(const char *text)
{
	const char *slash = strchr(text, '/'), *name = slash ? slash + 1 : text;
	auto_str char *prefix = str_ndup(text, slash ? (size_t)(slash - text) : 0);
	for (const char *p = prefix; *p; p++)
		if (!islower((unsigned char)*p) && !isdigit((unsigned char)*p) && !strchr("-.", *p))
			return false;
	return *name && is_label_value(name) && (!slash || *prefix);
}

static char *read_selector_word(struct reader *r)
{
	size_t len = strcspn(r->at, " \t,=!()<>");
	char *word = str_ndup(r->at, len);
	r->at += len;
	skip_blanks(r);
	return word;
}

// "(a, b)": whether has is one of them.
static int read_set(struct reader *r, const char *has, bool *ret)
{
	*ret = false;
	if (!takes_sign(r, "("))
		return refuse_selector(r, "'('");
	do {
		const char *before = r->at;
		auto_str char *value = read_selector_word(r);
		if (!*value || !is_label_value(value)) {
			r->at = before;
			return refuse_selector(r, "a value");
		}
		*ret = *ret || str_eq(value, has);
	} while (takes_sign(r, ","));
	return takes_sign(r, ")") ? 0 : refuse_selector(r, "')'");
}

static bool takes_word(struct reader *r, const char *word)
{
	size_t len = strlen(word);
	if (strncmp(r->at, word, len) != 0 || !r->at[len] || !strchr(" \t(", r->at[len]))
		return false;
	r->at += len;
	skip_blanks(r);
	return true;
}

// What follows a key. An absent label has no value, and so is "not in" any set.
static int read_values(struct reader *r, const char *has)
{
	bool is_not = takes_word(r, "notin"), is_in = false;
	if (is_not || takes_word(r, "in")) {
		if (read_set(r, has, &is_in) < 0)
			return -1;
	} else if ((is_not = takes_sign(r, "!=")) || takes_sign(r, "==") || takes_sign(r, "=")) {
		const char *before = r->at;
		auto_str char *value = read_selector_word(r);
		if (!is_label_value(value)) {
			r->at = before;
			return refuse_selector(r, "a value");
		}
		is_in = str_eq(value, has);
	} else {
		is_in = has != NULL;
	}
	r->meets = r->meets && is_in != is_not;
	return 0;
}

static int read_requirement(struct reader *r)
{
	bool is_absent = takes_sign(r, "!");
	const char *before = r->at;
	auto_str char *key = read_selector_word(r);
	if (!is_label_key(key)) {
		r->at = before;
		return refuse_selector(r, "the name of a label");
	}
	const char *has = json_string_value(json_object_get(r->labels, key));
	if (!is_absent)
		return read_values(r, has);
	r->meets = r->meets && !has;
	return 0;
}

static int read_requirements(struct reader *r)
{
	skip_blanks(r);
	do {
		if (read_requirement(r) < 0)
			return -1;
	} while (takes_sign(r, ","));
	return *r->at ? refuse_selector(r, "',' or an end") : 0;
}

int label_selector_check(const char *text, struct err *err)
{
	struct reader r = { text, NULL, true, err };
	return read_requirements(&r);
}

bool label_selector_matches(const char *text, const json_t *labels)
{
	struct err ignored;
	struct reader r = { text, labels, true, &ignored };
	return read_requirements(&r) == 0 && r.meets;
}
