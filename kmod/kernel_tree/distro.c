// SPDX-License-Identifier: Apache-2.0
#include "kmod/kernel_tree/distro.h"

#include "base/core/str.h"

#include <ctype.h>

// The Red Hat family writes ".el9_6", Amazon ".amzn2023", Fedora ".fc41": a word, then numbers.
static char *distro_of_release(const char *release)
{
	static const struct {
		const char *mark, *name;
	} marks[] = { { ".el", "rhel" }, { ".amzn", "amzn" }, { ".fc", "fedora" }, { ".azl", "azurelinux" } };
	for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
		const char *at = strstr(release, marks[i].mark);
		if (!at || !isdigit((unsigned char)at[strlen(marks[i].mark)]))
			continue;
		at += strlen(marks[i].mark);
		char *ret = str_fmt("%s%.*s", marks[i].name, (int)strspn(at, "0123456789_"), at);
		for (char *p = ret; *p; p++)
			if (*p == '_')
				*p = '.';
		return ret;
	}
	return NULL;
}

char *distro_of(const char *release, const char *banner)
{
	static const struct {
		const char *mark, *name;
	} marks[] = { { "-Ubuntu", "ubuntu" }, { " Debian ", "debian" }, { "flatcar", "flatcar" }, { "SUSE", "suse" } };
	char *ret = distro_of_release(release);
	for (size_t i = 0; !ret && banner && i < ARRAY_SIZE(marks); i++)
		if (strstr(banner, marks[i].mark))
			ret = str_dup(marks[i].name);
	return ret;
}
