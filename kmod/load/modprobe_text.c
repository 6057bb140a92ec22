// SPDX-License-Identifier: Apache-2.0
#include "kmod/load/modprobe_text.h"

// A backslash joins lines; of it and any other character only that is left. Every blank is one of " ". NULL = the end.
static char *take_line(char **text)
{
	char *line = *text, *end = line, *s = line;
	while (*s && *s != '\n') {
		if (*s == '\\' && !*++s)
			break;
		if (*s != '\n')
			*end++ = strchr("\t\v\f\r", *s) ? ' ' : *s;
		s++;
	}
	*text = *s ? s + 1 : s;
	if (!*s && end == line)
		return NULL;
	*end = '\0';
	return line;
}

// "" = there is none.
static char *take_word(char **rest)
{
	char *word = *rest + strspn(*rest, " "), *end = word + strcspn(word, " ");
	*rest = *end ? end + 1 : end;
	*end = '\0';
	return word;
}

// Not within brackets, which a pattern of an alias has; those that do not match are no name.
static bool put_underscores(char *name)
{
	for (char *s = name; *s; s++) {
		if (*s == '[')
			s += strcspn(s, "]");
		else if (*s == ']')
			return false;
		else if (*s == '-')
			*s = '_';
		if (!*s)
			return false;
	}
	return *name;
}

bool modprobe_text_next(char **text, struct modprobe_line *ret)
{
	static const char *const verbs[] = { "options", "blacklist", "install", "alias" };
	for (char *line; (line = take_line(text));) {
		const char *verb = take_word(&line);
		char *module = take_word(&line);
		for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
			if (!str_eq(verb, verbs[i]) || !put_underscores(module))
				continue;
			char *words = i == MODPROBE_ALIAS ? take_word(&line) : line;
			if (i == MODPROBE_ALIAS && !put_underscores(words))
				continue;
			*ret = (struct modprobe_line){ (enum modprobe_verb)i, module, words };
			return true;
		}
	}
	return false;
}
