// SPDX-License-Identifier: Apache-2.0
#include "kmod/forkserver/directives.h"

#include <stdbool.h>
#include <string.h>

struct scan {
	const char *at, *end;
	size_t line; // of at
	char *out;   // the logical line, without comments; NUL-terminated
	size_t len, room;
};

static void put(struct scan *s, char c)
{
	if (s->len + 1 < s->room)
		s->out[s->len] = c;
	s->len++;
}

// After a backslash and a newline the line goes on.
static bool skip_continuation(struct scan *s)
{
	if (s->at + 1 >= s->end || s->at[0] != '\\' || s->at[1] != '\n')
		return false;
	s->at += 2;
	s->line++;
	return true;
}

// False = it does not end.
static bool skip_comment(struct scan *s)
{
	for (s->at += 2; s->at + 1 < s->end; s->at++) {
		s->line += *s->at == '\n';
		if (s->at[0] == '*' && s->at[1] == '/') {
			s->at += 2;
			return true;
		}
	}
	return false;
}

// A logical line with its newline; comments become a blank, as for the compiler. False = the end, or a form that is not
// known here. A backslash inside of a string is taken as it is: an escaped quote must not end it.
static bool next_line(struct scan *s)
{
	char quote = 0;
	s->len = 0;
	while (s->at < s->end && *s->at != '\n') {
		if (skip_continuation(s))
			continue;
		char c = *s->at, after = s->at + 1 < s->end ? s->at[1] : '\0';
		if (!c || c == '\r')
			return false;
		if (!quote && c == '/' && after == '*') {
			if (!skip_comment(s))
				return false;
			put(s, ' ');
			continue;
		}
		if (!quote && c == '/' && after == '/') {
			while (s->at < s->end && *s->at != '\n')
				if (!skip_continuation(s))
					s->at++;
			continue;
		}
		if (quote && c == '\\' && after && after != '\n') {
			put(s, c);
			c = after;
			s->at++;
		} else if (quote ? c == quote : c == '"' || c == '\'') {
			quote = quote ? 0 : c;
		}
		put(s, c);
		s->at++;
	}
	if (s->at >= s->end || quote || s->len + 1 >= s->room)
		return false;
	s->at++;
	s->line++;
	while (s->len && strchr(" \t\f\v", s->out[s->len - 1]))
		s->len--;
	s->out[s->len] = '\0';
	return true;
}

static bool is_word_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool has_word(const char *text, const char *word)
{
	size_t len = strlen(word);
	for (const char *p = text; (p = strstr(p, word)); p += len)
		if ((p == text || !is_word_char(p[-1])) && !is_word_char(p[len]))
			return true;
	return false;
}

enum kind { BLANK, INCLUDE, OPEN, CLOSE, OTHER, END };

static enum kind kind_of(const char *line)
{
	static const struct {
		const char *name;
		enum kind kind;
	} known[] = { { "include", INCLUDE }, { "if", OPEN },      { "ifdef", OPEN },
		      { "ifndef", OPEN },     { "endif", CLOSE },  { "else", OTHER },
		      { "elif", OTHER },      { "define", OTHER }, { "undef", OTHER } };
	static const char *const places[] = { "__LINE__", "__FILE__", "__BASE_FILE__", "__INCLUDE_LEVEL__", "_Pragma" };
	line += strspn(line, " \t\f\v");
	if (!*line)
		return BLANK;
	if (*line != '#')
		return END;
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
		if (has_word(line, places[i]))
			return END;
	line += 1 + strspn(line + 1, " \t\f\v");
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		size_t len = strlen(known[i].name);
		if (strncmp(line, known[i].name, len) == 0 && !is_word_char(line[len]))
			return known[i].kind;
	}
	return END;
}

void directives_read(const char *source, size_t len, struct directives *ret)
{
	struct scan s = { .at = source, .end = source + len, .line = 1 };
	size_t used = 0, begin = 0, depth = 0;
	bool is_including = false;
	ret->count = 0;
	while (ret->count < DIRECTIVES_PIECES) {
		s.out = ret->text + used;
		s.room = sizeof(ret->text) - used;
		if (!next_line(&s))
			return;
		enum kind kind = kind_of(s.out);
		if (kind == END || (kind == CLOSE && !depth))
			return;
		if (kind == BLANK)
			continue;
		ret->text[used + s.len] = '\n';
		used += s.len + 1;
		depth += kind == OPEN;
		depth -= kind == CLOSE;
		is_including |= kind == INCLUDE;
		if (depth || !is_including || (kind != INCLUDE && kind != CLOSE))
			continue;
		ret->pieces[ret->count].at = begin;
		ret->pieces[ret->count].len = used - begin;
		ret->pieces[ret->count].rest = (size_t)(s.at - source);
		ret->pieces[ret->count].rest_line = s.line;
		ret->count++;
		begin = used;
		is_including = false;
	}
}
