// SPDX-License-Identifier: Apache-2.0
#include "next_kernel/ostree.h"

#include "base/file/digest.h"
#include "next_kernel/boot_internal.h"

static const char DEPLOY[] = "ostree/deploy";
enum { DEPLOYMENTS_MAX = 32, STAGED_MAX = 64 << 10 };

void ostree_deployments_done(struct ostree_deployments *d)
{
	for (size_t i = 0; i < d->count; i++)
		free(d->items[i].path);
	free(d->items);
	*d = (struct ostree_deployments){ 0 };
}

// CHECKSUM.SERIAL; beside each lies CHECKSUM.SERIAL.origin.
static bool is_deployment(const char *name)
{
	uint64_t serial;
	auto_str char *checksum = str_ndup(name, strnlen(name, DIGEST_HEX));
	return digest_is_hex(checksum) && name[DIGEST_HEX] == '.' && str_u64(name + DIGEST_HEX + 1, 10, &serial);
}

static const char *deployment_name(const struct ostree_deployment *d)
{
	return strrchr(d->path, '/') + 1;
}

static void list_os_deployments(const struct root *host, const char *system, struct ostree_deployments *ret)
{
	struct err ignored;
	auto_strv struct strv names = { 0 };
	auto_str char *dir = str_fmt("%s/%s/deploy", DEPLOY, system);
	root_list(host, dir, &names, &ignored);
	for (size_t i = 0; i < names.count && ret->count < DEPLOYMENTS_MAX; i++) {
		if (!is_deployment(names.items[i]))
			continue;
		ret->items = mem_grow(ret->items, ret->count + 1, sizeof(*ret->items));
		ret->items[ret->count++] = (struct ostree_deployment){ .path = str_fmt("%s/%s", dir, names.items[i]) };
	}
}

// The deployment that a kernel command line names; NULL = none of these.
static struct ostree_deployment *deployment_of_options(const struct root *host, const struct ostree_deployments *all,
						       const char *options)
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
			if (str_ends(target, deployment_name(&all->items[i])))
				return &all->items[i];
	}
	return NULL;
}

// The name that comes first is the staged one's; that of the deployment which it was merged with comes later, and is
// most often the running one's.
static struct ostree_deployment *staged_deployment(const struct root *host, const struct ostree_deployments *all)
{
	size_t len = 0;
	struct err ignored;
	struct stat st;
	auto_str char *data = NULL;
	static const char FILE_NAME[] = "run/ostree/staged-deployment";
	struct ostree_deployment *best = NULL;
	const char *first = NULL;
	if (root_stat(host, FILE_NAME, &st, &ignored) <= 0 || !S_ISREG(st.st_mode) || st.st_size > STAGED_MAX ||
	    root_read(host, FILE_NAME, &data, &len, &ignored) <= 0)
		return NULL;
	for (size_t i = 0; i < all->count; i++) {
		const char *name = deployment_name(&all->items[i]), *at = memmem(data, len, name, strlen(name));
		if (!at || all->items[i].is_booted || (first && at > first))
			continue;
		first = at;
		best = &all->items[i];
	}
	return best;
}

static struct ostree_deployment *deployment_of_entries(const struct root *host, const struct ostree_deployments *all)
{
	auto_boot_entries struct boot_entries entries = { 0 };
	boot_entries_read(host, "boot/loader/entries", BOOT_ENTRIES_BY_SPECIFICATION, &entries);
	return entries.count ? deployment_of_options(host, all, entries.items[0].options) : NULL;
}

void ostree_read(const struct root *host, const struct root *kern, struct ostree_deployments *ret)
{
	struct err ignored;
	auto_strv struct strv systems = { 0 };
	auto_str char *cmdline = NULL;
	if (root_list(host, DEPLOY, &systems, &ignored) <= 0)
		return;
	for (size_t i = 0; i < systems.count; i++)
		list_os_deployments(host, systems.items[i], ret);
	root_read(kern, "proc/cmdline", &cmdline, NULL, &ignored);
	struct ostree_deployment *booted = deployment_of_options(host, ret, cmdline), *next = NULL;
	if (booted)
		booted->is_booted = true;
	next = staged_deployment(host, ret);
	next = next ? next : deployment_of_entries(host, ret);
	if (next)
		next->is_next = true;
}

bool boot_choice_ostree(const struct boot_query *ask, struct boot_choice *ret)
{
	struct err ignored;
	auto_ostree_deployments struct ostree_deployments all = { 0 };
	ostree_read(ask->host, ask->kern, &all);
	for (size_t i = 0; i < all.count; i++) {
		auto_strv struct strv kernels = { 0 };
		auto_str char *dir = str_fmt("%s/usr/lib/modules", all.items[i].path);
		if (!all.items[i].is_next || root_list(ask->host, dir, &kernels, &ignored) <= 0)
			continue;
		for (size_t k = kernels.count; k-- > 0;) {
			if (!strv_has(ask->releases, kernels.items[k]))
				continue;
			boot_choice_set(ret, str_dup(kernels.items[k]), "the ostree deployment %s",
					deployment_name(&all.items[i]));
			return true;
		}
	}
	return false;
}
