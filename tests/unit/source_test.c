// SPDX-License-Identifier: Apache-2.0
// Driver sources in every form they come in, made small here.
#include "tests/unit/test.h"

#include "kmod/source/source.h"

#include <archive.h>
#include <archive_entry.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define PROPRIETARY "MODULE_LICENSE(\"NVIDIA\");\n"
#define OPEN "MODULE_LICENSE(\"Dual MIT/GPL\");\n"
#define KBUILD(version) "ccflags-y += -DNV_VERSION_STRING=\\\"" version "\\\"\n"

struct writer {
	struct archive *a;
	size_t used;
	char buf[1 << 16];
};

static void writer_open(struct writer *w, bool is_ar)
{
	w->a = archive_write_new();
	if (is_ar)
		archive_write_set_format_ar_svr4(w->a);
	else
		archive_write_set_format_pax_restricted(w->a);
	if (!is_ar)
		archive_write_add_filter_xz(w->a);
	archive_write_set_bytes_per_block(w->a, 0);
	assert_int_equal(archive_write_open_memory(w->a, w->buf, sizeof(w->buf), &w->used), ARCHIVE_OK);
}

static void writer_add(struct writer *w, const char *name, const char *data, size_t len)
{
	struct archive_entry *e = archive_entry_new();
	archive_entry_set_pathname(e, name);
	archive_entry_set_filetype(e, AE_IFREG);
	archive_entry_set_perm(e, 0644);
	archive_entry_set_size(e, (la_int64_t)len);
	assert_int_equal(archive_write_header(w->a, e), ARCHIVE_OK);
	assert_int_equal(archive_write_data(w->a, data, len), len);
	archive_entry_free(e);
}

static void writer_close(struct writer *w)
{
	assert_int_equal(archive_write_close(w->a), ARCHIVE_OK);
	archive_write_free(w->a);
}

struct file {
	const char *name, *text;
};

static void add_flavour(struct writer *w, const char *dir, const char *licence, const char *kbuild)
{
	const struct file files[] = {
		{ "Kbuild", kbuild },
		{ "conftest.sh", "exit 1\n" },
		{ "debian/patches/series", "# comment\nfix.patch\n" },
		{ "debian/patches/fix.patch", "+asks the headers\n" },
		{ "nvidia/nvidia.Kbuild", "NVIDIA_SOURCES += nvidia/nv.c\n#NVIDIA_SOURCES += x.c\n" },
		{ "nvidia/nv-frontend.c", licence },
		{ "nvidia/nv-kernel.o_binary", "ELF" },
		{ "nvidia-uvm/nvidia-uvm.Kbuild", "include $(src)/nvidia-uvm/nvidia-uvm-sources.Kbuild\n" },
		{ "nvidia-uvm/nvidia-uvm-sources.Kbuild",
		  "NVIDIA_UVM_SOURCES ?=\nNVIDIA_UVM_SOURCES += nvidia-uvm/a.c\n"
		  "NVIDIA_UVM_SOURCES += nvidia-uvm/b.c\n" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		auto_str char *name = str_fmt("%s/%s", dir, files[i].name);
		writer_add(w, name, files[i].text, strlen(files[i].text));
	}
}

static char *save(const struct folder *folder, const char *name, const char *head, const char *data, size_t len)
{
	char *path = str_fmt("%s/%s", folder->path, name);
	auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_int_equal(write(fd, head, strlen(head)), strlen(head));
	assert_int_equal(write(fd, data, len), len);
	return path;
}

static int try(const struct folder *folder, const char *path, const char *pin, struct source *s)
{
	struct err err = { 0 };
	auto_root struct root work = ROOT_NONE;
	folder_dir(folder, "work");
	assert_int_equal(root_sub(&folder->root, "work", &work, &err), 0);
	return source_open(path, pin, &work, s, &err) < 0 ? err.code : 0;
}

static void expect_source(const struct folder *folder, const char *path, const char *open, const char *proprietary)
{
	auto_source struct source s = { .root = ROOT_NONE };
	char digest[DIGEST_HEX + 1];
	struct err err;
	expect(try(folder, path, NULL, &s) == 0, path);
	assert_string_equal(s.version, "535.261.03");
	assert_int_equal(s.flavours, (open ? MODULE_TYPE_OPEN : 0) | (proprietary ? MODULE_TYPE_PROPRIETARY : 0));
	const char *has_open = s.dirs[MODULE_TYPE_OPEN], *has_proprietary = s.dirs[MODULE_TYPE_PROPRIETARY];
	expect(open ? str_eq(has_open, open) : !has_open, has_open);
	expect(proprietary ? str_eq(has_proprietary, proprietary) : !has_proprietary, has_proprietary);
	assert_int_equal(source_digest(path, NULL, digest, &err), 0);
	assert_string_equal(digest, s.digest);
	auto_source struct source peek = { .root = ROOT_NONE };
	auto_root struct root work = ROOT_NONE;
	assert_int_equal(root_sub(&folder->root, "work", &work, &err), 0);
	expect(source_peek(path, &work, &peek, &err) == 1, path);
	assert_string_equal(peek.version, "535.261.03");
	assert_true(peek.flavours && !(peek.flavours & ~s.flavours));
	expect(!strstr(s.probes, "exit 1\n") || strstr(peek.probes, "exit 1\n+asks the headers\n"), peek.probes);
	assert_true(str_starts(s.probes, peek.probes));
}

static void test_run_files(void **state)
{
	(void)state;
	// How many lines the script has (makeself), which line is the first after it (NVIDIA), a wrong number, none.
	static const char *const heads[] = { "#!/bin/sh\nskip=\"4\"\ntouch executed\nexit 0\n",
					     "#!/bin/sh\nskip=5\ntouch executed\nexit 0\n",
					     "#!/bin/sh\nskip=2\ntouch executed\nexit 0\n",
					     "#!/bin/sh\ntouch executed\n" };
	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		auto_folder struct folder folder;
		struct writer *w = mem_alloc(sizeof(*w));
		folder_make(&folder);
		writer_open(w, false);
		add_flavour(w, "./kernel", PROPRIETARY, KBUILD("535.261.03"));
		add_flavour(w, "./kernel-open", OPEN, KBUILD("535.261.03"));
		writer_add(w, "./bin/nvidia-smi", "user space", 10);
		writer_close(w);
		auto_str char *path = save(&folder, "driver.run", heads[i], w->buf, w->used);
		expect_source(&folder, path, "./kernel-open", "./kernel");
		struct err err;
		auto_strv struct strv made = { 0 };
		assert_int_equal(root_list(&folder.root, "work", &made, &err), 1);
		auto_str char *smi = str_fmt("work/%s/bin", made.items[0]);
		assert_false(root_exists(&folder.root, smi));
		assert_int_not_equal(access("executed", F_OK), 0);
		free(w);
	}
}

static void test_debian_package(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	struct writer *inner = mem_alloc(sizeof(*inner)), *data = mem_alloc(sizeof(*data)),
		      *deb = mem_alloc(sizeof(*deb));
	folder_make(&folder);
	writer_open(inner, false);
	add_flavour(inner, "modules/nvidia-kernel", PROPRIETARY, KBUILD("535.261.03"));
	writer_close(inner);
	writer_open(data, false);
	writer_add(data, "./usr/share/doc/x", "doc", 3);
	writer_add(data, "./usr/src/nvidia-kernel.tar.xz", inner->buf, inner->used);
	writer_close(data);
	writer_open(deb, true);
	writer_add(deb, "debian-binary", "2.0\n", 4);
	writer_add(deb, "data.tar.xz", data->buf, data->used);
	writer_close(deb);
	auto_str char *package = save(&folder, "nvidia-kernel-source.deb", "", deb->buf, deb->used);
	auto_str char *tar = save(&folder, "nvidia-kernel.tar.xz", "", inner->buf, inner->used);
	expect_source(&folder, package, NULL, "./modules/nvidia-kernel");
	expect_source(&folder, tar, NULL, "./modules/nvidia-kernel");
	auto_source struct source s = { .root = ROOT_NONE };
	for (size_t cut = 16; cut < deb->used; cut += deb->used / 9) {
		auto_str char *part = save(&folder, "cut.deb", "", deb->buf, cut);
		assert_int_equal(try(&folder, part, NULL, &s), E_ARCHIVE);
	}
	free(inner);
	free(data);
	free(deb);
}

// trees: where the open and the proprietary modules are; NULL = nowhere.
static void add_trees(struct writer *w, const char *const trees[2])
{
	writer_add(w, "./usr/share/doc/x", "doc", 3);
	for (size_t t = 0; t < 2; t++) {
		auto_str char *dir = trees[t] ? str_fmt("./%s", trees[t]) : NULL;
		if (dir)
			add_flavour(w, dir, t ? PROPRIETARY : OPEN, KBUILD("535.261.03"));
	}
}

// An rpm as libarchive reads it: lead, two headers without entries, compressed cpio.
static char *save_rpm(const struct folder *folder, const char *name, const char *const trees[2])
{
	static const char LEAD[96] = "\xed\xab\xee\xdb\x03", HEADER[16] = "\x8e\xad\xe8\x01";
	struct writer *payload = mem_alloc(sizeof(*payload));
	auto_str char *all = mem_alloc(sizeof(LEAD) + 2 * sizeof(HEADER) + sizeof(payload->buf));
	size_t len = sizeof(LEAD) + 2 * sizeof(HEADER);
	payload->a = archive_write_new();
	archive_write_set_format_cpio_newc(payload->a);
	archive_write_add_filter_xz(payload->a);
	archive_write_set_bytes_per_block(payload->a, 0);
	assert_int_equal(archive_write_open_memory(payload->a, payload->buf, sizeof(payload->buf), &payload->used),
			 ARCHIVE_OK);
	add_trees(payload, trees);
	writer_close(payload);
	memcpy(all, LEAD, sizeof(LEAD));
	memcpy(all + sizeof(LEAD), HEADER, sizeof(HEADER));
	memcpy(all + sizeof(LEAD) + sizeof(HEADER), HEADER, sizeof(HEADER));
	memcpy(all + len, payload->buf, payload->used);
	char *path = save(folder, name, "", all, len + payload->used);
	free(payload);
	return path;
}

// What dkms packages install: Debian's, Ubuntu's and NVIDIA's .deb, the .rpm of NVIDIA's repositories and of others,
// and a tar as an .rpm unpacks.
static void test_dkms_packages(void **state)
{
	(void)state;
	static const struct {
		const char *trees[2]; // the first one is open
		const char *open, *proprietary;
	} rows[] = {
		{ { "usr/src/nvidia-current-open-535.261.03", NULL }, "usr/src/nvidia-current-open-535.261.03", NULL },
		{ { NULL, "usr/src/nvidia-535.261.03" }, NULL, "usr/src/nvidia-535.261.03" },
		{ { "usr/src/nvidia-535.261.03/kernel-open", "usr/src/nvidia-535.261.03/kernel" },
		  "usr/src/nvidia-535.261.03/kernel-open",
		  "usr/src/nvidia-535.261.03/kernel" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder folder;
		struct writer *data = mem_alloc(sizeof(*data)), *deb = mem_alloc(sizeof(*deb));
		folder_make(&folder);
		writer_open(data, false);
		add_trees(data, rows[i].trees);
		writer_close(data);
		writer_open(deb, true);
		writer_add(deb, "debian-binary", "2.0\n", 4);
		writer_add(deb, "data.tar.xz", data->buf, data->used);
		writer_close(deb);
		auto_str char *package = save(&folder, "nvidia-dkms.deb", "", deb->buf, deb->used);
		auto_str char *tar = save(&folder, "nvidia-dkms.tar.xz", "", data->buf, data->used);
		expect_source(&folder, package, rows[i].open, rows[i].proprietary);
		expect_source(&folder, tar, rows[i].open, rows[i].proprietary);
		auto_str char *rpm = save_rpm(&folder, "kmod-nvidia-dkms.rpm", rows[i].trees);
		expect_source(&folder, rpm, rows[i].open, rows[i].proprietary);
		free(data);
		free(deb);
	}
}

static void put(const struct folder *folder, const char *dir, const char *file, const char *text)
{
	auto_str char *path = str_fmt("%s/%s", dir, file), *parent = str_dup(path);
	*strrchr(parent, '/') = '\0';
	folder_dir(folder, parent);
	folder_file(folder, path, text);
}

static void put_flavour(const struct folder *folder, const char *dir, const char *licence, const char *kbuild)
{
	put(folder, dir, "Kbuild", kbuild);
	put(folder, dir, "conftest.sh", "");
	put(folder, dir, "nvidia/nv-frontend.c", licence);
	put(folder, dir, "nvidia/nv-kernel.o_binary", "");
}

static void test_directories(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	folder_make(&folder);
	put_flavour(&folder, "s/kernel-open", OPEN, KBUILD("535.261.03"));
	auto_str char *both = str_fmt("%s/s", folder.path), *one = str_fmt("%s/s/kernel-open", folder.path);
	expect_source(&folder, both, "./kernel-open", NULL);
	expect_source(&folder, one, ".", NULL);
	put_flavour(&folder, "s/kernel", PROPRIETARY, KBUILD("535.261.03"));
	expect_source(&folder, both, "./kernel-open", "./kernel");
	put(&folder, "s/kernel", "Kbuild", KBUILD("470.256.02"));
	auto_source struct source s = { .root = ROOT_NONE };
	assert_int_equal(try(&folder, both, NULL, &s), E_SOURCE);
}

// Debian's packages before 470.
static void test_core_of_architecture(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	auto_source struct source less = { .root = ROOT_NONE };
	struct err err = { 0 };
	folder_make(&folder);
	put_flavour(&folder, "s", PROPRIETARY, KBUILD("535.261.03"));
	assert_int_equal(root_unlink(&folder.root, "s/nvidia/nv-kernel.o_binary", &err), 1);
	auto_str char *path = str_fmt("%s/s", folder.path);
	assert_int_equal(try(&folder, path, NULL, &less), E_SOURCE);
	put(&folder, "s", "nvidia/nv-kernel-amd64.o_binary", "");
	expect_source(&folder, path, NULL, ".");
}

// NVIDIA's open source release, as its own Makefile leaves it: the flavour's directory is of use without the rest.
static void test_linked_core(void **state)
{
	(void)state;
	static const char CORE[] = "r/kernel-open/nvidia/nv-kernel.o_binary",
			  MODESET[] = "r/kernel-open/nvidia-modeset/nv-modeset-kernel.o_binary";
	auto_folder struct folder folder;
	struct err err = { 0 };
	folder_make(&folder);
	put_flavour(&folder, "r/kernel-open", OPEN, KBUILD("535.261.03"));
	put(&folder, "r/kernel-open", "nvidia-modeset/nvidia-modeset.Kbuild", "");
	assert_int_equal(root_unlink(&folder.root, CORE, &err), 1);
	folder_link(&folder, "../../src/nvidia/_out/Linux_x86_64/nv-kernel.o", CORE);
	folder_link(&folder, "../../src/nvidia-modeset/_out/Linux_x86_64/nv-modeset-kernel.o", MODESET);
	auto_str char *path = str_fmt("%s/r", folder.path), *inner = str_fmt("%s/r/kernel-open", folder.path);
	for (int step = 0; step < 2; step++) { // nothing is compiled; the first core is
		auto_source struct source s = { .root = ROOT_NONE };
		auto_root struct root work = ROOT_NONE;
		folder_dir(&folder, "work");
		assert_int_equal(root_sub(&folder.root, "work", &work, &err), 0);
		if (step == 1)
			put(&folder, "r/src/nvidia/_out/Linux_x86_64", "nv-kernel.o", "core");
		assert_int_equal(source_open(path, NULL, &work, &s, &err), -1);
		assert_int_equal(err.code, E_SOURCE);
		const char *missing = step ? "dangling link for nvidia-modeset/" : "dangling link for nvidia/";
		assert_non_null(strstr(err.text, missing));
		assert_non_null(strstr(err.text, "pass the directory that has its Makefile, kernel-open/ and src/"));
	}
	put(&folder, "r/src/nvidia-modeset/_out/Linux_x86_64", "nv-modeset-kernel.o", "modeset");
	expect_source(&folder, path, "./kernel-open", NULL);
	auto_source struct source s = { .root = ROOT_NONE };
	assert_int_equal(try(&folder, path, NULL, &s), 0);
	auto_root struct root alone = ROOT_NONE; // as the compile sees it
	auto_str char *core = NULL, *modeset = NULL;
	assert_int_equal(root_sub(&s.root, s.dirs[MODULE_TYPE_OPEN], &alone, &err), 0);
	assert_int_equal(root_read(&alone, "nvidia/nv-kernel.o_binary", &core, NULL, &err), 1);
	assert_int_equal(root_read(&alone, "nvidia-modeset/nv-modeset-kernel.o_binary", &modeset, NULL, &err), 1);
	assert_string_equal(core, "core");
	assert_string_equal(modeset, "modeset");
	assert_false(root_exists(&s.root, "src"));
	auto_source struct source cut_off = { .root = ROOT_NONE }; // the links lead out of what was given
	assert_int_equal(try(&folder, inner, NULL, &cut_off), E_SOURCE);
}

// As it is published: with src/ and NVIDIA's Makefiles the core can be compiled, also what a link only promises. A
// module that the source does not have needs none.
static void test_published_release(void **state)
{
	(void)state;
	static const char CORE[] = "r/top/kernel-open/nvidia/nv-kernel.o_binary",
			  MODESET[] = "r/top/kernel-open/nvidia-modeset/nv-modeset-kernel.o_binary";
	static const char *const parts[] = { "Makefile", "utils.mk", "version.mk", "src/nvidia/Makefile" };
	auto_folder struct folder folder;
	struct err err = { 0 };
	folder_make(&folder);
	auto_str char *path = str_fmt("%s/r", folder.path), *inner = str_fmt("%s/r/top/kernel-open", folder.path);
	put_flavour(&folder, "r/top/kernel-open", OPEN, KBUILD("595.45.04"));
	assert_int_equal(root_unlink(&folder.root, CORE, &err), 1);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		auto_source struct source less = { .root = ROOT_NONE };
		assert_int_equal(try(&folder, path, NULL, &less), E_SOURCE);
		put(&folder, "r/top", parts[i], "");
	}
	auto_source struct source alone = { .root = ROOT_NONE };
	assert_int_equal(try(&folder, inner, NULL, &alone), E_SOURCE);
	for (int step = 0; step < 4; step++) {
		auto_source struct source s = { .root = ROOT_NONE };
		if (step == 1) // the core of nvidia is there, and nothing else is needed
			put(&folder, "r/top/kernel-open", "nvidia/nv-kernel.o_binary", "core");
		if (step == 2)
			put(&folder, "r/top/kernel-open", "nvidia-modeset/nvidia-modeset.Kbuild", "");
		if (step == 3)
			folder_link(&folder, "../../src/nvidia-modeset/_out/nv-modeset-kernel.o", MODESET);
		assert_int_equal(try(&folder, path, NULL, &s), 0);
		assert_string_equal(s.dirs[MODULE_TYPE_OPEN], "./top/kernel-open");
		if (step == 1)
			assert_null(s.release);
		else
			assert_string_equal(s.release, "./top");
	}
}

// Two clones of one commit are one source.
static void test_checkout_digest(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	char one[DIGEST_HEX + 1], two[DIGEST_HEX + 1], other[DIGEST_HEX + 1];
	struct err err;
	folder_make(&folder);
	put_flavour(&folder, "s/kernel-open", OPEN, KBUILD("535.261.03"));
	put(&folder, "s/.git", "index", "one");
	auto_str char *path = str_fmt("%s/s", folder.path);
	assert_int_equal(source_digest(path, NULL, one, &err), 0);
	put(&folder, "s/.git", "index", "two");
	assert_int_equal(source_digest(path, NULL, two, &err), 0);
	put(&folder, "s/kernel-open", ".git/index", "of the source");
	assert_int_equal(source_digest(path, NULL, other, &err), 0);
	assert_string_equal(one, two);
	assert_string_not_equal(one, other);
	auto_source struct source s = { .root = ROOT_NONE };
	assert_int_equal(try(&folder, path, other, &s), 0); // a copy of it has the same
}

// What is compiled has the digest that was demanded, whatever becomes of the directory meanwhile.
static void test_pinned_directory(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	auto_source struct source s = { .root = ROOT_NONE };
	char digest[DIGEST_HEX + 1];
	auto_str char *text = NULL;
	struct err err;
	folder_make(&folder);
	put_flavour(&folder, "s/kernel-open", OPEN, KBUILD("535.261.03"));
	auto_str char *path = str_fmt("%s/s", folder.path);
	assert_int_equal(source_digest(path, NULL, digest, &err), 0);
	assert_int_equal(try(&folder, path, digest, &s), 0);
	put(&folder, "s/kernel-open", "conftest.sh", "evil\n");
	assert_int_equal(root_read(&s.root, "kernel-open/conftest.sh", &text, NULL, &err), 1);
	assert_null(strstr(text, "evil"));
}

// Somebody writes to an archive all the time, now these bytes, now others: it is refused, or it is what was pinned.
static void test_pinned_archive(void **state)
{
	(void)state;
	static const char *const licences[] = { OPEN, OPEN "// evil\n" };
	enum { BYTES = 8192, TRIES = 300 };
	static char texts[2][BYTES];
	auto_folder struct folder folder;
	auto_str char *path = NULL;
	char digest[DIGEST_HEX + 1];
	folder_make(&folder);
	for (size_t i = 0; i < 2; i++) {
		struct writer w = { 0 };
		writer_open(&w, false);
		add_flavour(&w, "s/kernel-open", licences[i], KBUILD("535.261.03"));
		writer_close(&w);
		assert_true(w.used <= BYTES);
		memcpy(texts[i], w.buf, w.used); // zeros behind an xz stream are padding
	}
	path = save(&folder, "s.tar.xz", "", texts[0], BYTES);
	digest_data(texts[0], BYTES, digest);
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		int fd = open(path, O_WRONLY);
		for (unsigned i = 0;; i++)
			if (pwrite(fd, texts[i % 2], BYTES, 0) != BYTES)
				_exit(1);
	}
	size_t taken = 0;
	for (int i = 0; i < TRIES; i++) {
		auto_source struct source s = { .root = ROOT_NONE };
		auto_str char *text = NULL;
		struct err err;
		int code = try(&folder, path, digest, &s);
		if (code == E_DIGEST)
			continue;
		assert_int_equal(code, 0);
		assert_int_equal(root_read(&s.root, "s/kernel-open/nvidia/nv-frontend.c", &text, NULL, &err), 1);
		assert_string_equal(text, OPEN);
		taken++;
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_true(taken > 0);
}

static void test_refusals(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	auto_source struct source s = { .root = ROOT_NONE };
	folder_make(&folder);
	folder_dir(&folder, "empty");
	put_flavour(&folder, "github/kernel-open", OPEN, KBUILD("535.261.03"));
	struct err err;
	assert_int_equal(root_unlink(&folder.root, "github/kernel-open/nvidia/nv-kernel.o_binary", &err), 1);
	static const char binary[] = "\x7f"
				     "ELF no archive";
	auto_str char *empty = str_fmt("%s/empty", folder.path), *absent = str_fmt("%s/absent", folder.path),
		      *github = str_fmt("%s/github", folder.path),
		      *elf = save(&folder, "elf", "", binary, sizeof(binary)),
		      *script = save(&folder, "script.run", "#!/bin/sh\nexit 0\n", "", 0);
	assert_int_equal(try(&folder, empty, NULL, &s), E_SOURCE);
	assert_int_equal(try(&folder, absent, NULL, &s), ENOENT);
	assert_int_equal(try(&folder, github, NULL, &s), E_SOURCE);
	assert_int_equal(try(&folder, elf, NULL, &s), E_ARCHIVE);
	assert_int_equal(try(&folder, script, NULL, &s), E_SOURCE);
	char hex[DIGEST_HEX + 1];
	digest_data("other", 5, hex);
	assert_int_equal(try(&folder, script, hex, &s), E_DIGEST);
	digest_data(binary, sizeof(binary), hex);
	assert_int_equal(try(&folder, elf, hex, &s), E_ARCHIVE);
}

// R-P10
static void test_module_sets(void **state)
{
	(void)state;
	static const struct {
		const char *request, *set;
	} rows[] = {
		{ "", "nvidia,nvidia-uvm,nvidia-modeset,nvidia-drm" },
		{ "uvm", "nvidia,nvidia-uvm" },
		{ "nvidia-drm,uvm", "nvidia,nvidia-uvm,nvidia-modeset,nvidia-drm" },
		{ "modeset,nvidia,modeset", "nvidia,nvidia-modeset" },
		{ "peermem", NULL },
		{ "nouveau", NULL },
	};
	auto_folder struct folder folder;
	folder_make(&folder);
	put(&folder, "nvidia", "nvidia.Kbuild", "include x\n");
	put(&folder, "nvidia", "nvidia-sources.Kbuild", "NVIDIA_SOURCES ?=\nNVIDIA_SOURCES += nvidia/nv.c \n");
	put(&folder, "nvidia-uvm", "nvidia-uvm.Kbuild", "");
	put(&folder, "nvidia-modeset", "nvidia-modeset.Kbuild",
	    "NVIDIA_MODESET_SOURCES = a.c\nNVIDIA_MODESET_SOURCES += b.c\n");
	put(&folder, "nvidia-drm", "nvidia-drm.Kbuild", "# NVIDIA_DRM_SOURCES += gone.c\n");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_strv struct strv request = { 0 };
		auto_strv struct strv set = { 0 };
		struct err err = { 0 };
		strv_split(&request, rows[i].request, ",");
		int r = recipe_modules(&folder.root, &request, &set, &err);
		auto_str char *text = strv_join(&set, ",");
		expect(rows[i].set ? r == 0 && str_eq(text, rows[i].set) : r < 0 && err.code == E_USAGE,
		       rows[i].request);
		if (!*rows[i].request)
			assert_int_equal(recipe_objects(&folder.root, &set), 3);
	}
}

static void test_newer_kernels(void **state)
{
	(void)state;
	static const char newer[] = "newer than any kernel this driver was compiled for here: ";
	static const struct {
		const char *driver, *release, *newest; // NULL = the kernel is not newer
	} rows[] = {
		{ "535.261.03", "6.1.0-56-cloud-amd64", NULL },
		{ "535.261.03", "7.3.4+deb13-cloud-amd64", NULL },
		{ "535.261.03", "7.4.0-rc3-amd64", "7.3" },
		{ "535.261.03", "8.0.0", "7.3" },
		{ "610.1.01", "7.4.0", "7.3" },
		{ "570.211.01", "6.12.117+deb12-cloud-amd64", NULL },
		{ "570.211.01", "6.18.2", "6.12" },
		{ "470.256.02", "7.0.1", "6.12" },
		{ "525.147.05", "7.2.13", NULL },
		{ "535.261.03", "not a release", NULL },
		{ "535.261.03", "7", NULL },
		{ "535.261.03", "7.", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *text = recipe_newer_kernel(rows[i].driver, rows[i].release);
		expect(rows[i].newest ? str_starts(text, newer) && str_ends(text, rows[i].newest) : !text,
		       rows[i].release);
	}
	auto_str char *any = recipe_newer_kernel(NULL, "7.4.0");
	assert_string_equal(any, "newer than any kernel a driver was compiled for here: 7.3");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_run_files),         cmocka_unit_test(test_debian_package),
		cmocka_unit_test(test_dkms_packages),     cmocka_unit_test(test_linked_core),
		cmocka_unit_test(test_published_release), cmocka_unit_test(test_checkout_digest),
		cmocka_unit_test(test_directories),       cmocka_unit_test(test_core_of_architecture),
		cmocka_unit_test(test_pinned_directory),  cmocka_unit_test(test_pinned_archive),
		cmocka_unit_test(test_refusals),          cmocka_unit_test(test_module_sets),
		cmocka_unit_test(test_newer_kernels),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
