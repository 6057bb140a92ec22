// SPDX-License-Identifier: Apache-2.0
// Entries of the Boot Loader Specification (uapi-group.org/specifications/specs/boot_loader_specification), and the
// boot loader that is made for them.
#include "next_kernel/boot_internal.h"

#include <ctype.h>
#include <fnmatch.h>

enum { ENTRIES_MAX = 256 };

static void boot_entry_done(struct boot_entry *e)
{
	free(e->id);
	free(e->title);
	free(e->version);
	free(e->sort_key);
	free(e->image);
	free(e->options);
}

void boot_entries_done(struct boot_entries *e)
{
	for (size_t i = 0; i < e->count; i++)
		boot_entry_done(&e->items[i]);
	free(e->items);
	*e = (struct boot_entries){ 0 };
}

// "arch+3-0.conf": three tries left. A '+' without a number behind it is part of the name.
static void split_tries(struct boot_entry *e)
{
	char *plus = strrchr(e->id, '+');
	if (!plus)
		return;
	size_t digits = strspn(plus + 1, "0123456789");
	const char *after = plus + 1 + digits;
	if (!digits || (*after && (*after != '-' || !after[1] || after[1 + strspn(after + 1, "0123456789")])))
		return;
	e->is_bad = strspn(plus + 1, "0") == digits;
	*plus = '\0';
}

static bool read_bls_entry(const struct root *host, const char *dir, const char *name, struct boot_entry *ret)
{
	static const char SUFFIX[] = ".conf";
	auto_str char *path = str_fmt("%s/%s", dir, name), *text = NULL;
	if (*name == '.' || !str_ends(name, SUFFIX) || !(text = boot_file_text(host, path)))
		return false;
	*ret = (struct boot_entry){ .id = str_ndup(name, strlen(name) - strlen(SUFFIX)),
				    .title = boot_file_value(text, "title", ' '),
				    .version = boot_file_value(text, "version", ' '),
				    .sort_key = boot_file_value(text, "sort-key", ' '),
				    .image = boot_file_value(text, "linux", ' '),
				    .options = boot_file_value(text, "options", ' ') };
	split_tries(ret);
	return true;
}

// Unified kernel images are entries, too, and say who they are by their names.
static bool read_unified_image(const char *name, struct boot_entry *ret)
{
	static const char SUFFIX[] = ".efi";
	if (!str_ends(name, SUFFIX))
		return false;
	*ret = (struct boot_entry){ .id = str_ndup(name, strlen(name) - strlen(SUFFIX)) };
	split_tries(ret);
	ret->image = str_dup(ret->id);
	ret->version = str_dup(ret->id);
	return true;
}

static int compare_bls_entries(const struct boot_entry *a, const struct boot_entry *b, enum boot_entry_order order)
{
	if (order == BOOT_ENTRIES_BY_NAME)
		return str_version_cmp(b->id, a->id);
	if (a->is_bad != b->is_bad)
		return a->is_bad ? 1 : -1;
	if (!a->sort_key != !b->sort_key)
		return a->sort_key ? -1 : 1;
	int r = a->sort_key ? strcmp(a->sort_key, b->sort_key) : 0;
	if (r == 0 && a->sort_key)
		r = str_version_cmp(b->version ? b->version : "", a->version ? a->version : "");
	return r ? r : str_version_cmp(b->id, a->id);
}

static void insert_entry(struct boot_entries *all, struct boot_entry e, enum boot_entry_order order)
{
	all->items = mem_grow(all->items, all->count + 1, sizeof(e));
	size_t at = all->count++;
	for (; at > 0 && compare_bls_entries(&e, &all->items[at - 1], order) < 0; at--)
		all->items[at] = all->items[at - 1];
	all->items[at] = e;
}

void boot_entries_read(const struct root *host, const char *dir, enum boot_entry_order order, struct boot_entries *ret)
{
	auto_strv struct strv names = { 0 };
	struct boot_entry e;
	struct err ignored;
	root_list(host, dir, &names, &ignored);
	for (size_t i = 0; i < names.count && ret->count < ENTRIES_MAX; i++)
		if (read_bls_entry(host, dir, names.items[i], &e) || read_unified_image(names.items[i], &e))
			insert_entry(ret, e, order);
}

char *boot_entry_release(const struct boot_query *ask, const struct boot_entry *e)
{
	if (e->version && strv_has(ask->releases, e->version))
		return str_dup(e->version);
	char *release = boot_release_in(ask, e->image);
	return release ? release : boot_release_in(ask, e->id);
}

static const struct boot_entry *find_bls_entry(const struct boot_entries *all, const char *pattern)
{
	for (size_t i = 0; pattern && i < all->count; i++) {
		auto_str char *file = str_fmt("%s.conf", all->items[i].id),
			      *image = str_fmt("%s.efi", all->items[i].id);
		if (fnmatch(pattern, file, 0) == 0 || fnmatch(pattern, image, 0) == 0 ||
		    fnmatch(pattern, all->items[i].id, 0) == 0)
			return &all->items[i];
	}
	return NULL;
}

// What the last start was, where the default says to take that again.
static char *resolve_saved_default(const struct boot_query *ask, char *take)
{
	auto_str char *choice = take;
	return str_eq(choice, "@saved") ? boot_efi_variable(ask, "LoaderEntryLastBooted") : TAKE(choice);
}

static const struct boot_entry *choose_default_entry(const struct boot_query *ask, const struct boot_entries *all,
						     const char *config, char **ret_by)
{
	static const char *const variables[] = { "LoaderEntryOneShot", "LoaderEntryDefault" };
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		auto_str char *value = resolve_saved_default(ask, boot_efi_variable(ask, variables[i]));
		const struct boot_entry *e = find_bls_entry(all, value);
		if (e) {
			*ret_by = str_dup(variables[i]);
			return e;
		}
	}
	auto_str char *value = resolve_saved_default(ask, boot_file_value(config, "default", ' '));
	const struct boot_entry *e = find_bls_entry(all, value);
	*ret_by = str_dup(e ? "loader.conf" : "the order of the entries");
	return e ? e : all->count ? &all->items[0] : NULL;
}

// Where the entries are GRUB's, there is no loader.conf; and where systemd-boot runs, it says so in a variable.
bool boot_choice_systemd(const struct boot_query *ask, struct boot_choice *ret)
{
	static const char *const places[] = { "boot", "efi", "boot/efi" };
	auto_str char *info = boot_efi_variable(ask, "LoaderInfo");
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		auto_boot_entries struct boot_entries all = { 0 };
		auto_str char *config_path = str_fmt("%s/loader/loader.conf", places[i]),
			      *config = boot_file_text(ask->host, config_path),
			      *dir = str_fmt("%s/loader/entries", places[i]),
			      *images = str_fmt("%s/EFI/Linux", places[i]), *by = NULL;
		if (!config && !(info && str_starts(info, "systemd-boot")))
			continue;
		boot_entries_read(ask->host, dir, BOOT_ENTRIES_BY_SPECIFICATION, &all);
		boot_entries_read(ask->host, images, BOOT_ENTRIES_BY_SPECIFICATION, &all);
		const struct boot_entry *e = choose_default_entry(ask, &all, config, &by);
		char *release = e ? boot_entry_release(ask, e) : NULL;
		if (release) {
			boot_choice_set(ret, release, "systemd-boot by %s, entry %s", by, e->id);
			return true;
		}
	}
	return false;
}
