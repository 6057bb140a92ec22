// SPDX-License-Identifier: Apache-2.0
#include "acquire/reuse.h"

#include "kmod/kernel_tree/compiler.h"
#include "kmod/module/proof.h"

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

// The letters of a release, word by word: "cloud amd" of "6.1.0-56-cloud-amd64". Caller frees.
static char *release_words(const char *release)
{
	char *ret = str_dup("");
	for (const char *p = release; *p; p++)
		if (isalpha((unsigned char)*p))
			str_add(&ret, "%s%c", p > release && !isalpha((unsigned char)p[-1]) ? " " : "", *p);
	return ret;
}

bool reuse_is_series(const struct package_key *key, const struct reuse_kernel *k)
{
	auto_str char *x = upstream_series(key->release), *y = upstream_series(k->release),
		      *a = release_words(key->release), *b = release_words(k->release);
	return str_eq(key->distro, k->distro) && str_eq(x, y) && str_eq(a, b);
}

char *reuse_why_not(enum reuse policy, const struct package_key *key, const struct reuse_kernel *k)
{
	if (policy == REUSE_OFF)
		return str_fmt("made for %s, and --reuse is off", key->release);
	if (!compiler_is_same(key->compiler, k->compiler))
		return str_fmt("made for %s with '%s', the kernel with '%s'", key->release,
			       key->compiler ? key->compiler : "an unknown compiler",
			       k->compiler ? k->compiler : "an unknown one");
	if (policy == REUSE_SERIES && !reuse_is_series(key, k))
		return str_fmt("made for %s (%s), not of the series of %s (%s); --reuse on would let the proof decide",
			       key->release, key->distro ? key->distro : "distribution unknown", k->release,
			       k->distro ? k->distro : "distribution unknown");
	return NULL;
}

static bool has_compiler(const struct module *m, const char *compiler)
{
	for (size_t i = 0; i < m->compilers.count; i++)
		if (compiler_is_same(m->compilers.items[i], compiler))
			return true;
	return m->compilers.count == 0;
}

char *reuse_lie(const struct package_key *key, const struct module_set *set)
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

// Names alone: with the CRCs ten of them would not fit into an error.
static char *crc_mismatch_text(const struct package *p, const struct module_set *set, const struct proof *proof)
{
	enum { LISTED = 10 };
	size_t worst = 0;
	for (size_t i = 0; i < proof->count; i++)
		if (proof->modules[i].mismatch_count > proof->modules[worst].mismatch_count)
			worst = i;
	const struct proof_module *m = &proof->modules[worst];
	if (!m->mismatch_count)
		return str_dup(proof->text);
	char *s =
		str_fmt("%s made for %s: %zu CRCs differ:", set->items[worst].name, p->key.release, m->mismatch_count);
	for (size_t i = 0; i < m->mismatch_count && i < LISTED; i++)
		str_add(&s, "%s %s", i ? "," : "", m->mismatches[i].symbol);
	if (m->mismatch_count > LISTED)
		str_add(&s, " and %zu more", m->mismatch_count - LISTED);
	return s;
}

// Modules that will not be loaded need not fit.
static bool is_requested(const struct strv *modules, const char *name)
{
	if (modules && modules->count)
		return strv_has(modules, name);
	for (size_t i = 0; i < ARRAY_SIZE(default_modules); i++)
		if (str_eq(default_modules[i], name))
			return true;
	return false;
}

static int set_refusal(int code, char *take_text, char **ret_text, int *ret_code)
{
	*ret_text = take_text;
	*ret_code = code;
	return 0;
}

int reuse_prove(const struct package *p, const struct strv *modules, const struct kernel_abi *abi, char **ret_text,
		int *ret_code, struct err *err)
{
	auto_strv struct strv files = { 0 };
	auto_module_set struct module_set set = { 0 };
	auto_proof struct proof proof = { 0 };
	for (size_t i = 0; i < p->count; i++)
		if (is_requested(modules, p->files[i].module))
			strv_add(&files, str_dup(p->files[i].name));
	if (!files.count)
		return set_refusal(E_ABI,
				   str_fmt("made for %s, and none of its modules would be loaded", p->key.release),
				   ret_text, ret_code);
	if (module_set_read(&p->dir, &files, &set, err) < 0)
		return -1;
	char *lie = reuse_lie(&p->key, &set);
	if (lie)
		return set_refusal(E_ABI, lie, ret_text, ret_code);
	proof_make(set.pointers, set.count, abi, NULL, &proof);
	if (proof.code)
		return set_refusal(proof.code, crc_mismatch_text(p, &set, &proof), ret_text, ret_code);
	*ret_text = str_dup(proof.text);
	return 1;
}
