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

static int refuse(const struct reader *r, const char *due)
{
	return err_set(r->err, E_CONFIG, "%s is due %s%s", due, *r->at ? "at " : "at its end", r->at);
}

static void skip_blanks(struct reader *r)
{
	r->at += strspn(r->at, " \t");
}

static bool takes(struct reader *r, const char *sign)
{
	if (strncmp(r->at, sign, strlen(sign)) != 0)
		return false;
	r->at += strlen(sign);
	skip_blanks(r);
	return true;
}

// Letters, digits and "-_." within.
static bool is_value(const char *text)
{
	size_t len = strlen(text);
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)text[i]) && !strchr("-_.", text[i]))
			return false;
	return !len || (len <= NAME_MOST && isalnum((unsigned char)text[0]) && isalnum((unsigned char)text[len - 1]));
}

static bool is_key(const char *text)
{
	const char *slash = strchr(text, '/'), *name = slash ? slash + 1 : text;
	auto_str char *prefix = str_ndup(text, slash ? (size_t)(slash - text) : 0);
	for (const char *p = prefix; *p; p++)
		if (!islower((unsigned char)*p) && !isdigit((unsigned char)*p) && !strchr("-.", *p))
			return false;
	return *name && is_value(name) && (!slash || *prefix);
}

static char *read_word(struct reader *r)
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
	if (!takes(r, "("))
		return refuse(r, "'('");
	do {
		const char *before = r->at;
		auto_str char *value = read_word(r);
		if (!*value || !is_value(value)) {
			r->at = before;
			return refuse(r, "a value");
		}
		*ret = *ret || str_eq(value, has);
	} while (takes(r, ","));
	return takes(r, ")") ? 0 : refuse(r, "')'");
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

// What stands behind a key. A label that is not there is of no value, and so it is "not in" all of them.
static int read_values(struct reader *r, const char *has)
{
	bool is_not = takes_word(r, "notin"), is_in = false;
	if (is_not || takes_word(r, "in")) {
		if (read_set(r, has, &is_in) < 0)
			return -1;
	} else if ((is_not = takes(r, "!=")) || takes(r, "==") || takes(r, "=")) {
		const char *before = r->at;
		auto_str char *value = read_word(r);
		if (!is_value(value)) {
			r->at = before;
			return refuse(r, "a value");
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
	bool is_absent = takes(r, "!");
	const char *before = r->at;
	auto_str char *key = read_word(r);
	if (!is_key(key)) {
		r->at = before;
		return refuse(r, "the name of a label");
	}
	const char *has = json_string_value(json_object_get(r->labels, key));
	if (!is_absent)
		return read_values(r, has);
	r->meets = r->meets && !has;
	return 0;
}

static int read_all(struct reader *r)
{
	skip_blanks(r);
	do {
		if (read_requirement(r) < 0)
			return -1;
	} while (takes(r, ","));
	return *r->at ? refuse(r, "',' or an end") : 0;
}

int selector_check(const char *text, struct err *err)
{
	struct reader r = { text, NULL, true, err };
	return read_all(&r);
}

bool selector_meets(const char *text, const json_t *labels)
{
	struct err ignored;
	struct reader r = { text, labels, true, &ignored };
	return read_all(&r) == 0 && r.meets;
}
