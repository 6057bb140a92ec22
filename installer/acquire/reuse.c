// SPDX-License-Identifier: Apache-2.0
#include "acquire/reuse.h"

#include "kmod/kernel_tree/compiler.h"

#include <ctype.h>

static const char *const names[] = { [REUSE_OFF] = "off", [REUSE_SERIES] = "series", [REUSE_ON] = "on" };

bool reuse_parse(const char *text, enum reuse *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (str_eq(text, names[i])) {
			*ret = (enum reuse)i;
			return true;
		}
	}
	return false;
}

const char *reuse_name(enum reuse r)
{
	return names[r];
}

// "6.1" of "6.1.0-56-cloud-amd64"; NULL = it does not begin so. Caller frees.
static char *upstream_series(const char *release)
{
	size_t major = strspn(release, "0123456789");
	size_t minor = release[major] == '.' ? strspn(release + major + 1, "0123456789") : 0;
	return major && minor ? str_ndup(release, major + 1 + minor) : NULL;
}

// The letters of a release, word by word: "cloud amd" of "6.1.0-56-cloud-amd64". The size of arm64's pages is no mere
// number, and neither version magic nor modules tell it: "arm 64 k" of "6.8.0-56-arm64-64k". Caller frees.
static char *release_words(const char *release)
{
	char *ret = str_dup("");
	for (const char *p = release; *p; p++) {
		size_t digits = strspn(p, "0123456789");
		if (isalpha((unsigned char)*p)) {
			str_add(&ret, "%s%c", p > release && !isalpha((unsigned char)p[-1]) ? " " : "", *p);
		} else if (digits) {
			if (p[digits] == 'k' && !isalnum((unsigned char)p[digits + 1]))
				str_add(&ret, " %.*s", (int)digits, p);
			p += digits - 1;
		}
	}
	return ret;
}

// Same distribution, x.y and kind: two releases are of one kind when they differ in nothing but numbers.
static bool is_same_series(const struct package_key *key, const struct reuse_kernel *k)
{
	auto_str char *x = upstream_series(key->release), *y = upstream_series(k->release),
		      *a = release_words(key->release), *b = release_words(k->release);
	return str_eq(key->distro, k->distro) && str_eq(x, y) && str_eq(a, b);
}

static bool has_compiler(const struct module *m, const char *compiler)
{
	for (size_t i = 0; i < m->compilers.count; i++)
		if (compiler_is_same(m->compilers.items[i], compiler))
			return true;
	return m->compilers.count == 0;
}

// Returns how the modules of a package contradict its labels: another kernel, or no object from the kernel's compiler.
// NULL = they do not.
static char *find_false_label(const struct package_key *key, const struct module_set *set)
{
	size_t len = strlen(key->release);
	for (size_t i = 0; i < set->count; i++) {
		const struct module *m = &set->items[i];
		const char *vermagic = m->vermagic ? m->vermagic : "";
		if (strncmp(vermagic, key->release, len) != 0 || (vermagic[len] != ' ' && vermagic[len] != '\0'))
			return str_fmt("labelled as made for %s, but its %s was made for '%s'", key->release, m->name,
				       vermagic);
		if (!has_compiler(m, key->compiler))
			return str_fmt("labelled as compiled with '%s', but its %s was compiled with '%s'",
				       key->compiler ? key->compiler : "", m->name, m->compilers.items[0]);
	}
	return NULL;
}

char *reuse_why_not(enum reuse policy, const struct package_key *key, const struct reuse_kernel *k,
		    const struct module_set *set)
{
	if (policy == REUSE_OFF)
		return str_fmt("made for %s, and --reuse is off", key->release);
	if (!compiler_is_same(key->compiler, k->compiler))
		return str_fmt("made for %s with '%s', the kernel with '%s'", key->release,
			       key->compiler ? key->compiler : "an unknown compiler",
			       k->compiler ? k->compiler : "an unknown one");
	if (policy == REUSE_SERIES && !is_same_series(key, k))
		return str_fmt("made for %s (%s), not of the series of %s (%s); --reuse on would let the proof decide",
			       key->release, key->distro ? key->distro : "distribution unknown", k->release,
			       k->distro ? k->distro : "distribution unknown");
	return set ? find_false_label(key, set) : NULL;
}
