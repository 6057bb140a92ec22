// SPDX-License-Identifier: Apache-2.0
// Each check runs only when none before it decided, so that the cheapest reason is reported. The
// rules and their sources are in the kernel's kernel/module/main.c and version.c.
#include "kmod/module/proof.h"

#include <elf.h>
#include <stdarg.h>
#include <stdio.h>

enum { LISTED = 10 };

struct check {
	const struct module *module;
	const struct kernel_abi *abi;
	const struct symvers *set, *loaded; // exports of the modules proven together, and of modules that are loaded
	struct proof *proof;
	struct proof_module *ret;
	bool is_same_release;
	size_t compared; // CRCs that could be compared
	char *forbidden; // the first import that the module may not use, and why
	char *unknown;   // what of a kernel that it was not made for could not be compared
};

static void set_verdict(struct check *c, enum proof_verdict verdict, int code, const char *fmt, ...) PRINTF(4, 5);
static void set_verdict(struct check *c, enum proof_verdict verdict, int code, const char *fmt, ...)
{
	va_list args;
	if (c->ret->text)
		return;
	va_start(args, fmt);
	if (vasprintf(&c->ret->text, fmt, args) < 0)
		abort();
	va_end(args);
	c->ret->verdict = verdict;
	c->ret->code = code;
}

static const char *machine_name(int machine)
{
	switch (machine) {
	case EM_X86_64:
		return "x86_64";
	case EM_AARCH64:
		return "aarch64";
	case EM_PPC64:
		return "ppc64";
	case EM_RISCV:
		return "riscv";
	default:
		return "unknown";
	}
}

static void check_machine(struct check *c)
{
	if (c->abi->machine && c->module->machine != c->abi->machine)
		set_verdict(c, PROOF_REFUSED, E_ARCH, "built for %s, the kernel is %s",
			    machine_name(c->module->machine), machine_name(c->abi->machine));
}

// A module is trusted to fit its own kernel where nothing is known, but never another kernel.
static void not_compared(struct check *c, const char *fmt, ...) PRINTF(2, 3);
static void not_compared(struct check *c, const char *fmt, ...)
{
	va_list args;
	if (c->is_same_release || c->unknown)
		return;
	va_start(args, fmt);
	if (vasprintf(&c->unknown, fmt, args) < 0)
		abort();
	va_end(args);
}

// With CRCs on both sides the release in front does not count.
static void check_vermagic(struct check *c)
{
	const char *have = c->module->vermagic, *want = c->abi->vermagic;
	bool has_crcs = c->module->has_versions && c->abi->has_modversions;
	size_t have_skip = have && has_crcs ? strcspn(have, " ") : 0,
	       want_skip = want && has_crcs ? strcspn(want, " ") : 0;
	if (!have)
		set_verdict(c, PROOF_REBUILD, E_ELF, "no version magic in .modinfo");
	else if (want && !str_eq(have + have_skip, want + want_skip))
		set_verdict(c, PROOF_REBUILD, E_ABI, "version magic '%s' should be '%s'", have, want);
	else if (!c->is_same_release && !has_crcs)
		set_verdict(c, PROOF_REBUILD, E_ABI, "built for '%s' without symbol versions, the kernel is %s", have,
			    c->abi->release);
	else if (c->is_same_release && c->abi->has_modversions && !c->module->has_versions)
		set_verdict(c, PROOF_REBUILD, E_ABI, "no symbol versions, which %s requires", c->abi->release);
}

static void add_mismatch(struct check *c, const char *symbol, uint32_t module_crc, uint32_t kernel_crc)
{
	struct proof_module *r = c->ret;
	r->mismatches = mem_grow(r->mismatches, r->mismatch_count + 1, sizeof(*r->mismatches));
	r->mismatches[r->mismatch_count++] = (struct proof_mismatch){ symbol, module_crc, kernel_crc };
}

// Who provides a symbol: the set as it will be loaded, what is loaded already, then the kernel's own table.
static const struct symver *provider(struct check *c, const char *name)
{
	const struct symver *found = symvers_find(c->set, name);
	if (!found)
		found = symvers_find(c->loaded, name);
	if (found)
		return found;
	found = symvers_find(c->abi->symvers, name);
	struct strv *const needs[] = { &c->proof->needs, &c->ret->needs };
	for (size_t i = 0; i < ARRAY_SIZE(needs) && found && !str_eq(found->owner, "vmlinux"); i++)
		if (!strv_has(needs[i], found->owner))
			strv_add(needs[i], str_dup(found->owner));
	return found;
}

static void check_permission(struct check *c, const struct symver *symbol)
{
	if (c->forbidden)
		return;
	if (symbol->is_gpl && !module_is_gpl(c->module))
		c->forbidden = str_fmt("'%s' is for GPL modules only, the licence is '%s'", symbol->name,
				       c->module->license ? c->module->license : "none");
	else if (c->abi->is_ns_required && *symbol->namespace && !strv_has(&c->module->import_ns, symbol->namespace))
		c->forbidden = str_fmt("'%s' is in the namespace %s, which the module does not import", symbol->name,
				       symbol->namespace);
}

static void check_import(struct check *c, const struct module_import *import, struct strv *missing)
{
	const struct symver *symbol = provider(c, import->name);
	if (!symbol) {
		if (!import->is_weak)
			strv_add(missing, str_dup(import->name));
		return;
	}
	check_permission(c, symbol);
	if (!symbol->has_crc && import->has_crc && import->crc) // zero: a symbol of assembler code, on both sides
		not_compared(c, "the CRC of %s (%s)", import->name, symbol->owner);
	if (!symbol->has_crc || !c->abi->has_modversions)
		return;
	c->compared++;
	// Newer kernels refuse an import without a CRC ("no symbol version for"): it differs from whatever is wanted.
	if (!import->has_crc || import->crc != symbol->crc)
		add_mismatch(c, import->name, import->crc, symbol->crc);
}

static char *mismatch_text(const struct check *c)
{
	const struct proof_module *r = c->ret;
	char *s = str_fmt("built for %.*s: %zu of %zu CRCs differ (module/kernel):",
			  (int)strcspn(c->module->vermagic, " "), c->module->vermagic, r->mismatch_count, c->compared);
	for (size_t i = 0; i < r->mismatch_count && i < LISTED; i++)
		str_add(&s, "%s %s %08x/%08x", i ? "," : "", r->mismatches[i].symbol, r->mismatches[i].module_crc,
			r->mismatches[i].kernel_crc);
	if (r->mismatch_count > LISTED)
		str_add(&s, " and %zu more", r->mismatch_count - LISTED);
	return s;
}

static void check_symbols(struct check *c)
{
	auto_strv struct strv missing = { 0 };
	if (!c->abi->symvers) {
		if (!c->is_same_release)
			set_verdict(c, PROOF_REBUILD, E_ABI,
				    "built for '%s', and no CRCs of %s are known to compare with", c->module->vermagic,
				    c->abi->release);
		return;
	}
	const struct symver *layout = symvers_find(c->abi->symvers, "module_layout");
	if (!c->module->has_layout || !layout || !layout->has_crc) {
		not_compared(c, "the CRC of module_layout");
	} else {
		c->compared++;
		if (layout->crc != c->module->layout_crc)
			add_mismatch(c, "module_layout", c->module->layout_crc, layout->crc);
	}
	for (size_t i = 0; i < c->module->import_count; i++)
		check_import(c, &c->module->imports[i], &missing);
	// A module of another kernel may well do without a symbol once it is compiled for this one.
	enum proof_verdict worse = c->is_same_release ? PROOF_REFUSED : PROOF_REBUILD;
	if (c->ret->mismatch_count) {
		auto_str char *text = mismatch_text(c);
		set_verdict(c, PROOF_REBUILD, E_ABI, "%s", text);
	}
	if (missing.count) {
		auto_str char *text = NULL;
		for (size_t i = 0; i < missing.count && i < LISTED; i++)
			str_add(&text, "%s%s", i ? ", " : "", missing.items[i]);
		if (missing.count > LISTED)
			str_add(&text, " and %zu more", missing.count - LISTED);
		set_verdict(c, worse, E_SYMBOL, "nothing exports %s", text);
	}
	if (c->forbidden)
		set_verdict(c, worse, E_SYMBOL, "%s", c->forbidden);
	if (!c->abi->vermagic)
		not_compared(c, "the version magic");
	if (c->unknown)
		set_verdict(c, PROOF_REBUILD, E_ABI, "built for %.*s, and %s of %s is not known to compare with",
			    (int)strcspn(c->module->vermagic, " "), c->module->vermagic, c->unknown, c->abi->release);
}

static void check_layout_size(struct check *c)
{
	if (c->abi->struct_size && c->module->struct_size != c->abi->struct_size)
		set_verdict(c, PROOF_REBUILD, E_ABI, "struct module has %zu bytes, the kernel's has %zu",
			    c->module->struct_size, c->abi->struct_size);
	if (c->module->has_btf && c->abi->is_btf_mismatch_fatal && !c->is_same_release)
		set_verdict(c, PROOF_REBUILD, E_ABI, "its BTF is for another kernel, which %s does not allow",
			    c->abi->release);
}

static const char *signer_name(const struct modsig *sig)
{
	return sig->issuer ? sig->issuer : sig->key_id ? sig->key_id : "an unnamed key";
}

static bool is_any(const struct kernel_answers *kernel, int (*ask)(const void *, const char *), const struct strv *ids)
{
	bool is = false;
	for (size_t i = 0; i < ids->count && !is; i++)
		is = ask(kernel->kernel, ids->items[i]) != 0;
	return is;
}

// In the order of the kernel's pkcs7_verify: the hash, the content, what is revoked, who is trusted.
static void check_answers(struct check *c, const struct kernel_answers *kernel, bool must)
{
	const struct modsig *sig = &c->module->sig;
	const char *serial = sig->serial ? sig->serial : "unknown";
	struct err err;
	auto_str char *lacks = must ? kernel->lacks_hash(kernel->kernel, sig->hash) : NULL;
	if (lacks)
		set_verdict(c, PROOF_REFUSED, E_SIGNATURE_HASH, "signed with %s, which this kernel does not have: %s",
			    sig->hash, lacks);
	if (lacks)
		return;
	if (modsig_verify(sig, c->module->data, kernel->certs(kernel->kernel, &sig->signers), &err) < 0)
		set_verdict(c, PROOF_REFUSED, err.code, "%s", err.text);
	else if (is_any(kernel, kernel->is_revoked, &sig->signers))
		set_verdict(c, PROOF_REFUSED, E_KEY_REVOKED,
			    "signed by a key of %s (serial %s) that is revoked on this machine", signer_name(sig),
			    serial);
	else if (must && sig->signers.count && !is_any(kernel, kernel->has_key, &sig->signers))
		set_verdict(c, PROOF_REFUSED, E_KEY_UNKNOWN,
			    "signed by a key of %s (serial %s) that this kernel does not have", signer_name(sig),
			    serial);
}

static void check_signature(struct check *c)
{
	const struct modsig *sig = &c->module->sig;
	const struct kernel_abi *abi = c->abi;
	bool must = abi->is_sig_enforced || abi->is_locked_down;
	struct err err;
	if (!abi->has_sig)
		return;
	if (sig->state == MODSIG_BAD)
		set_verdict(c, PROOF_REFUSED, E_SIGNATURE_BAD, "%s", sig->why);
	else if (sig->state != MODSIG_SIGNED && must)
		set_verdict(c, PROOF_REFUSED, sig->state == MODSIG_UNSUPPORTED ? E_SIGNATURE_HASH : E_SIGNING_REQUIRED,
			    "%s, and this kernel %s", sig->why ? sig->why : "the module is unsigned",
			    abi->is_sig_enforced ? "enforces module signatures" : "is locked down");
	if (sig->state != MODSIG_SIGNED)
		return;
	if (abi->answers)
		check_answers(c, abi->answers, must);
	int r = abi->trusted && !c->ret->text ? modsig_verify(sig, c->module->data, abi->trusted, &err) : 1;
	if (r < 0)
		set_verdict(c, PROOF_REFUSED, err.code, "%s", err.text);
	else if (r == 0 && must)
		set_verdict(c, PROOF_REFUSED, E_KEY_UNKNOWN,
			    "signed by %s (serial %s), which this kernel does not trust", signer_name(sig),
			    sig->serial ? sig->serial : "unknown");
}

static void accept_module(struct check *c)
{
	const char *from = c->abi->symvers_from ? c->abi->symvers_from : "the kernel's table";
	auto_str char *hash = NULL;
	const struct modsig *sig = &c->module->sig;
	if (sig->state == MODSIG_SIGNED && c->abi->sig_hash && !str_eq(sig->hash, c->abi->sig_hash))
		hash = str_fmt("; signed with %s, only %s is certain to be in this kernel", sig->hash,
			       c->abi->sig_hash);
	const char *note = hash ? hash : "";
	if (!c->compared)
		set_verdict(c, PROOF_EXACT, 0, "proved nothing: built for %s, %s%s", c->abi->release,
			    !c->abi->symvers ?
				    "and neither headers nor symbols of that kernel can be read to compare with" :
			    c->abi->has_modversions ? "and it imports nothing that has a CRC" :
						      "a kernel without symbol versions: only names could be compared",
			    note);
	else if (c->is_same_release)
		set_verdict(c, PROOF_EXACT, 0, "built for %s; all %zu CRCs equal %s%s", c->abi->release, c->compared,
			    from, note);
	else
		set_verdict(c, PROOF_COMPATIBLE, 0, "built for %.*s; all %zu CRCs equal %s of %s%s",
			    (int)strcspn(c->module->vermagic, " "), c->module->vermagic, c->compared, from,
			    c->abi->release, note);
}

// Of two modules with the same verdict the one with more evidence speaks for the set.
static bool is_worse(const struct proof_module *a, const struct module *module_a, const struct proof_module *b,
		     const struct module *module_b)
{
	if (a->verdict != b->verdict)
		return a->verdict > b->verdict;
	if (a->mismatch_count != b->mismatch_count)
		return a->mismatch_count > b->mismatch_count;
	return module_a->import_count > module_b->import_count;
}

void proof_make(const struct module *const *modules, size_t count, const struct kernel_abi *abi,
		const struct symvers *loaded, struct proof *ret)
{
	static void (*const checks[])(struct check *) = { check_machine,     check_vermagic,  check_symbols,
							  check_layout_size, check_signature, accept_module };
	auto_symvers struct symvers *set = symvers_new();
	size_t worst = 0, release_len = strlen(abi->release);
	*ret = (struct proof){ .count = count, .modules = mem_alloc(count * sizeof(*ret->modules)) };
	for (size_t i = 0; i < count; i++)
		symvers_add_all(set, modules[i]->exports);
	for (size_t i = 0; i < count; i++) {
		const char *vermagic = modules[i]->vermagic;
		struct check c = {
			.module = modules[i],
			.abi = abi,
			.set = set,
			.loaded = loaded,
			.proof = ret,
			.ret = &ret->modules[i],
			.is_same_release = vermagic && strncmp(vermagic, abi->release, release_len) == 0 &&
					   (vermagic[release_len] == ' ' || vermagic[release_len] == '\0'),
		};
		for (size_t k = 0; k < ARRAY_SIZE(checks) && !c.ret->text; k++)
			checks[k](&c);
		free(c.forbidden);
		free(c.unknown);
		if (c.compared)
			ret->basis = PROOF_BY_CRCS;
		if (is_worse(&ret->modules[i], modules[i], &ret->modules[worst], modules[worst]))
			worst = i;
	}
	if (!count) {
		ret->text = str_dup("no module");
		return;
	}
	ret->verdict = ret->modules[worst].verdict;
	ret->code = ret->modules[worst].code;
	ret->text = str_fmt("%s: %s", modules[worst]->name, ret->modules[worst].text);
}

void proof_add_build(struct proof *proof, const char *release, const char *made_for, const char *build_id)
{
	if (proof->verdict != PROOF_EXACT || proof->basis != PROOF_BY_NOTHING || !str_eq(made_for, build_id))
		return;
	free(proof->text);
	proof->basis = PROOF_BY_BUILD;
	proof->text = str_fmt("built for this very build of %s (build id %.12s); there are no CRCs to compare", release,
			      build_id);
}

const char *proof_basis_name(enum proof_basis basis)
{
	static const char *const names[] = { "nothing", "build", "crcs" };
	return names[basis];
}

void proof_done(struct proof *proof)
{
	for (size_t i = 0; i < proof->count; i++) {
		free(proof->modules[i].text);
		free(proof->modules[i].mismatches);
		strv_done(&proof->modules[i].needs);
	}
	free(proof->modules);
	free(proof->text);
	strv_done(&proof->needs);
	*proof = (struct proof){ 0 };
}

int proof_error(const struct proof *proof, struct err *err)
{
	return proof->code ? err_set(err, proof->code, "%s", proof->text) : 0;
}
