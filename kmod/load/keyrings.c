// SPDX-License-Identifier: Apache-2.0
// keyctl(2), keyrings(7). Of .platform mainline takes no key for modules, Debian and Red Hat do: what only that has is
// known, and the load tells.
#include "kmod/load/keyrings.h"

#include <errno.h>
#include <stdio.h>

static const char *const names[KEYRINGS_MOST] = { ".builtin_trusted_keys", ".secondary_trusted_keys", ".machine",
						  ".platform" };

// "1d2c3b4a I------     1 perm 1f0b0000     0     0 keyring   .machine: 1"
static void add_keyring(struct keyrings *ret, const char *line)
{
	static const char type[] = " keyring   ";
	unsigned serial;
	const char *name = strstr(line, type);
	if (name && str_starts(name + strlen(type), ".blacklist:") && sscanf(line, "%8x ", &serial) == 1)
		ret->blacklist = (int)serial;
	for (size_t i = 0; name && i < KEYRINGS_MOST && ret->count < KEYRINGS_MOST; i++) {
		size_t len = strlen(names[i]);
		if (str_starts(name + strlen(type), names[i]) && strchr(": ", name[strlen(type) + len]) &&
		    sscanf(line, "%8x ", &serial) == 1)
			ret->serials[ret->count++] = (int)serial;
	}
}

void keyrings_lines(const struct root *kern, struct strv *ret)
{
	struct err ignored;
	auto_str char *text = NULL;
	if (root_read(kern, "proc/keys", &text, NULL, &ignored) > 0)
		strv_split(ret, text, "\n");
}

void keyrings_read(const struct root *kern, const struct sys *sys, struct keyrings *ret)
{
	auto_strv struct strv lines = { 0 };
	*ret = (struct keyrings){ .sys = sys };
	keyrings_lines(kern, &lines);
	for (size_t i = 0; i < lines.count; i++)
		add_keyring(ret, lines.items[i]);
}

// What is there may not be linked from there, which is EACCES, and not ENOKEY.
int keyrings_ask(const struct keyrings *k, const char *id)
{
	auto_str char *exactly = str_fmt("ex:%s", id);
	int answer = k->count ? 0 : -1;
	for (size_t i = 0; i < k->count; i++) {
		if (k->sys->key_search(k->sys, k->serials[i], exactly) == 0 || errno == EACCES)
			return 1;
		if (errno != ENOKEY)
			answer = -1;
	}
	return answer;
}

int keyrings_has(const void *keyrings, const char *id)
{
	return keyrings_ask(keyrings, id) != 0;
}

int keyrings_has_revoked(const void *keyrings, const char *id)
{
	const struct keyrings *k = keyrings;
	auto_str char *exactly = str_fmt("ex:%s", id);
	return k->blacklist && (k->sys->key_search(k->sys, k->blacklist, exactly) == 0 || errno == EACCES);
}
