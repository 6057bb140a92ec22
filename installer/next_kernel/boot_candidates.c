// SPDX-License-Identifier: Apache-2.0
#include "next_kernel/boot_candidates.h"

#include <ctype.h>
#include <errno.h>

enum { KERNELS_MAX = 64, DEPLOYMENTS_MAX = 32 };
static const char MODULES_DIR[] = "lib/modules", DEPLOY_DIR[] = "ostree/deploy";

void boot_candidates_done(struct boot_candidates *c)
{
	for (size_t i = 0; i < c->count; i++) {
		free(c->items[i].release);
		free(c->items[i].where);
		free(c->items[i].lacks);
		root_done(&c->items[i].root);
	}
	free(c->items);
	*c = (struct boot_candidates){ 0 };
}

// As uname(2) has them.
static bool is_valid_release(const char *release)
{
	enum { NAME_MAX_ = 64 }; // __NEW_UTS_LEN of the kernel's linux/utsname.h
	size_t len = strlen(release);
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)release[i]) && !strchr("._+~-", release[i]))
			return false;
	return len > 0 && len <= NAME_MAX_ && isalnum((unsigned char)release[0]);
}

static char *expand_release(const char *form, const char *release)
{
	const char *at = strstr(form, "%s");
	return str_fmt("%.*s%s%s", (int)(at - form), form, release, at + 2);
}

static bool has_any(const struct root *root, const char *const *forms, size_t most, const char *release)
{
	for (size_t i = 0; i < most && forms[i]; i++) {
		auto_str char *path = expand_release(forms[i], release);
		if (root_exists(root, path))
			return true;
	}
	return false;
}

// A package manager writes the files first, under temporary names for a while, and depmod's index last.
static char *lacks(const struct root *root, const char *release)
{
	static const struct {
		const char *forms[5]; // any of them
		const char *what;     // when none is there
	} marks[] = {
		{ { "boot/vmlinuz-%s", "lib/modules/%s/vmlinuz", "boot/vmlinux-%s", "boot/Image-%s",
		    "lib/modules/%s/vmlinux" },
		  "no image" },
		{ { "lib/modules/%s/modules.builtin" }, "no modules.builtin" },
		{ { "lib/modules/%s/modules.dep", "lib/modules/%s/modules.dep.bin" }, "no modules.dep" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if (!has_any(root, marks[i].forms, ARRAY_SIZE(marks[i].forms), release))
			return str_dup(marks[i].what);
	return NULL;
}

// A removed kernel leaves at most third-party modules behind.
static bool has_kernel_files(const struct root *root, const char *release)
{
	static const char *const marks[] = { "lib/modules/%s/kernel", "lib/modules/%s/modules.builtin",
					     "lib/modules/%s/modules.order", "lib/modules/%s/vmlinuz",
					     "boot/vmlinuz-%s" };
	return is_valid_release(release) && has_any(root, marks, ARRAY_SIZE(marks), release);
}

static void make_candidate_stamp(struct boot_candidate *k)
{
	static const char *const forms[] = {
		"boot/vmlinuz-%s",
		"lib/modules/%s/vmlinuz",
		"lib/modules/%s/modules.dep",
		"lib/modules/%s/build/.config",
		"lib/modules/%s/build/Makefile",
		"lib/modules/%s/build/Module.symvers",
		"lib/modules/%s/build/include/generated/utsrelease.h",
		"usr/src/linux-headers-%s/Module.symvers",
		"usr/src/kernels/%s/Module.symvers",
	};
	auto_str char *text = str_fmt("%s %s\n", k->where, k->release);
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		struct err ignored;
		struct stat st;
		auto_str char *path = expand_release(forms[i], k->release);
		if (root_stat(&k->root, path, &st, &ignored) > 0)
			str_add(&text, "%zu %ju %ju.%09ld\n", i, (uintmax_t)st.st_size, (uintmax_t)st.st_mtim.tv_sec,
				st.st_mtim.tv_nsec);
	}
	digest_data(text, strlen(text), k->stamp);
}

static bool has_candidate(const struct boot_candidates *c, const char *release)
{
	for (size_t i = 0; i < c->count; i++)
		if (str_eq(c->items[i].release, release))
			return true;
	return false;
}

static int add_root_candidates(const struct root *host, const char *where, const char *running, bool is_next_root,
			       struct boot_candidates *c, struct err *err)
{
	auto_root struct root root = ROOT_NONE;
	auto_strv struct strv names = { 0 };
	if (root_sub(host, *where ? where : ".", &root, err) < 0)
		return err->code == ENOENT || err->code == ENOTDIR ? 0 : -1;
	if (root_list(&root, MODULES_DIR, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count && c->count < KERNELS_MAX; i++) {
		const char *release = names.items[i];
		struct boot_candidate k = { .root = ROOT_NONE };
		if (str_eq(release, running) || has_candidate(c, release) || !has_kernel_files(&root, release))
			continue;
		if (root_sub(&root, ".", &k.root, err) < 0)
			return -1;
		k.release = str_dup(release);
		k.where = str_dup(where);
		k.is_next = is_next_root || str_version_cmp(release, running) > 0;
		k.lacks = lacks(&root, release);
		make_candidate_stamp(&k);
		c->items = mem_grow(c->items, c->count + 1, sizeof(k));
		c->items[c->count++] = k;
	}
	return 0;
}

static void sort_candidates(struct boot_candidates *c)
{
	for (size_t i = 1; i < c->count; i++) {
		struct boot_candidate k = c->items[i];
		size_t at = i;
		for (; at > 0; at--) {
			const struct boot_candidate *other = &c->items[at - 1];
			bool is_before = k.is_next != other->is_next ? k.is_next :
								       str_version_cmp(k.release, other->release) > 0;
			if (!is_before)
				break;
			c->items[at] = *other;
		}
		c->items[at] = k;
	}
}

// ostree/deploy/OS/deploy/CHECKSUM.SERIAL; beside each lies CHECKSUM.SERIAL.origin.
static bool is_deployment(const char *name)
{
	uint64_t serial;
	auto_str char *checksum = str_ndup(name, strnlen(name, DIGEST_HEX));
	return digest_is_hex(checksum) && name[DIGEST_HEX] == '.' && str_u64(name + DIGEST_HEX + 1, 10, &serial);
}

// Root directories of deployments of ostree, below the host's root. What rpm-ostree and bootc install is one more of
// them, with a kernel of its own, before any reboot.
static void list_deployments(const struct root *host, struct strv *ret)
{
	struct err ignored;
	auto_strv struct strv systems = { 0 };
	root_list(host, DEPLOY_DIR, &systems, &ignored);
	for (size_t i = 0; i < systems.count; i++) {
		auto_strv struct strv names = { 0 };
		auto_str char *dir = str_fmt("%s/%s/deploy", DEPLOY_DIR, systems.items[i]);
		root_list(host, dir, &names, &ignored);
		for (size_t k = 0; k < names.count && ret->count < DEPLOYMENTS_MAX; k++)
			if (is_deployment(names.items[k]))
				strv_add(ret, str_fmt("%s/%s", dir, names.items[k]));
	}
}

int boot_candidates_read(const struct root *host, const char *running, const struct strv *roots,
			 struct boot_candidates *ret, struct err *err)
{
	auto_boot_candidates struct boot_candidates c = { 0 };
	auto_strv struct strv deployments = { 0 };
	for (size_t i = 0; roots && i < roots->count; i++) {
		const char *where = roots->items[i] + strspn(roots->items[i], "/");
		if (add_root_candidates(host, where, running, true, &c, err) < 0)
			return -1;
	}
	if (add_root_candidates(host, "", running, false, &c, err) < 0)
		return -1;
	list_deployments(host, &deployments);
	for (size_t i = 0; i < deployments.count; i++)
		if (add_root_candidates(host, deployments.items[i], running, false, &c, err) < 0)
			return -1;
	sort_candidates(&c);
	*ret = c;
	c = (struct boot_candidates){ 0 };
	return 0;
}

// Leftovers of a removed kernel (built modules, empty directories) do not count.
static bool is_installed_kernel(const struct root *host, const char *release)
{
	static const char *const marks[] = { "vmlinuz", "modules.dep" };
	for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
		auto_str char *path = str_fmt("%s/%s/%s", MODULES_DIR, release, marks[i]);
		if (root_exists(host, path))
			return true;
	}
	auto_str char *image = str_fmt("boot/vmlinuz-%s", release);
	return root_exists(host, image);
}

int boot_installed_kernels(const struct root *host, const char *running, struct strv *ret, struct err *err)
{
	auto_strv struct strv names = { 0 }, deployments = { 0 };
	if (root_list(host, MODULES_DIR, &names, err) < 0)
		return -1;
	if (running && !strv_has(&names, running))
		strv_add(&names, str_dup(running));
	for (size_t i = 0; i < names.count; i++)
		if (str_eq(names.items[i], running) || is_installed_kernel(host, names.items[i]))
			strv_add(ret, str_dup(names.items[i]));
	list_deployments(host, &deployments); // the next one, and those that the machine could go back to
	for (size_t i = 0; i < deployments.count; i++) {
		struct err ignored;
		auto_strv struct strv found = { 0 };
		auto_str char *dir = str_fmt("%s/usr/lib/modules", deployments.items[i]);
		root_list(host, dir, &found, &ignored);
		for (size_t k = 0; k < found.count; k++)
			if (!strv_has(ret, found.items[k]))
				strv_add(ret, str_dup(found.items[k]));
	}
	strv_sort(ret);
	return 0;
}
