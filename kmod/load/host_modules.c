// SPDX-License-Identifier: Apache-2.0
// libkmod opens absolute paths and follows links (Debian's nvidia.conf is one to an absolute path), and the host may be
// a directory. So it gets the text of each file, found below the root, as a file in memory: that needs neither chroot
// nor privileges nor a process. After the text libkmod reads the /proc/cmdline that it sees itself, whose lines are
// dropped again; that of the host is read here.
#include "kmod/load/host_modules.h"

#include "base/file/file.h"
#include "kmod/module/elf.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

static const char *const modprobe_dirs[] = {
	"etc/modprobe.d", "run/modprobe.d", "usr/local/lib/modprobe.d", "usr/lib/modprobe.d", "lib/modprobe.d",
};

void host_modules_done(struct host_modules *m)
{
	for (size_t i = 0; i < m->count; i++) {
		free(m->params[i].module);
		free(m->params[i].word);
		free(m->params[i].where);
	}
	free(m->params);
	strv_done(&m->blacklist);
	strv_done(&m->skipped);
	strv_done(&m->forbidden);
	strv_done(&m->installs);
	*m = (struct host_modules){ 0 };
}

char *host_modules_next_word(const char **text)
{
	const char *s = *text;
	while (isspace((unsigned char)*s))
		s++;
	if (!*s)
		return NULL;
	char *word = mem_alloc(strlen(s) + 1), *end = word;
	for (bool is_quoted = false; *s && (is_quoted || !isspace((unsigned char)*s)); s++) {
		if (*s == '"')
			is_quoted = !is_quoted;
		else
			*end++ = *s;
	}
	*text = s;
	return word;
}

static void add_param(struct host_modules *m, const char *module, const char *word, const char *where)
{
	m->params = mem_grow(m->params, m->count + 1, sizeof(*m->params));
	m->params[m->count++] = (struct host_param){ .module = str_dup(module),
						     .word = str_dup(word),
						     .where = where ? str_dup(where) : NULL };
}

static void add_options(struct host_modules *m, const char *module, const char *words, const char *where)
{
	for (char *word; (word = host_modules_next_word(&words)); free(word))
		add_param(m, module, word, where);
}

// Such as "/bin/false". modprobe gives the command to a shell.
static bool is_nothing_done(const char *command)
{
	static const char *const idle[] = { "true", "false", ":" };
	auto_strv struct strv words = { 0 };
	strv_split(&words, command, " \t");
	if (words.count != 1)
		return false;
	const char *slash = strrchr(words.items[0], '/'), *program = slash ? slash + 1 : words.items[0];
	for (size_t i = 0; i < ARRAY_SIZE(idle); i++)
		if (str_eq(program, idle[i]))
			return true;
	return false;
}

static void add_install(struct host_modules *m, const char *module, const char *command)
{
	if (strv_has(&m->installs, module))
		return;
	strv_add(&m->installs, str_dup(module));
	if (is_nothing_done(command))
		strv_add(&m->blacklist, str_dup(module));
}

static void add_alias(struct host_modules *m, const char *name, const char *target)
{
	if (str_eq(target, "off"))
		strv_add(&m->blacklist, str_dup(name));
}

#ifdef KMODSMITH_STATIC
#include "kmod/load/modprobe_text.h"

static int read_modprobe_file(struct host_modules *m, char *text, const char *path, struct err *err)
{
	(void)err;
	for (struct modprobe_line line; modprobe_text_next(&text, &line);) {
		if (line.verb == MODPROBE_BLACKLIST)
			strv_add(&m->blacklist, str_dup(line.module));
		else if (line.verb == MODPROBE_INSTALL)
			add_install(m, line.module, line.words);
		else if (line.verb == MODPROBE_ALIAS)
			add_alias(m, line.module, line.words);
		else
			add_options(m, line.module, line.words, path);
	}
	return 0;
}
#else
#include <libkmod.h>

static void kmod_done(struct kmod_ctx **kmod)
{
	kmod_unref(*kmod);
}
#define auto_kmod __attribute__((cleanup(kmod_done)))

static void lines_done(struct kmod_config_iter **lines)
{
	kmod_config_iter_free_iter(*lines);
}
#define auto_lines __attribute__((cleanup(lines_done)))

typedef struct kmod_config_iter *(*get_lines)(const struct kmod_ctx *kmod);

// path: a file; NULL = no configuration but the command line.
static struct kmod_ctx *parse_config(const char *path)
{
	const char *const paths[] = { path, NULL };
	setenv("KMOD_LOG", "0", false); // read when the library starts, and there is no other way before it parses
	return kmod_new("/", paths);
}

static size_t count_lines(const struct kmod_ctx *kmod, get_lines get)
{
	size_t count = 0;
	auto_lines struct kmod_config_iter *lines = get(kmod);
	while (kmod_config_iter_next(lines))
		count++;
	return count;
}

// The file's lines come first, those of the command line after them.
static size_t count_file_lines(const struct kmod_ctx *file, const struct kmod_ctx *cmdline, get_lines get)
{
	size_t all = count_lines(file, get), added = count_lines(cmdline, get);
	return all > added ? all - added : 0;
}

static void collect_lines(struct host_modules *m, const struct kmod_ctx *file, const struct kmod_ctx *cmdline,
			  const char *where)
{
	auto_lines struct kmod_config_iter *options = kmod_config_get_options(file);
	auto_lines struct kmod_config_iter *blacklists = kmod_config_get_blacklists(file);
	auto_lines struct kmod_config_iter *installs = kmod_config_get_install_commands(file);
	auto_lines struct kmod_config_iter *aliases = kmod_config_get_aliases(file);
	for (size_t n = count_file_lines(file, cmdline, kmod_config_get_options); n && kmod_config_iter_next(options);
	     n--)
		add_options(m, kmod_config_iter_get_key(options), kmod_config_iter_get_value(options), where);
	for (size_t n = count_file_lines(file, cmdline, kmod_config_get_blacklists);
	     n && kmod_config_iter_next(blacklists); n--)
		strv_add(&m->blacklist, str_dup(kmod_config_iter_get_key(blacklists)));
	while (kmod_config_iter_next(installs)) // the command line has neither of these
		add_install(m, kmod_config_iter_get_key(installs), kmod_config_iter_get_value(installs));
	while (kmod_config_iter_next(aliases))
		add_alias(m, kmod_config_iter_get_key(aliases), kmod_config_iter_get_value(aliases));
}

static int read_modprobe_file(struct host_modules *m, char *text, const char *path, struct err *err)
{
	auto_fd int fd = memfd_create("modprobe.d", MFD_CLOEXEC);
	auto_str char *name = str_fmt("/proc/self/fd/%d", fd);
	if (fd < 0)
		return err_set(err, errno, "memory for '%s'", path);
	for (char *s = text; (s = strpbrk(s, "\v\f\r"));) // whitespace that libkmod takes for letters
		*s = ' ';
	if (file_write(fd, path, text, strlen(text), err) < 0 || file_write(fd, path, "\n", 1, err) < 0)
		return -1;
	if (access(name, R_OK) < 0) // libkmod would take it for an empty one
		return err_set(err, errno, "read '%s' as '%s'", path, name);
	auto_kmod struct kmod_ctx *file = parse_config(name);
	auto_kmod struct kmod_ctx *cmdline = parse_config(NULL);
	if (!file || !cmdline)
		return err_set(err, ENOMEM, "start libkmod for '%s'", path);
	collect_lines(m, file, cmdline, path);
	return 0;
}
#endif

// A directory hides no file of its name in another place; whatever else is none does, as modprobe has it.
static bool is_directory(const struct root *host, const char *path)
{
	struct err ignored;
	auto_fd int fd = root_open(host, path, O_PATH | O_DIRECTORY, &ignored);
	return fd >= 0;
}

// The files of all directories by name; the first directory that has a name wins.
static int read_modprobe_files(struct host_modules *m, const struct root *host, struct err *err)
{
	auto_strv struct strv names = { 0 }, order = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(modprobe_dirs); i++) {
		auto_strv struct strv here = { 0 };
		if (root_list(host, modprobe_dirs[i], &here, err) < 0)
			return -1;
		for (size_t j = 0; j < here.count; j++) {
			auto_str char *path = str_fmt("%s/%s", modprobe_dirs[i], here.items[j]);
			if (*here.items[j] == '.' || !str_ends(here.items[j], ".conf") ||
			    strv_has(&names, here.items[j]))
				continue;
			if (!is_directory(host, path))
				strv_add(&names, str_dup(here.items[j]));
			strv_add(&order, str_fmt("%s/%s", here.items[j], modprobe_dirs[i]));
		}
	}
	strv_sort(&order);
	for (size_t i = 0; i < order.count; i++) {
		const char *slash = strchr(order.items[i], '/');
		auto_str char *path = str_fmt("%s/%.*s", slash + 1, (int)(slash - order.items[i]), order.items[i]);
		auto_str char *text = NULL;
		int r = root_read_entry(host, path, SIZE_MAX, &text, &m->skipped, err);
		if (r < 0 || (r > 0 && read_modprobe_file(m, text, path, err) < 0))
			return -1;
	}
	return 0;
}

static void parse_cmdline_word(struct host_modules *m, const char *word)
{
	static const char modprobes[] = "modprobe.blacklist=", kernels[] = "module_blacklist=";
	size_t len = strcspn(word, ".=");
	if (str_starts(word, modprobes)) {
		strv_split(&m->blacklist, word + strlen(modprobes), ",");
		return;
	}
	if (str_starts(word, kernels)) {
		strv_done(&m->forbidden); // the kernel keeps the last one
		strv_split(&m->forbidden, word + strlen(kernels), ",");
	}
	if (word[len] != '.')
		return;
	auto_str char *module = str_ndup(word, len);
	add_param(m, module, word + len + 1, NULL);
}

static int read_cmdline(struct host_modules *m, const struct root *kern, struct err *err)
{
	auto_str char *cmdline = NULL;
	int r = root_read(kern, "proc/cmdline", &cmdline, NULL, err);
	const char *rest = cmdline;
	for (char *word; r > 0 && (word = host_modules_next_word(&rest)); free(word))
		parse_cmdline_word(m, word);
	return r < 0 ? -1 : 0;
}

int host_modules_forbidden(const struct root *kern, struct strv *ret, struct err *err)
{
	auto_host_modules struct host_modules m = { 0 };
	if (read_cmdline(&m, kern, err) < 0)
		return -1;
	*ret = m.forbidden;
	m.forbidden = (struct strv){ 0 };
	return 0;
}

int host_modules_next(struct err *err)
{
	return err_next(err, "take the name out of module_blacklist= where the boot loader has the kernel command line "
			     "(GRUB: GRUB_CMDLINE_LINUX in /etc/default/grub, then `update-grub`), and reboot");
}

int host_modules_read(const struct root *host, const struct root *kern, struct host_modules *ret, struct err *err)
{
	auto_host_modules struct host_modules m = { 0 };
	if (read_modprobe_files(&m, host, err) < 0)
		return err_wrap(err, "read the host's module options");
	if (read_cmdline(&m, kern, err) < 0)
		return -1;
	for (size_t i = 0; i < m.forbidden.count; i++)
		strv_add(&m.blacklist, str_dup(m.forbidden.items[i]));
	*ret = m;
	m = (struct host_modules){ 0 };
	return 0;
}
