// SPDX-License-Identifier: Apache-2.0
// GRUB: what grub-mkconfig (util/grub-mkconfig.in, grub.d/00_header.in and 10_linux.in) writes, and Red Hat's blscfg.
// The configuration is a program; of it are read the lines that these scripts write, and no other.
#include "next_kernel/boot_internal.h"

#include <ctype.h>

enum { ITEMS_MAX = 1024, DEPTH_MAX = 8 };

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

static bool is_id_option(const char *word)
{
	return str_eq(word, "--id") || strstr(word, "menuentry_id_option");
}

static void add_item(struct menu *m, const char *rest, int parent, bool is_menu)
{
	struct item item = { .parent = parent, .is_menu = is_menu, .title = next_script_word(&rest) };
	for (char *word; (word = next_script_word(&rest)); free(word))
		if (is_id_option(word) && !item.id)
			item.id = next_script_word(&rest);
	m->items = mem_grow(m->items, m->count + 1, sizeof(item));
	m->items[m->count++] = item;
}

static const char *after_word(const char *line, const char *word)
{
	size_t len = strlen(word);
	return strncmp(line, word, len) == 0 && isblank((unsigned char)line[len]) ? line + len + 1 : NULL;
}

static char *linux_argument(const char *line)
{
	static const char *const commands[] = { "linux", "linuxefi", "linux16" };
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		const char *rest = after_word(line, commands[i]);
		if (rest)
			return next_script_word(&rest);
	}
	return NULL;
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
	if (is_item)
		add_item(r->menu, entry ? entry : sub, innermost_item(r), sub != NULL);
	if (str_ends(line, "}"))
		return;
	if (r->depth < DEPTH_MAX)
		r->open[r->depth] = is_item ? (int)r->menu->count - 1 : -1;
	r->depth++;
}

static void read_menu_line(struct reading *r, const char *line)
{
	if (*line == '}' && r->depth) {
		r->depth--;
	} else if (after_word(line, "menuentry") || after_word(line, "submenu") || str_ends(line, "{")) {
		open_block(r, line);
	} else if (innermost_item(r) >= 0) {
		struct item *item = &r->menu->items[innermost_item(r)];
		if (!item->image)
			item->image = linux_argument(line);
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

// As GRUB looks (normal/menu.c, get_entry_number): a number, an id or a title; what is nowhere means the first one.
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

// What `set default` says when nothing is to be started once: with the variable that it names.
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

bool boot_choice_grub(const struct boot_query *ask, struct boot_choice *ret)
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
