// SPDX-License-Identifier: Apache-2.0
#include "next_kernel/boot_loader.h"

#include "base/file/digest.h"
#include "base/file/file.h"

#include <ctype.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

enum {
	TEXT_MAX = 4 << 20,
	VARIABLE_MAX = 4096,
	ENTRIES_MAX = 256, // of the Boot Loader Specification
	ITEMS_MAX = 1024,  // of a GRUB menu
	DEPTH_MAX = 8,
	DEPLOYMENTS_MAX = 32,
	STAGED_MAX = 64 << 10,
};

struct boot_query {
	const struct root *host, *kern;
	const struct strv *releases;
};

// Entries of the Boot Loader Specification.
struct boot_entry {
	char *id; // file name without .conf and without its tries
	char *title, *version, *sort_key, *image, *options;
	bool is_bad; // its tries are used up
};
struct boot_entries {
	struct boot_entry *items;
	size_t count;
};
enum boot_entry_order { BOOT_ENTRIES_BY_SPECIFICATION, BOOT_ENTRIES_BY_NAME /* as GRUB's blscfg */ };

void boot_choice_done(struct boot_choice *b)
{
	free(b->release);
	free(b->by);
	*b = (struct boot_choice){ 0 };
}

static void PRINTF(3, 4) boot_choice_set(struct boot_choice *ret, char *take_release, const char *fmt, ...)
{
	char text[512];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	*ret = (struct boot_choice){ .release = take_release, .by = str_dup(text) };
}

static char *read_bounded(const struct root *root, const char *path, off_t most, size_t *ret_len)
{
	struct err ignored;
	struct stat st;
	char *text = NULL;
	auto_fd int fd = root_open(root, path, O_RDONLY, &ignored);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > most)
		return NULL;
	return file_read(fd, path, &text, ret_len, &ignored) < 0 ? NULL : text;
}

// The text of a regular file of at most a few megabytes; NULL = there is none. The caller frees it.
static char *boot_file_text(const struct root *root, const char *path)
{
	return read_bounded(root, path, TEXT_MAX, NULL);
}

// Of systemd's vendor: four bytes of attributes, then UTF-16. Identifiers are ASCII; anything else counts as not set.
static char *boot_efi_variable(const struct boot_query *ask, const char *name)
{
	enum { ATTRIBUTES = 4 };
	size_t len = 0, used = 0;
	auto_str char *path = str_fmt("sys/firmware/efi/efivars/%s-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f", name),
		      *data = read_bounded(ask->kern, path, VARIABLE_MAX, &len);
	if (!data || len < ATTRIBUTES)
		return NULL;
	auto_str char *text = mem_alloc(len);
	for (size_t i = ATTRIBUTES; i + 1 < len && (data[i] || data[i + 1]); i += 2) {
		if (data[i + 1] || !isprint((unsigned char)data[i]))
			return NULL;
		text[used++] = data[i];
	}
	return used ? TAKE(text) : NULL;
}

// The value of "KEY=VALUE" or "KEY VALUE" at the start of a line; NULL = not set, or empty.
static char *boot_file_value(const char *text, const char *key, char separator)
{
	size_t len = strlen(key);
	for (const char *line = text; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
		const char *at = line + strspn(line, " \t");
		bool is_end =
			separator == '=' ? at[strnlen(at, len)] == '=' : isblank((unsigned char)at[strnlen(at, len)]);
		if (strncmp(at, key, len) != 0 || !is_end)
			continue;
		auto_str char *value = str_ndup(at + len + 1, strcspn(at + len + 1, "\n"));
		char *trimmed = str_trim(value);
		return *trimmed ? str_dup(trimmed) : NULL;
	}
	return NULL;
}

// "6.1.0-5" does not stand in "vmlinuz-6.1.0-56", and does in "vmlinuz-6.1.0-5", "ID-6.1.0-5.efi", "/ID/6.1.0-5/linux".
static bool path_has_release(const char *path, const char *release)
{
	size_t len = strlen(release);
	for (const char *at = path; (at = strstr(at, release)); at++) {
		const char *after = at + len;
		bool is_start = at == path || strchr("-/", at[-1]);
		if (is_start &&
		    (!*after || *after == '/' || str_eq(after, ".efi") || (*after == '+' && isdigit(after[1]))))
			return true;
	}
	return false;
}

// The release that a kernel's path or an entry's name contains as a whole. The longest one wins: a release may be the
// beginning of another.
static char *boot_release_in(const struct boot_query *ask, const char *path)
{
	const char *best = NULL;
	for (size_t i = 0; path && i < ask->releases->count; i++) {
		const char *release = ask->releases->items[i];
		bool is_release = isalnum((unsigned char)*release) || (*release && strchr("._+~", *release));
		if (is_release && path_has_release(path, release) && (!best || strlen(release) > strlen(best)))
			best = release;
	}
	return str_dup(best);
}

// Entries of the Boot Loader Specification (uapi-group.org/specifications/specs/boot_loader_specification), and the
// boot loader that is made for them.

static void boot_entries_done(struct boot_entries *e)
{
	for (size_t i = 0; i < e->count; i++) {
		struct boot_entry *x = &e->items[i];
		free(x->id);
		free(x->title);
		free(x->version);
		free(x->sort_key);
		free(x->image);
		free(x->options);
	}
	free(e->items);
	*e = (struct boot_entries){ 0 };
}
#define auto_boot_entries __attribute__((cleanup(boot_entries_done)))

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

// Appends what dir ("boot/loader/entries") has, the default entry first.
static void boot_entries_read(const struct root *host, const char *dir, enum boot_entry_order order,
			      struct boot_entries *ret)
{
	auto_strv struct strv names = { 0 };
	struct boot_entry e;
	struct err ignored;
	root_list(host, dir, &names, &ignored);
	for (size_t i = 0; i < names.count && ret->count < ENTRIES_MAX; i++) {
		if (!read_bls_entry(host, dir, names.items[i], &e) && !read_unified_image(names.items[i], &e))
			continue;
		ret->items = mem_grow(ret->items, ret->count + 1, sizeof(e));
		size_t at = ret->count++;
		for (; at > 0 && compare_bls_entries(&e, &ret->items[at - 1], order) < 0; at--)
			ret->items[at] = ret->items[at - 1];
		ret->items[at] = e;
	}
}

static char *boot_entry_release(const struct boot_query *ask, const struct boot_entry *e)
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

// The last started entry, if the default says to start it again.
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

// With GRUB's entries there is no loader.conf; where systemd-boot runs, an EFI variable says so.
static bool boot_choice_systemd(const struct boot_query *ask, struct boot_choice *ret)
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

// GRUB: what grub-mkconfig (util/grub-mkconfig.in, grub.d/00_header.in and 10_linux.in) writes, and Red Hat's blscfg.
// The configuration is a program; only the lines that these scripts write are read.

struct item { // an entry or a submenu
	char *title, *id, *image;
	int parent; // -1 = the top
	bool is_menu;
};
struct menu {
	struct item *items; // in the order of the file
	size_t count;
};

static void menu_done(struct menu *m)
{
	for (size_t i = 0; i < m->count; i++) {
		free(m->items[i].title);
		free(m->items[i].id);
		free(m->items[i].image);
	}
	free(m->items);
}
#define auto_menu __attribute__((cleanup(menu_done)))

// The next word, as the script's reader takes it apart; NULL = there is none. A quote inside single quotes is written
// '\'' by grub-mkconfig.
static char *next_script_word(const char **at)
{
	const char *s = *at + strspn(*at, " \t");
	if (!*s)
		return NULL;
	char *word = mem_alloc(strlen(s) + 1);
	size_t used = 0;
	for (char quote = '\0'; *s && (quote || !isblank((unsigned char)*s)); s++) {
		if (!quote && (*s == '\'' || *s == '"'))
			quote = *s;
		else if (quote && *s == quote)
			quote = '\0';
		else if (*s == '\\' && quote != '\'' && s[1])
			word[used++] = *++s;
		else
			word[used++] = *s;
	}
	*at = s;
	return word;
}

static const char *after_word(const char *line, const char *word)
{
	size_t len = strlen(word);
	return strncmp(line, word, len) == 0 && isblank((unsigned char)line[len]) ? line + len + 1 : NULL;
}

struct reading {
	struct menu *menu;
	int open[DEPTH_MAX]; // the items that the line stands in, -1 = some other block
	int depth;
};

static int innermost_item(const struct reading *r)
{
	return r->depth && r->depth <= DEPTH_MAX ? r->open[r->depth - 1] : -1;
}

// A block may be a function's, too.
static void open_block(struct reading *r, const char *line)
{
	const char *entry = after_word(line, "menuentry"), *sub = after_word(line, "submenu");
	bool is_item = (entry || sub) && r->menu->count < ITEMS_MAX && r->depth < DEPTH_MAX;
	if (is_item) {
		const char *rest = entry ? entry : sub;
		struct item item = { .parent = innermost_item(r), .is_menu = sub, .title = next_script_word(&rest) };
		for (char *word; (word = next_script_word(&rest)); free(word))
			if (!item.id && (str_eq(word, "--id") || strstr(word, "menuentry_id_option")))
				item.id = next_script_word(&rest);
		r->menu->items = mem_grow(r->menu->items, r->menu->count + 1, sizeof(item));
		r->menu->items[r->menu->count++] = item;
	}
	if (str_ends(line, "}"))
		return;
	if (r->depth < DEPTH_MAX)
		r->open[r->depth] = is_item ? (int)r->menu->count - 1 : -1;
	r->depth++;
}

static void read_menu_line(struct reading *r, const char *line)
{
	static const char *const commands[] = { "linux", "linuxefi", "linux16" };
	if (*line == '}' && r->depth) {
		r->depth--;
	} else if (after_word(line, "menuentry") || after_word(line, "submenu") || str_ends(line, "{")) {
		open_block(r, line);
	} else if (innermost_item(r) >= 0) {
		struct item *item = &r->menu->items[innermost_item(r)];
		for (size_t i = 0; i < ARRAY_SIZE(commands) && !item->image; i++) {
			const char *rest = after_word(line, commands[i]);
			if (rest)
				item->image = next_script_word(&rest);
		}
	}
}

static void read_menu(const char *config, struct menu *ret)
{
	struct reading r = { .menu = ret };
	for (const char *line = config; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		auto_str char *copy = str_ndup(line, strcspn(line, "\n"));
		const char *text = str_trim(copy);
		if (*text != '#')
			read_menu_line(&r, text);
	}
}

// "1>gnulinux-6.1": '>' goes one menu down, ">>" is the character itself. NULL = that was the last one.
static char *next_choice_part(const char **at)
{
	const char *s = *at;
	if (!*s)
		return NULL;
	char *part = mem_alloc(strlen(s) + 1);
	for (size_t used = 0; *s; s++) {
		if (*s == '>' && s[1] != '>') {
			s++;
			break;
		}
		s += *s == '>';
		part[used++] = *s;
	}
	*at = s;
	return part;
}

// As GRUB does it (normal/menu.c, get_entry_number): a number, an id or a title; an unknown one means the first entry.
static int find_item(const struct menu *m, int parent, const char *part)
{
	uint64_t number = 0, at = 0;
	int first = -1, nth = -1;
	bool is_number = part && str_u64(part, 10, &number);
	for (size_t i = 0; i < m->count; i++) {
		const struct item *item = &m->items[i];
		if (item->parent != parent)
			continue;
		if (part && (str_eq(item->id, part) || str_eq(item->title, part)))
			return (int)i;
		first = first < 0 ? (int)i : first;
		if (is_number && at++ == number)
			nth = (int)i;
	}
	return nth >= 0 ? nth : first;
}

static const char *default_kernel(const struct menu *m, const char *choice)
{
	int at = -1;
	for (int depth = 0; depth < DEPTH_MAX; depth++) {
		auto_str char *part = next_choice_part(&choice);
		at = find_item(m, at, part);
		if (at < 0)
			return NULL;
		if (!m->items[at].is_menu)
			return m->items[at].image;
	}
	return NULL;
}

static char *choose_entry(const struct boot_query *ask, const char *choice, char **ret_entry)
{
	static const char DIR_NAME[] = "boot/loader/entries";
	auto_boot_entries struct boot_entries all = { 0 };
	uint64_t number = 0;
	boot_entries_read(ask->host, DIR_NAME, BOOT_ENTRIES_BY_NAME, &all);
	if (!all.count)
		return NULL;
	size_t at = str_u64(choice, 10, &number) && number < all.count ? (size_t)number : 0;
	for (size_t i = 0; i < all.count; i++)
		if (str_eq(all.items[i].id, choice) || str_eq(all.items[i].title, choice))
			at = i;
	*ret_entry = str_dup(all.items[at].id);
	return boot_entry_release(ask, &all.items[at]);
}

static bool has_command(const char *config, const char *command)
{
	for (const char *at = config; (at = strstr(at, command)); at++) {
		const char *line = at;
		while (line > config && isblank((unsigned char)line[-1]))
			line--;
		const char *after = at + strlen(command);
		if ((line == config || line[-1] == '\n') && (!*after || isspace((unsigned char)*after)))
			return true;
	}
	return false;
}

// The value of `set default` when there is no one-time entry, with its variable resolved.
static char *grub_default(const char *config, const char *environment)
{
	static const char SET[] = "set default=";
	for (const char *at = config; (at = strstr(at, SET)); at += strlen(SET)) {
		auto_str char *line = str_ndup(at + strlen(SET), strcspn(at + strlen(SET), "\n"));
		const char *rest = line;
		auto_str char *value = next_script_word(&rest);
		if (!value || strstr(value, "next_entry"))
			continue;
		if (*value != '$')
			return TAKE(value);
		char *saved = boot_file_value(environment, "saved_entry", '=');
		return saved ? saved : str_dup("0");
	}
	return str_dup("0");
}

static bool read_grub_dir(const struct boot_query *ask, const char *dir, struct boot_choice *ret)
{
	auto_str char *config_path = str_fmt("%s/grub.cfg", dir), *environment_path = str_fmt("%s/grubenv", dir),
		      *config = boot_file_text(ask->host, config_path),
		      *environment = boot_file_text(ask->host, environment_path), *entry = NULL;
	if (!config)
		return false;
	auto_str char *once = strstr(config, "next_entry") ? boot_file_value(environment, "next_entry", '=') : NULL,
		      *choice = once ? TAKE(once) : grub_default(config, environment);
	if (has_command(config, "blscfg")) {
		char *release = choose_entry(ask, choice, &entry);
		if (release)
			boot_choice_set(ret, release, "%s, loader entry %s", environment_path, entry);
		return release;
	}
	auto_menu struct menu menu = { 0 };
	read_menu(config, &menu);
	char *release = boot_release_in(ask, default_kernel(&menu, choice));
	if (release)
		boot_choice_set(ret, release, "%s, entry '%s'", config_path, choice);
	return release;
}

static bool boot_choice_grub(const struct boot_query *ask, struct boot_choice *ret)
{
	static const char *const dirs[] = { "boot/grub",
					    "boot/grub2",
					    "boot/efi/EFI/redhat",
					    "boot/efi/EFI/rocky",
					    "boot/efi/EFI/almalinux",
					    "boot/efi/EFI/centos",
					    "boot/efi/EFI/fedora" };
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (read_grub_dir(ask, dirs[i], ret))
			return true;
	return false;
}

static const char DEPLOY[] = "ostree/deploy";

void boot_ostree_done(struct ostree_deployments *d)
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

// The first name in the file is the staged deployment's; the one that it was merged with, usually the running one,
// comes later.
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

void boot_ostree_read(const struct root *host, const struct root *kern, struct ostree_deployments *ret)
{
	struct err ignored;
	auto_strv struct strv systems = { 0 };
	auto_str char *cmdline = NULL;
	if (root_list(host, DEPLOY, &systems, &ignored) <= 0)
		return;
	for (size_t i = 0; i < systems.count; i++) {
		auto_strv struct strv names = { 0 };
		auto_str char *dir = str_fmt("%s/%s/deploy", DEPLOY, systems.items[i]);
		root_list(host, dir, &names, &ignored);
		for (size_t k = 0; k < names.count && ret->count < DEPLOYMENTS_MAX; k++) {
			if (!is_deployment(names.items[k]))
				continue;
			ret->items = mem_grow(ret->items, ret->count + 1, sizeof(*ret->items));
			ret->items[ret->count++] =
				(struct ostree_deployment){ .path = str_fmt("%s/%s", dir, names.items[k]) };
		}
	}
	root_read(kern, "proc/cmdline", &cmdline, NULL, &ignored);
	struct ostree_deployment *booted = deployment_of_options(host, ret, cmdline), *next = NULL;
	if (booted)
		booted->is_booted = true;
	next = staged_deployment(host, ret);
	if (!next) {
		auto_boot_entries struct boot_entries entries = { 0 };
		boot_entries_read(host, "boot/loader/entries", BOOT_ENTRIES_BY_SPECIFICATION, &entries);
		next = entries.count ? deployment_of_options(host, ret, entries.items[0].options) : NULL;
	}
	if (next)
		next->is_next = true;
}

static bool boot_choice_ostree(const struct boot_query *ask, struct boot_choice *ret)
{
	struct err ignored;
	auto_ostree_deployments struct ostree_deployments all = { 0 };
	boot_ostree_read(ask->host, ask->kern, &all);
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

static bool read_vmlinuz_link(const struct boot_query *ask, struct boot_choice *ret)
{
	static const char *const links[] = { "vmlinuz", "boot/vmlinuz", "boot/vmlinux", "boot/Image" };
	struct err ignored;
	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		auto_str char *target = NULL;
		if (root_readlink(ask->host, links[i], &target, &ignored) <= 0)
			continue;
		char *release = boot_release_in(ask, target);
		if (release) {
			boot_choice_set(ret, release, "the link /%s", links[i]);
			return true;
		}
	}
	return false;
}

bool boot_choice_read(const struct root *host, const struct root *kern, const struct strv *releases,
		      struct boot_choice *ret)
{
	static bool (*const readers[])(const struct boot_query *ask,
				       struct boot_choice *ret) = { boot_choice_ostree, boot_choice_systemd,
								    boot_choice_grub, read_vmlinuz_link };
	const struct boot_query ask = { .host = host, .kern = kern, .releases = releases };
	for (size_t i = 0; i < ARRAY_SIZE(readers); i++)
		if (readers[i](&ask, ret))
			return true;
	return false;
}
