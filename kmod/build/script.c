// SPDX-License-Identifier: Apache-2.0
#include "kmod/build/script.h"

#include <ctype.h>
#include <fnmatch.h>

#define FUNCTION "\ncompile_test() {\n"
enum { INDENT = 8 }; // of an arm, at most: they are not all alike

struct arm {
	char *patterns; // "a | b_*"
	const char *text;
	size_t len;
};

struct script {
	char *text;
	struct arm *arms;
	size_t count;
	struct strv present; // macros that header tests decide
	char common[DIGEST_HEX + 1];
};

void script_done(struct script *s)
{
	for (size_t i = 0; s && i < s->count; i++)
		free(s->arms[i].patterns);
	if (s) {
		free(s->arms);
		free(s->text);
		strv_done(&s->present);
	}
	free(s);
}

const char *script_common(const struct script *s)
{
	return s->common;
}

static size_t line_len(const char *line)
{
	return strcspn(line, "\n");
}

static size_t indent_of(const char *line)
{
	return strspn(line, " \t");
}

// "        name)", and nothing that is a command.
static char *patterns_of(const char *line, size_t len)
{
	size_t at = indent_of(line);
	if (!at || at > INDENT || len < at + 2 || line[len - 1] != ')')
		return NULL;
	for (size_t i = at; i < len - 1; i++)
		if (!isalnum((unsigned char)line[i]) && !strchr("_*| ", line[i]))
			return NULL;
	return str_ndup(line + at, len - 1 - at);
}

// A probe's own `case` is indented further. Where the end of an arm is missed, its text is too long, which only makes
// two versions differ.
static bool is_end(const char *line, size_t len)
{
	size_t at = indent_of(line);
	return at <= INDENT && len == at + 2 && strncmp(line + at, ";;", 2) == 0;
}

static void split_arms(struct script *s, const char *from, const char *end)
{
	struct arm open = { 0 };
	for (const char *line = from; line < end; line += line_len(line) + 1) {
		size_t len = line_len(line);
		if (!open.patterns) {
			open = (struct arm){ .patterns = patterns_of(line, len), .text = line };
		} else if (is_end(line, len)) {
			open.len = (size_t)(line - open.text);
			s->arms = mem_grow(s->arms, s->count + 1, sizeof(open));
			s->arms[s->count++] = open;
			open = (struct arm){ 0 };
		}
	}
	free(open.patterns);
}

// As conftest.sh does: tr '/.\-a-z' '___A-Z'.
static char *macro_of(const char *header, size_t len)
{
	auto_str char *name = str_ndup(header, len);
	for (char *p = name; *p; p++)
		*p = (char)(isalnum((unsigned char)*p) ? toupper((unsigned char)*p) : '_');
	return str_fmt("NV_%s_PRESENT", name);
}

// A list that is too long only makes two versions differ.
static void add_header_tests(struct script *s, const char *kbuild)
{
	auto_strv struct strv words = { 0 };
	strv_split(&words, kbuild, " \t\n\\");
	for (size_t i = 0; i < words.count; i++)
		if (str_ends(words.items[i], ".h"))
			strv_add(&s->present, macro_of(words.items[i], strlen(words.items[i])));
}

static bool makes_flags(const char *line)
{
	return (strstr(line, "flags") || strstr(line, "FLAGS")) && !strstr(line, "NV_VERSION_STRING");
}

static void add_flags(struct digest *d, const char *kbuild)
{
	auto_strv struct strv lines = { 0 };
	strv_split(&lines, kbuild, "\n");
	for (size_t i = 0; i < lines.count; i++)
		if (makes_flags(lines.items[i]))
			digest_add(d, lines.items[i], strlen(lines.items[i]) + 1);
}

// For each of the header tests' macros that a text names: is the test made?
static void add_present(const struct script *s, struct digest *d, const char *text, size_t len)
{
	static const char HEAD[] = "NV_", TAIL[] = "_PRESENT";
	for (const char *p = text, *end = text + len; p < end; p++) {
		if (strncmp(p, HEAD, strlen(HEAD)) != 0)
			continue;
		size_t word = 0;
		while (p + word < end && (isalnum((unsigned char)p[word]) || p[word] == '_'))
			word++;
		auto_str char *name = str_ndup(p, word);
		if (str_ends(name, TAIL))
			digest_add(d, strv_has(&s->present, name) ? "1" : "0", 1);
		p += word - 1;
	}
}

static void read_lists(const struct root *source, struct script *s, struct digest *d)
{
	static const char *const files[] = { "Kbuild", "header-presence-tests.mk" };
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		auto_str char *text = NULL;
		struct err absent;
		if (root_read(source, files[i], &text, NULL, &absent) <= 0)
			continue;
		add_header_tests(s, text);
		add_flags(d, text);
	}
}

struct script *script_read(const struct root *source)
{
	struct script *s = mem_alloc(sizeof(*s));
	struct err absent;
	char *function = NULL, *end = NULL;
	if (root_read(source, "conftest.sh", &s->text, NULL, &absent) > 0)
		function = strstr(s->text, FUNCTION);
	if (function)
		end = strstr(function + strlen(FUNCTION), "\n}\n");
	if (end)
		split_arms(s, function + strlen(FUNCTION), end);
	if (!s->count) {
		script_done(s);
		return NULL;
	}
	struct digest *d = digest_new();
	digest_add(d, s->text, (size_t)(function - s->text));
	digest_add(d, end, strlen(end));
	read_lists(source, s, d);
	add_present(s, d, s->text, (size_t)(function - s->text));
	digest_hex(d, s->common);
	return s;
}

static bool is_arm_of(const struct arm *arm, const char *name)
{
	auto_strv struct strv patterns = { 0 };
	strv_split(&patterns, arm->patterns, "| ");
	for (size_t i = 0; i < patterns.count; i++)
		if (!str_eq(patterns.items[i], "*") && fnmatch(patterns.items[i], name, 0) == 0)
			return true;
	return false;
}

bool script_probe(const struct script *s, const char *name, char ret[DIGEST_HEX + 1])
{
	const struct arm *arm = NULL;
	if (strchr(name, '.')) {
		digest_data(name, strlen(name), ret);
		return true;
	}
	for (size_t i = 0; i < s->count && !arm; i++)
		if (is_arm_of(&s->arms[i], name))
			arm = &s->arms[i];
	if (!arm)
		return false;
	struct digest *d = digest_new();
	digest_add(d, arm->text, arm->len);
	add_present(s, d, arm->text, arm->len);
	digest_hex(d, ret);
	return true;
}
