// SPDX-License-Identifier: Apache-2.0
// Entries of the Boot Loader Specification (uapi-group.org/specifications/specs/boot_loader_specification), and the
// boot loader that is made for them.
#include "next_kernel/boot_internal.h"

#include <ctype.h>
#include <fnmatch.h>

enum { ENTRIES_MAX = 256 };

static void entry_done(struct loader_entry *e)
{
	free(e->id);
	free(e->title);
	free(e->version);
	free(e->sort_key);
	free(e->image);
	free(e->options);
}

void loader_entries_done(struct loader_entries *e)
{
	for (size_t i = 0; i < e->count; i++)
		entry_done(&e->items[i]);
	free(e->items);
	*e = (struct loader_entries){ 0 };
}

// "arch+3-0.conf": three tries left. A '+' without a number behind it is part of the name.
static void split_tries(struct loader_entry *e)
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

static bool read_entry(const struct root *host, const char *dir, const char *name, struct loader_entry *ret)
{
	static const char SUFFIX[] = ".conf";
	auto_str char *path = str_fmt("%s/%s", dir, name), *text = NULL;
	if (*name == '.' || !str_ends(name, SUFFIX) || !(text = bootnext_text(host, path)))
		return false;
	*ret = (struct loader_entry){ .id = str_ndup(name, strlen(name) - strlen(SUFFIX)),
				      .title = bootnext_value(text, "title", ' '),
				      .version = bootnext_value(text, "version", ' '),
				      .sort_key = bootnext_value(text, "sort-key", ' '),
				      .image = bootnext_value(text, "linux", ' '),
				      .options = bootnext_value(text, "options", ' ') };
	split_tries(ret);
	return true;
}

// Unified kernel images are entries, too, and say who they are by their names.
static bool read_image(const char *name, struct loader_entry *ret)
{
	static const char SUFFIX[] = ".efi";
	if (!str_ends(name, SUFFIX))
		return false;
	*ret = (struct loader_entry){ .id = str_ndup(name, strlen(name) - strlen(SUFFIX)) };
	split_tries(ret);
	ret->image = str_dup(ret->id);
	ret->version = str_dup(ret->id);
	return true;
}

static int compare(const struct loader_entry *a, const struct loader_entry *b, enum loader_order order)
{
	if (order == LOADER_BY_NAME)
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

static void insert(struct loader_entries *all, struct loader_entry e, enum loader_order order)
{
	all->items = mem_grow(all->items, all->count + 1, sizeof(e));
	size_t at = all->count++;
	for (; at > 0 && compare(&e, &all->items[at - 1], order) < 0; at--)
		all->items[at] = all->items[at - 1];
	all->items[at] = e;
}

void loader_entries_read(const struct root *host, const char *dir, enum loader_order order, struct loader_entries *ret)
{
	auto_strv struct strv names = { 0 };
	struct loader_entry e;
	struct err ignored;
	root_list(host, dir, &names, &ignored);
	for (size_t i = 0; i < names.count && ret->count < ENTRIES_MAX; i++)
		if (read_entry(host, dir, names.items[i], &e) || read_image(names.items[i], &e))
			insert(ret, e, order);
}

char *loader_entry_release(const struct bootnext_ask *ask, const struct loader_entry *e)
{
	if (e->version && strv_has(ask->releases, e->version))
		return str_dup(e->version);
	char *release = bootnext_release(ask, e->image);
	return release ? release : bootnext_release(ask, e->id);
}

static const struct loader_entry *find_entry(const struct loader_entries *all, const char *pattern)
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
static char *resolve(const struct bootnext_ask *ask, char *take)
{
	auto_str char *choice = take;
	return str_eq(choice, "@saved") ? bootnext_variable(ask, "LoaderEntryLastBooted") : TAKE(choice);
}

static const struct loader_entry *choose(const struct bootnext_ask *ask, const struct loader_entries *all,
					 const char *config, char **ret_by)
{
	static const char *const variables[] = { "LoaderEntryOneShot", "LoaderEntryDefault" };
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		auto_str char *value = resolve(ask, bootnext_variable(ask, variables[i]));
		const struct loader_entry *e = find_entry(all, value);
		if (e) {
			*ret_by = str_dup(variables[i]);
			return e;
		}
	}
	auto_str char *value = resolve(ask, bootnext_value(config, "default", ' '));
	const struct loader_entry *e = find_entry(all, value);
	*ret_by = str_dup(e ? "loader.conf" : "the order of the entries");
	return e ? e : all->count ? &all->items[0] : NULL;
}

// Where the entries are GRUB's, there is no loader.conf; and where systemd-boot runs, it says so in a variable.
bool bootnext_systemd(const struct bootnext_ask *ask, struct bootnext *ret)
{
	static const char *const places[] = { "boot", "efi", "boot/efi" };
	auto_str char *info = bootnext_variable(ask, "LoaderInfo");
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		auto_loader_entries struct loader_entries all = { 0 };
		auto_str char *config_path = str_fmt("%s/loader/loader.conf", places[i]),
			      *config = bootnext_text(ask->host, config_path),
			      *dir = str_fmt("%s/loader/entries", places[i]),
			      *images = str_fmt("%s/EFI/Linux", places[i]), *by = NULL;
		if (!config && !(info && str_starts(info, "systemd-boot")))
			continue;
		loader_entries_read(ask->host, dir, LOADER_BY_SPECIFICATION, &all);
		loader_entries_read(ask->host, images, LOADER_BY_SPECIFICATION, &all);
		const struct loader_entry *e = choose(ask, &all, config, &by);
		char *release = e ? loader_entry_release(ask, e) : NULL;
		if (release) {
			bootnext_say(ret, release, "systemd-boot by %s, entry %s", by, e->id);
			return true;
		}
	}
	return false;
}
