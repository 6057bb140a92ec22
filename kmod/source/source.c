// SPDX-License-Identifier: Apache-2.0
#include "kmod/source/source.h"

#include "base/archive/archive.h"
#include "base/archive/embedded.h"
#include "base/file/copy.h"
#include "base/file/file.h"

#include <errno.h>
#include <fcntl.h>

static const char USR_SRC[] = "usr/src";

void source_done(struct source *s)
{
	root_done(&s->root);
	free(s->version);
	free(s->probes);
	for (size_t i = 0; i < ARRAY_SIZE(s->dirs); i++)
		free(s->dirs[i]);
	free(s->release);
	*s = (struct source){ .root = ROOT_NONE };
}

static char *find_version(const struct root *root, const char *dir)
{
	auto_str char *path = str_fmt("%s/Kbuild", dir), *text = NULL;
	struct err absent;
	if (root_read(root, path, &text, NULL, &absent) <= 0)
		return NULL;
	const char *mark = "NV_VERSION_STRING=\\\"";
	const char *at = strstr(text, mark);
	if (!at)
		return NULL;
	at += strlen(mark);
	size_t len = strspn(at, "0123456789.");
	return len ? str_ndup(at, len) : NULL;
}

// The licence that the module declares decides the type, whatever a distribution calls the directory.
static unsigned find_module_type(const struct root *root, const char *dir)
{
	static const char *const files[] = { "nvidia/nv-frontend.c", "nvidia/nv.c" };
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		auto_str char *path = str_fmt("%s/%s", dir, files[i]), *text = NULL;
		struct err absent;
		if (root_read(root, path, &text, NULL, &absent) <= 0)
			continue;
		if (strstr(text, "MODULE_LICENSE(\"NVIDIA\")"))
			return MODULE_TYPE_PROPRIETARY;
		if (strstr(text, "MODULE_LICENSE(\"Dual MIT/GPL\")"))
			return MODULE_TYPE_OPEN;
	}
	return 0;
}

// In NVIDIA's open source release the files are links to what its Makefile leaves in src/.
const struct source_core source_cores[] = {
	{ "nvidia", "src/nvidia", "nvidia/nv-kernel.o_binary" },
	{ "nvidia-modeset", "src/nvidia-modeset", "nvidia-modeset/nv-modeset-kernel.o_binary" },
};

static bool is_symlink(const struct root *root, const char *path)
{
	struct stat st;
	struct err ignored;
	return root_stat(root, path, &st, &ignored) > 0 && S_ISLNK(st.st_mode);
}

// The release that the directory of the open modules is part of, if it is as published; NULL = it is not.
static char *find_release(const struct source *s)
{
	static const char OPEN[] = "/kernel-open";
	const char *dir = s->dirs[MODULE_TYPE_OPEN];
	if (!dir || !str_ends(dir, OPEN))
		return NULL;
	auto_str char *above = str_ndup(dir, strlen(dir) - strlen(OPEN));
	static const char *const parts[] = { "Makefile", "utils.mk", "version.mk", "src/nvidia/Makefile" };
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		auto_str char *part = str_fmt("%s/%s", above, parts[i]);
		if (!root_exists(&s->root, part))
			return NULL;
	}
	return TAKE(above);
}

// In Debian's packages of drivers before 470 its name ends in the architecture's, as their own patches expect it.
static bool has_core(const struct source *s, const char *core)
{
	static const char *const archs[] = { "amd64", "arm64" };
	int stem = (int)(strrchr(core, '.') - core);
	for (size_t i = 0; i < ARRAY_SIZE(archs); i++) {
		auto_str char *path = str_fmt("%.*s-%s%s", stem, core, archs[i], core + stem);
		if (root_exists(&s->root, path))
			return true;
	}
	return root_exists(&s->root, core);
}

static int check_cores(struct source *s, unsigned flavour, struct err *err)
{
	const char *dir = s->dirs[flavour];
	for (size_t i = 0; i < SOURCE_CORES && dir; i++) {
		const struct source_core *c = &source_cores[i];
		auto_str char *core = str_fmt("%s/%s", dir, c->file),
			      *module = str_fmt("%s/%s/%s.Kbuild", dir, c->module, c->module);
		bool is_dangling = is_symlink(&s->root, core);
		if (has_core(s, core))
			continue;
		if (flavour == MODULE_TYPE_OPEN && !s->release && (i == 0 || root_exists(&s->root, module)))
			s->release = find_release(s);
		if (s->release || (i > 0 && !is_dangling))
			continue;
		return err_set(err, E_SOURCE,
			       "'%s/%s' %s %s, which is compiled from src/ of NVIDIA's source release: pass the "
			       "directory that has its Makefile, kernel-open/ and src/",
			       s->root.name, dir, is_dangling ? "has a dangling link for" : "lacks", c->file);
	}
	return 0;
}

// Conftest.sh asks the headers before each compile; a distribution adds to it, and works around, by patches.
static int read_probes(struct source *s, const char *dir, struct err *err)
{
	static const char *const files[] = { "Kbuild", "conftest.sh" };
	auto_str char *series = str_fmt("%s/debian/patches/series", dir), *list = NULL;
	auto_strv struct strv names = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		auto_str char *path = str_fmt("%s/%s", dir, files[i]), *text = NULL;
		if (root_read(&s->root, path, &text, NULL, err) < 0)
			return -1;
		str_add(&s->probes, "%s", text ? text : "");
	}
	int r = root_read(&s->root, series, &list, NULL, err);
	strv_split(&names, list ? list : "", "\n");
	for (size_t i = 0; i < names.count && r >= 0; i++) {
		auto_str char *path = str_fmt("%s/debian/patches/%s", dir, str_trim(names.items[i])), *patch = NULL;
		r = names.items[i][0] == '#' ? 0 : root_read(&s->root, path, &patch, NULL, err);
		if (r > 0)
			str_add(&s->probes, "%s", patch);
	}
	return r < 0 ? -1 : 0;
}

static int take_dir(struct source *s, const char *dir, struct err *err)
{
	unsigned flavour = find_module_type(&s->root, dir);
	auto_str char *version = flavour ? find_version(&s->root, dir) : NULL;
	if (!version)
		return 0;
	if (s->version && !str_eq(s->version, version))
		return err_set(err, E_SOURCE, "'%s' has two drivers, %s and %s", s->root.name, s->version, version);
	if (!s->dirs[flavour] && read_probes(s, dir, err) < 0)
		return -1;
	if (!s->dirs[flavour])
		s->dirs[flavour] = str_dup(dir);
	if (!s->version)
		s->version = TAKE(version);
	s->flavours |= flavour;
	return 1;
}

// A module type's directory is the root itself or at most two levels down (kernel-open, modules/nvidia-kernel).
static int scan_dirs(struct source *s, const char *dir, unsigned depth, struct err *err)
{
	auto_str char *kbuild = str_fmt("%s/Kbuild", dir), *conftest = str_fmt("%s/conftest.sh", dir);
	if (root_exists(&s->root, kbuild) && root_exists(&s->root, conftest))
		return take_dir(s, dir, err);
	auto_strv struct strv names = { 0 };
	if (depth == 0)
		return 0;
	if (root_list(&s->root, dir, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *below = str_fmt("%s/%s", dir, names.items[i]);
		struct stat st;
		int r = root_stat(&s->root, below, &st, err);
		if (r > 0 && S_ISDIR(st.st_mode))
			r = scan_dirs(s, below, depth - 1, err);
		if (r < 0)
			return -1;
	}
	return 0;
}

// A dkms package has the trees below usr/src.
static int find_module_types(struct source *s, struct err *err)
{
	if (scan_dirs(s, ".", 2, err) < 0)
		return -1;
	return s->flavours || !root_exists(&s->root, USR_SRC) ? 0 : scan_dirs(s, USR_SRC, 2, err);
}

static int identify(struct source *s, const char *path, struct err *err)
{
	if (find_module_types(s, err) < 0)
		return -1;
	if (!s->flavours)
		return err_set(err, E_SOURCE,
			       "'%s' has no kernel modules of an NVIDIA driver (a directory with Kbuild, "
			       "conftest.sh and nvidia/nv-kernel.o_binary)",
			       path);
	for (size_t i = 0; i < ARRAY_SIZE(s->dirs); i++)
		if (check_cores(s, (unsigned)i, err) < 0)
			return -1;
	return 0;
}

// What to take of an archive.
struct choice {
	bool is_run;  // the kernel parts only: 300 MB of user space are of no use here
	bool is_peek; // the few files that tell version, module type and probes, then stop
	bool stop;
};

static bool is_inner(void *ctx, const char *path)
{
	(void)ctx;
	return str_starts(path, "usr/src/");
}

static bool is_chosen(void *ctx, const char *path)
{
	struct choice *c = ctx;
	const char *second = strchr(path, '/');
	bool is_kernel_part = str_starts(path, "kernel") || (second && str_starts(second + 1, "kernel")) || !second;
	if (c->is_run && !is_kernel_part)
		return false;
	if (!c->is_peek)
		return true;
	c->stop = str_ends(path, "/nvidia/nv-frontend.c") || str_ends(path, "/nvidia/nv.c");
	return c->stop || str_ends(path, "Kbuild") || str_ends(path, "conftest.sh") || strstr(path, "debian/patches/");
}

static int unpack_source(int fd, const char *path, const struct root *to, bool is_peek, struct err *err)
{
	struct embedded embedded;
	if (embedded_find(fd, path, &embedded, err) < 0)
		return -1;
	struct choice c = { .is_run = embedded.kind == EMBEDDED_RUN, .is_peek = is_peek };
	const struct archive_options options = { .stop = is_peek ? &c.stop : NULL, .select = is_chosen, .ctx = &c };
	if (embedded.kind != EMBEDDED_DEB)
		return archive_unpack(fd, path, embedded.offset, to, &options, err);
	if (archive_unpack(fd, path, 0, to, &(struct archive_options){ .select = is_inner }, err) < 0)
		return -1;
	// Debian's package holds usr/src/NAME.tar.xz; a package that installs the tree itself holds a directory there.
	auto_strv struct strv names = { 0 };
	if (root_list(to, USR_SRC, &names, err) < 0)
		return -1;
	if (!names.count)
		return err_set(err, E_SOURCE,
			       "'%s' has neither usr/src/*.tar.xz nor usr/src/*/: not a driver source package", path);
	if (names.count > 1 || !strstr(names.items[0], ".tar"))
		return 0;
	auto_str char *name = str_fmt("%s/%s", USR_SRC, names.items[0]);
	auto_fd int inner = root_open(to, name, O_RDONLY, err);
	if (inner < 0 || archive_unpack(inner, name, 0, to, &options, err) < 0)
		return err_wrap(err, "'%s'", path);
	return root_unlink(to, name, err) < 0 ? -1 : 0;
}

static int check_pin(const char *path, const char *wanted, const char *found, struct err *err)
{
	if (!wanted || strcmp(wanted, found) == 0)
		return 0;
	return err_set(err, E_DIGEST, "'%s' has SHA-256 %s, expected %s", path, found, wanted);
}

// A pinned source is copied before it is hashed, so that the checked bytes are the compiled ones even if another
// process writes to the file or directory meanwhile. The copy has no name.
static int copy_archive(int fd, const char *path, const struct root *work, struct err *err)
{
	static const char COPY[] = "pinned.archive";
	auto_fd int out = root_create(work, COPY, err);
	auto_fd int copy = out < 0 ? -1 : root_open(work, COPY, O_RDONLY, err);
	if (copy < 0 || root_unlink(work, COPY, err) < 0 || file_copy(fd, out, path, err) < 0)
		return -1;
	return TAKE_FD(copy);
}

static int make_dir(const struct root *work, const char *name, struct root *ret, struct err *err)
{
	if (root_rmtree(work, name, err) < 0 || root_mkdirs(work, name, 0755, err) < 0)
		return -1;
	return root_sub(work, name, ret, err);
}

static int open_archive(int fd, const char *path, const char *pin, const struct root *work, struct source *s,
			struct err *err)
{
	auto_fd int copy = pin ? copy_archive(fd, path, work, err) : -1;
	if (pin && copy < 0)
		return -1;
	fd = pin ? copy : fd;
	if (digest_file(fd, path, s->digest, err) < 0 || check_pin(path, pin, s->digest, err) < 0)
		return -1;
	auto_str char *name = str_fmt("source-%.16s", s->digest);
	if (make_dir(work, name, &s->root, err) < 0 || unpack_source(fd, path, &s->root, false, err) < 0)
		return -1;
	return identify(s, path, err);
}

// Of a checkout, what was checked out: what git keeps beside it differs from one clone to the next.
static int digest_directory(const struct root *root, char ret[DIGEST_HEX + 1], struct err *err)
{
	return copy_digest_without(root, ".git", ret, err);
}

static int open_directory(const char *path, const char *pin, const struct root *work, struct source *s, struct err *err)
{
	static const char COPY[] = "pinned";
	auto_root struct root from = ROOT_NONE;
	if (!pin && root_init(&s->root, path, err) < 0)
		return -1;
	if (pin && (root_init(&from, path, err) < 0 || root_rmtree(work, COPY, err) < 0 ||
		    copy_tree(&from, ".", work, COPY, err) < 0 || root_sub(work, COPY, &s->root, err) < 0))
		return -1;
	if (identify(s, path, err) < 0 || digest_directory(&s->root, s->digest, err) < 0)
		return -1;
	return check_pin(path, pin, s->digest, err);
}

// path: a directory or a file.
static int open_path(const char *path, bool *ret_is_dir, struct err *err)
{
	auto_fd int fd = file_open_arg(path, O_RDONLY, err);
	struct stat st;
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0)
		return err_set(err, errno, "look at '%s'", path);
	*ret_is_dir = S_ISDIR(st.st_mode);
	return TAKE_FD(fd);
}

int source_digest(const char *path, const char *sha256, char ret[DIGEST_HEX + 1], struct err *err)
{
	char hex[DIGEST_HEX + 1];
	auto_root struct root root = ROOT_NONE;
	bool is_dir;
	auto_fd int fd = open_path(path, &is_dir, err);
	if (fd < 0)
		return -1;
	if (is_dir ? root_init(&root, path, err) < 0 || digest_directory(&root, hex, err) < 0 :
		     digest_file(fd, path, hex, err) < 0)
		return -1;
	if (check_pin(path, sha256, hex, err) < 0)
		return -1;
	memcpy(ret, hex, sizeof(hex));
	return 0;
}

// A module type's directory is compiled alone, and links that lead out of it would lead nowhere there: it is copied,
// with the linked files in place of the links.
static int take_cores(struct source *s, const struct root *work, struct err *err)
{
	auto_strv struct strv linked = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(s->dirs) * SOURCE_CORES && !s->release; i++) {
		const char *dir = s->dirs[i / SOURCE_CORES];
		auto_str char *core = dir ? str_fmt("%s/%s", dir, source_cores[i % SOURCE_CORES].file) : NULL;
		if (core && is_symlink(&s->root, core))
			strv_add(&linked, TAKE(core));
	}
	if (!linked.count)
		return 0;
	auto_str char *name = str_fmt("linked-%.16s", s->digest);
	auto_root struct root to = ROOT_NONE;
	if (make_dir(work, name, &to, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(s->dirs); i++)
		if (s->dirs[i] && copy_tree(&s->root, s->dirs[i], &to, s->dirs[i], err) < 0)
			return -1;
	for (size_t i = 0; i < linked.count; i++) {
		const char *core = linked.items[i];
		struct stat st;
		auto_fd int in = root_open(&s->root, core, O_RDONLY, err);
		if (in < 0)
			return -1;
		if (fstat(in, &st) < 0 || !S_ISREG(st.st_mode))
			return err_set(err, E_SOURCE, "%s does not link to a regular file", core);
		auto_fd int out = root_unlink(&to, core, err) < 0 ? -1 : root_create(&to, core, err);
		if (out < 0 || file_copy(in, out, core, err) < 0)
			return -1;
	}
	root_done(&s->root);
	s->root = to;
	to = ROOT_NONE;
	return 0;
}

int source_open(const char *path, const char *sha256, const struct root *work, struct source *ret, struct err *err)
{
	auto_source struct source s = { .root = ROOT_NONE };
	bool is_dir;
	auto_fd int fd = open_path(path, &is_dir, err);
	if (fd < 0)
		return -1;
	if ((is_dir ? open_directory(path, sha256, work, &s, err) : open_archive(fd, path, sha256, work, &s, err)) < 0)
		return err->code != E_ARCHIVE ?
			       -1 :
			       err_next(err,
					"pass NVIDIA's .run, its directory, or a distribution's source "
					"or dkms package (.deb, .rpm); `file %.60s` says what it is",
					path);
	if (take_cores(&s, work, err) < 0)
		return err_wrap(err, "'%s'", path);
	*ret = s;
	s = (struct source){ .root = ROOT_NONE };
	return 0;
}

int source_peek(const char *path, const struct root *work, struct source *ret, struct err *err)
{
	auto_source struct source s = { .root = ROOT_NONE };
	auto_str char *name = str_fmt("peek.%d", (int)getpid());
	bool is_dir;
	auto_fd int fd = open_path(path, &is_dir, err);
	if (fd < 0 || (is_dir ? root_init(&s.root, path, err) : make_dir(work, name, &s.root, err)) < 0)
		return -1;
	int r = is_dir ? 0 : unpack_source(fd, path, &s.root, true, err);
	if (r == 0)
		r = find_module_types(&s, err);
	struct err ignored;
	if (!is_dir)
		root_rmtree(work, name, r < 0 ? &ignored : err);
	if (r < 0)
		return -1;
	root_done(&s.root);
	*ret = s;
	s = (struct source){ .root = ROOT_NONE };
	return ret->flavours ? 1 : 0;
}

static int is_patched_by_itself(const struct source *s, const char *dir, const char *file, struct err *err)
{
	auto_str char *path = str_fmt("%s/debian/patches/series", dir), *series = NULL;
	auto_str char *mark = str_fmt("+++ b/%s", file);
	auto_strv struct strv names = { 0 };
	int r = root_read(&s->root, path, &series, NULL, err);
	strv_split(&names, series ? series : "", "\n");
	for (size_t i = 0; i < names.count && r >= 0; i++) {
		auto_str char *patch = str_fmt("%s/debian/patches/%s", dir, str_trim(names.items[i])), *text = NULL;
		r = root_read(&s->root, patch, &text, NULL, err);
		const char *at = r > 0 ? strstr(text, mark) : NULL;
		if (at && strchr("\t\n ", at[strlen(mark)]))
			return 1;
	}
	return r < 0 ? -1 : 0;
}

int source_read(const struct source *source, enum module_type flavour, const char *file, char **ret, struct err *err)
{
	const char *dir = source->dirs[flavour];
	if (source->root.fd < 0 || !dir)
		return 0;
	auto_str char *path = str_fmt("%s/%s", dir, file), *text = NULL;
	int r = root_read(&source->root, path, &text, NULL, err);
	if (r <= 0)
		return r;
	r = is_patched_by_itself(source, dir, file, err);
	if (r == 0)
		*ret = TAKE(text);
	return r < 0 ? -1 : !r;
}

int source_matches(const struct source *source, enum module_type flavour, const char *file, const char *regex,
		   struct err *err)
{
	auto_str char *text = NULL;
	if (str_matches("", regex) < 0)
		return err_set(err, EINVAL, "'%s' is not a regular expression", regex);
	int r = source_read(source, flavour, file, &text, err);
	return r <= 0 ? r : str_matches(text, regex);
}
