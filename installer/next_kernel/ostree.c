// SPDX-License-Identifier: Apache-2.0
#include "next_kernel/ostree.h"

#include "base/file/digest.h"
#include "next_kernel/boot_internal.h"

static const char DEPLOY[] = "ostree/deploy";
enum { DEPLOYMENTS_MAX = 32, STAGED_MAX = 64 << 10 };

void deployments_done(struct deployments *d)
{
	for (size_t i = 0; i < d->count; i++)
		free(d->items[i].path);
	free(d->items);
	*d = (struct deployments){ 0 };
}

// CHECKSUM.SERIAL; beside each lies CHECKSUM.SERIAL.origin.
static bool is_deployment(const char *name)
{
	uint64_t serial;
	auto_str char *checksum = str_ndup(name, strnlen(name, DIGEST_HEX));
	return digest_is_hex(checksum) && name[DIGEST_HEX] == '.' && str_u64(name + DIGEST_HEX + 1, 10, &serial);
}

static const char *name_of(const struct deployment *d)
{
	return strrchr(d->path, '/') + 1;
}

static void list_system(const struct root *host, const char *system, struct deployments *ret)
{
	struct err ignored;
	auto_strv struct strv names = { 0 };
	auto_str char *dir = str_fmt("%s/%s/deploy", DEPLOY, system);
	root_list(host, dir, &names, &ignored);
	for (size_t i = 0; i < names.count && ret->count < DEPLOYMENTS_MAX; i++) {
		if (!is_deployment(names.items[i]))
			continue;
		ret->items = mem_grow(ret->items, ret->count + 1, sizeof(*ret->items));
		ret->items[ret->count++] = (struct deployment){ .path = str_fmt("%s/%s", dir, names.items[i]) };
	}
}

// The deployment that a kernel command line names; NULL = none of these.
static struct deployment *of_options(const struct root *host, const struct deployments *all, const char *options)
{
	static const char OPTION[] = "ostree=";
	struct err ignored;
	auto_strv struct strv words = { 0 };
	strv_split(&words, options ? options : "", " \t\n");
	for (size_t w = 0; w < words.count; w++) {
		auto_str char *target = NULL;
		if (!str_starts(words.items[w], OPTION) ||
		    root_readlink(host, words.items[w] + strlen(OPTION), &target, &ignored) <= 0)
			continue;
		for (size_t i = 0; i < all->count; i++)
			if (str_ends(target, name_of(&all->items[i])))
				return &all->items[i];
	}
	return NULL;
}

// The name that comes first is the staged one's; that of the deployment which it was merged with comes later, and is
// most often the running one's.
static struct deployment *of_staged(const struct root *host, const struct deployments *all)
{
	size_t len = 0;
	struct err ignored;
	struct stat st;
	auto_str char *data = NULL;
	static const char FILE_NAME[] = "run/ostree/staged-deployment";
	struct deployment *best = NULL;
	const char *first = NULL;
	if (root_stat(host, FILE_NAME, &st, &ignored) <= 0 || !S_ISREG(st.st_mode) || st.st_size > STAGED_MAX ||
	    root_read(host, FILE_NAME, &data, &len, &ignored) <= 0)
		return NULL;
	for (size_t i = 0; i < all->count; i++) {
		const char *name = name_of(&all->items[i]), *at = memmem(data, len, name, strlen(name));
		if (!at || all->items[i].is_booted || (first && at > first))
			continue;
		first = at;
		best = &all->items[i];
	}
	return best;
}

static struct deployment *of_entries(const struct root *host, const struct deployments *all)
{
	auto_loader_entries struct loader_entries entries = { 0 };
	loader_entries_read(host, "boot/loader/entries", LOADER_BY_SPECIFICATION, &entries);
	return entries.count ? of_options(host, all, entries.items[0].options) : NULL;
}

void ostree_read(const struct root *host, const struct root *kern, struct deployments *ret)
{
	struct err ignored;
	auto_strv struct strv systems = { 0 };
	auto_str char *cmdline = NULL;
	if (root_list(host, DEPLOY, &systems, &ignored) <= 0)
		return;
	for (size_t i = 0; i < systems.count; i++)
		list_system(host, systems.items[i], ret);
	root_read(kern, "proc/cmdline", &cmdline, NULL, &ignored);
	struct deployment *booted = of_options(host, ret, cmdline), *next = NULL;
	if (booted)
		booted->is_booted = true;
	next = of_staged(host, ret);
	next = next ? next : of_entries(host, ret);
	if (next)
		next->is_next = true;
}

bool bootnext_ostree(const struct bootnext_ask *ask, struct bootnext *ret)
{
	struct err ignored;
	auto_deployments struct deployments all = { 0 };
	ostree_read(ask->host, ask->kern, &all);
	for (size_t i = 0; i < all.count; i++) {
		auto_strv struct strv kernels = { 0 };
		auto_str char *dir = str_fmt("%s/usr/lib/modules", all.items[i].path);
		if (!all.items[i].is_next || root_list(ask->host, dir, &kernels, &ignored) <= 0)
			continue;
		for (size_t k = kernels.count; k-- > 0;) {
			if (!strv_has(ask->releases, kernels.items[k]))
				continue;
			bootnext_say(ret, str_dup(kernels.items[k]), "the ostree deployment %s",
				     name_of(&all.items[i]));
			return true;
		}
	}
	return false;
}
