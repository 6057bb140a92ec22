// SPDX-License-Identifier: Apache-2.0
// A machine with state in var/, an image in boot/vmlinuz, and what the running kernel says of itself in
// sys/kernel/notes.
#include "base/file/digest.h"
#include "kmod/module/vmlinuz_cache.h"
#include "kmod/sandbox/jail.h"
#include "tests/unit/forge.h"
#include "tests/unit/test.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>

#define STATE "var"
#define ENTRIES STATE "/cache/kernels"

static const char ID[] = "aaaaaaaaaaaaaaaaaaaa", OTHER[] = "bbbbbbbbbbbbbbbbbbbb";
#define HEX20(two) two two two two two two two two two two two two two two two two two two two two
#define ENTRY ENTRIES "/build-id-" HEX20("61")

struct machine {
	struct folder folder;
	struct root state;
};

static void write_bytes(const struct machine *m, const char *path, const void *data, size_t len)
{
	auto_str char *full = str_fmt("%s/%s", m->folder.path, path);
	auto_fd int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0 && write(fd, data, len) == (ssize_t)len);
}

static char *read_bytes(const struct machine *m, const char *path, size_t *ret_len)
{
	struct err err;
	char *data = NULL;
	if (root_read(&m->folder.root, path, &data, ret_len, &err) <= 0)
		fail_msg("'%s' is absent", path);
	return data;
}

// crc tells one build of the same release from another. id NULL: none.
static void put_image(const struct machine *m, const char *release, uint32_t crc, const char *id)
{
	const struct forge_symver exports[] = { { "kfree", crc, NULL, false },
						{ "memcpy", 0, NULL, false },
						{ "dma_buf_get", 7, "DMA_BUF", true },
						{ 0 } };
	size_t len;
	auto_str char *banner = str_fmt("Linux version %s (me@there) (gcc) #1 SMP\n", release);
	auto_str char *data = forge_vmlinux_as(banner, exports, true, false, id, &len);
	write_bytes(m, "boot/vmlinuz", data, len);
}

static void run_kernel(const struct machine *m, const char *id)
{
	char notes[FORGE_NOTES];
	forge_notes(id, notes);
	write_bytes(m, "sys/kernel/notes", notes, sizeof(notes));
}

static void machine_make(struct machine *m)
{
	struct err err;
	folder_make(&m->folder);
	folder_dir(&m->folder, "boot");
	folder_dir(&m->folder, "sys/kernel");
	folder_dir(&m->folder, STATE);
	assert_int_equal(root_sub(&m->folder.root, STATE, &m->state, &err), 0);
	put_image(m, "6.1.0-9", 5, ID);
	run_kernel(m, ID);
}

static void machine_done(struct machine *m)
{
	root_done(&m->state);
	folder_done(&m->folder);
}
#define auto_machine __attribute__((cleanup(machine_done)))

static size_t entries(const struct machine *m)
{
	struct err err;
	auto_strv struct strv names = { 0 };
	root_list(&m->folder.root, ENTRIES, &names, &err);
	return names.count;
}

// Reads the image and compares with what it has: 1 = from an entry, 0 = from the image.
static int read_image(const struct machine *m, bool is_running, uint32_t crc)
{
	struct err err = { 0 };
	auto_vmlinuz struct vmlinuz v = { 0 };
	auto_fd int fd = root_open(&m->folder.root, "boot/vmlinuz", O_RDONLY, &err);
	int r = vmlinuz_cache_read(&m->state, is_running ? &m->folder.root : NULL, fd, "vmlinuz", &v, &err);
	if (r < 0)
		fail_msg("%s", err.text);
	assert_string_equal(v.release, "6.1.0-9");
	assert_string_equal(v.banner, "Linux version 6.1.0-9 (me@there) (gcc) #1 SMP");
	assert_int_equal(v.machine, EM_X86_64);
	assert_true(v.has_crcs);
	assert_int_equal(v.symvers->count, 3);
	const struct symver *s = v.symvers->items;
	assert_string_equal(s[0].name, "kfree");
	assert_true(s[0].has_crc && s[0].crc == crc && !s[0].is_gpl && !*s[0].namespace);
	assert_string_equal(s[1].name, "memcpy");
	assert_true(!s[1].has_crc && s[1].crc == 0);
	assert_string_equal(s[2].name, "dma_buf_get");
	assert_true(s[2].crc == 7 && s[2].is_gpl && str_eq(s[2].namespace, "DMA_BUF"));
	for (size_t i = 0; i < 3; i++)
		assert_string_equal(s[i].owner, "vmlinux");
	return r;
}

static void test_second_time(void **state)
{
	(void)state;
	auto_machine struct machine m;
	struct stat st;
	struct err err;
	machine_make(&m);
	assert_int_equal(read_image(&m, true, 5), 0);
	assert_int_equal(read_image(&m, true, 5), 1);
	assert_int_equal(root_stat(&m.folder.root, ENTRY, &st, &err), 1);
	assert_int_equal(st.st_mode & 07777, 0600);
	// Another kernel's image, by its digest: its build id is nobody's word.
	assert_int_equal(read_image(&m, false, 5), 0);
	assert_int_equal(read_image(&m, false, 5), 1);
	assert_int_equal(entries(&m), 2);
}

// The machine runs one build; the file is replaced by another one of the same release.
static void test_rebuilt_kernel(void **state)
{
	(void)state;
	auto_machine struct machine m;
	machine_make(&m);
	assert_int_equal(read_image(&m, true, 5), 0);
	put_image(&m, "6.1.0-9", 6, OTHER);
	assert_int_equal(read_image(&m, true, 5), 1); // what runs is the old one
	assert_int_equal(read_image(&m, false, 6), 0);
	run_kernel(&m, OTHER);
	assert_int_equal(read_image(&m, true, 6), 0);
	assert_int_equal(read_image(&m, true, 6), 1);
	assert_int_equal(read_image(&m, false, 6), 1);
}

// Nothing is kept under the running kernel's build id of an image that has another one, or none.
static void test_image_of_another_build(void **state)
{
	(void)state;
	static const char *const ids[] = { OTHER, NULL };
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		auto_machine struct machine m;
		machine_make(&m);
		put_image(&m, "6.1.0-9", 6, ids[i]);
		assert_int_equal(read_image(&m, true, 6), 0);
		assert_int_equal(entries(&m), 0);
		put_image(&m, "6.1.0-9", 5, ID);
		assert_int_equal(read_image(&m, true, 5), 0);
		assert_int_equal(read_image(&m, true, 5), 1);
	}
}

// An image without symbols is read anew: an entry would have no more to say than its name.
static void test_arm64_image(void **state)
{
	(void)state;
	struct err err;
	size_t len;
	auto_machine struct machine m;
	machine_make(&m);
	auto_str char *image = forge_arm64_image("Linux version 6.1.0-9 (me@there) (gcc) #1 SMP\n", &len);
	write_bytes(&m, "boot/vmlinuz", image, len);
	for (int i = 0; i < 4; i++) {
		auto_vmlinuz struct vmlinuz v = { 0 };
		auto_fd int fd = root_open(&m.folder.root, "boot/vmlinuz", O_RDONLY, &err);
		const struct root *kern = i % 2 ? &m.folder.root : NULL;
		assert_int_equal(vmlinuz_cache_read(&m.state, kern, fd, "vmlinuz", &v, &err), 0);
		assert_string_equal(v.release, "6.1.0-9");
		assert_null(v.symvers);
	}
	assert_int_equal(entries(&m), 0);
}

// A kernel that says nothing of itself, or something else, is known by the digest of its image.
static void test_no_build_id(void **state)
{
	(void)state;
	static const struct {
		const char *bytes;
		size_t len;
	} rows[] = { { "", 0 },
		     { "\4\0\0\0", 4 },
		     { "\4\0\0\0\24\0\0\0\3\0\0\0GNU\0short", 21 },
		     { "\377\377\377\377\377\377\377\377\3\0\0\0GNU\0", 16 },
		     { "\4\0\0\0\4\0\0\0\3\0\0\0GNU\0abcd", 20 } }; // chosen by hand: --build-id=0x61626364
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_machine struct machine m;
		auto_str char *row = str_fmt("notes %zu", i);
		machine_make(&m);
		write_bytes(&m, "sys/kernel/notes", rows[i].bytes, rows[i].len);
		expect(read_image(&m, true, 5) == 0, row);
		expect(read_image(&m, true, 5) == 1, row);
		put_image(&m, "6.1.0-9", 6, ID);
		expect(read_image(&m, true, 6) == 0, row);
	}
}

static void test_damaged_entry(void **state)
{
	(void)state;
	auto_machine struct machine m;
	machine_make(&m);
	assert_int_equal(read_image(&m, true, 5), 0);
	size_t len, unused;
	auto_str char *good = read_bytes(&m, ENTRY, &len);
	for (size_t i = 0; i < len; i++) {
		good[i] ^= 1;
		write_bytes(&m, ENTRY, good, len);
		good[i] ^= 1;
		assert_int_equal(read_image(&m, true, 5), 0);
	}
	for (size_t i = 0; i < len; i++) {
		write_bytes(&m, ENTRY, good, i);
		assert_int_equal(read_image(&m, true, 5), 0);
	}
	// It is replaced each time.
	auto_str char *again = read_bytes(&m, ENTRY, &unused);
	assert_string_equal(again, good);
	assert_int_equal(entries(&m), 1);
	auto_str char *longer = str_fmt("%s0x00000001\tevil\tvmlinux\tEXPORT_SYMBOL\t\n", good);
	write_bytes(&m, ENTRY, longer, strlen(longer));
	assert_int_equal(read_image(&m, true, 5), 0);
}

// With a correct digest, but not what this version would have written for this kernel.
static void test_foreign_entry(void **state)
{
	(void)state;
	static const struct {
		const char *what, *of, *with;
	} rows[] = {
		{ "another version of this program", "image " KMODSMITH_VERSION ".", "image 0.0.9." },
		{ "another format", KMODSMITH_VERSION ".1 ", KMODSMITH_VERSION ".0 " },
		{ "another kernel's entry under this name", "build-id-6", "build-id-7" },
		{ "no machine", "+62", "+x" },
		{ "a line that is no symbol", "EXPORT_SYMBOL_GPL", "SOMETHING" },
		{ "nothing below the head", "\nbuild-id-", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_machine struct machine m;
		char hex[DIGEST_HEX + 1];
		size_t len;
		machine_make(&m);
		assert_int_equal(read_image(&m, true, 5), 0);
		auto_str char *good = read_bytes(&m, ENTRY, &len);
		size_t of = strlen(rows[i].of), at = 0;
		while (at < len && !str_starts(good + at, rows[i].of))
			at++;
		expect(at < len, rows[i].what);
		auto_str char *bad = str_fmt("%.*s%s%s", (int)at, good, rows[i].with ? rows[i].with : "\n",
					     rows[i].with ? good + at + of : "");
		char *body = strchr(bad, '\n') + 1;
		digest_data(body, strlen(body), hex);
		memcpy(body - 1 - DIGEST_HEX, hex, DIGEST_HEX);
		write_bytes(&m, ENTRY, bad, strlen(bad));
		expect(read_image(&m, true, 5) == 0, rows[i].what);
	}
}

// Somebody else could have the proof say anything.
static void test_foreign_file(void **state)
{
	(void)state;
	auto_machine struct machine m;
	machine_make(&m);
	assert_int_equal(read_image(&m, true, 5), 0);
	auto_str char *full = str_fmt("%s/" ENTRY, m.folder.path), *moved = str_fmt("%s/elsewhere", m.folder.path);
	assert_int_equal(chmod(full, 0620), 0);
	assert_int_equal(read_image(&m, true, 5), 0); // which makes its own
	assert_int_equal(read_image(&m, true, 5), 1);
	if (chown(full, 1, -1) == 0)
		assert_int_equal(read_image(&m, true, 5), 0);
	assert_int_equal(rename(full, moved), 0);
	assert_int_equal(symlink(moved, full), 0);
	assert_int_equal(read_image(&m, true, 5), 0);
	assert_int_equal(unlink(full), 0);
	assert_int_equal(mkfifo(full, 0600), 0);
	assert_int_equal(read_image(&m, true, 5), 0);
	assert_int_equal(read_image(&m, true, 5), 1);
	assert_int_equal(unlink(full), 0);
	assert_int_equal(mkdir(full, 0700), 0);
	assert_int_equal(read_image(&m, true, 5), 0);
}

static void test_bounded(void **state)
{
	(void)state;
	auto_machine struct machine m;
	struct err err;
	machine_make(&m);
	folder_dir(&m.folder, ENTRIES);
	folder_file(&m.folder, ENTRIES "/.build-id-1.4711.tmp", "killed while it was written");
	for (int i = 0; i < 2 * VMLINUZ_CACHE_MOST; i++) {
		char id[21];
		snprintf(id, sizeof(id), "%020d", i);
		put_image(&m, "6.1.0-9", 100 + (uint32_t)i, id);
		run_kernel(&m, id);
		assert_int_equal(read_image(&m, true, 100 + (uint32_t)i), 0);
		struct timespec next = { 0, 10000000 }; // a later time of change
		nanosleep(&next, NULL);
	}
	assert_int_equal(entries(&m), VMLINUZ_CACHE_MOST);
	assert_false(root_exists(&m.folder.root, ENTRIES "/.build-id-1.4711.tmp"));
	for (int i = VMLINUZ_CACHE_MOST; i < 2 * VMLINUZ_CACHE_MOST; i++) {
		char id[21];
		snprintf(id, sizeof(id), "%020d", i);
		run_kernel(&m, id);
		assert_int_equal(read_image(&m, true, 100 + (uint32_t)i), 1);
	}
	run_kernel(&m, "00000000000000000000");
	auto_fd int fd = root_open(&m.folder.root, "boot/vmlinuz", O_RDONLY, &err);
	auto_vmlinuz struct vmlinuz v = { 0 };
	assert_int_equal(vmlinuz_cache_read(&m.state, &m.folder.root, fd, "vmlinuz", &v, &err), 0);
}

// A name that would be two lines of an entry.
static void test_image_that_cannot_be_written_down(void **state)
{
	(void)state;
	static const struct forge_symver exports[] = { { "kfree\tvmlinux\n0x1\tevil", 5, NULL, false }, { 0 } };
	auto_machine struct machine m;
	struct err err;
	size_t len;
	machine_make(&m);
	auto_str char *data = forge_vmlinux_as("Linux version 6.1 (me) #1\n", exports, true, false, ID, &len);
	write_bytes(&m, "boot/vmlinuz", data, len);
	auto_fd int fd = root_open(&m.folder.root, "boot/vmlinuz", O_RDONLY, &err);
	auto_vmlinuz struct vmlinuz v = { 0 };
	assert_int_equal(vmlinuz_cache_read(&m.state, &m.folder.root, fd, "vmlinuz", &v, &err), 0);
	assert_int_equal(entries(&m), 0);
}

// In a mount namespace of a child: a state directory that is read-only, or on a disk that is nearly full.
static void test_disk(void **state)
{
	(void)state;
	static const struct {
		const char *type, *options;
		unsigned long flags;
	} rows[] = { { "tmpfs", "size=1M", 0 }, { "tmpfs", "size=128M", MS_RDONLY } };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_machine struct machine m;
		machine_make(&m);
		pid_t child = fork();
		assert_true(child >= 0);
		if (child == 0) {
			auto_str char *dir = str_fmt("%s/" STATE, m.folder.path);
			struct err err;
			if (unshare(CLONE_NEWNS) < 0 || sandbox_make_private() < 0 ||
			    mount("none", dir, rows[i].type, rows[i].flags, rows[i].options) < 0)
				_exit(77);
			root_done(&m.state);
			root_done(&m.folder.root); // in the namespace of before
			if (root_init(&m.folder.root, m.folder.path, &err) < 0 ||
			    root_sub(&m.folder.root, STATE, &m.state, &err) < 0)
				_exit(1);
			_exit(read_image(&m, true, 5) == 0 && read_image(&m, true, 5) == 0 && entries(&m) == 0 ? 0 : 1);
		}
		int status;
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFEXITED(status));
		if (WEXITSTATUS(status) == 77) {
			machine_done(&m);
			skip();
		}
		assert_int_equal(WEXITSTATUS(status), 0);
	}
}

// Where a file has to be made, there is something else; and no state directory at all.
static void test_unusable_state(void **state)
{
	(void)state;
	struct err err;
	auto_machine struct machine m;
	machine_make(&m);
	folder_file(&m.folder, STATE "/cache", "a file");
	assert_int_equal(read_image(&m, true, 5), 0);
	assert_int_equal(read_image(&m, false, 5), 0);
	root_done(&m.state);
	m.state = ROOT_NONE;
	assert_int_equal(read_image(&m, true, 5), 0);
	auto_vmlinuz struct vmlinuz v = { 0 };
	auto_fd int fd = root_open(&m.folder.root, "boot/vmlinuz", O_RDONLY, &err);
	assert_int_equal(vmlinuz_cache_read(NULL, &m.folder.root, fd, "vmlinuz", &v, &err), 0);
	folder_file(&m.folder, "boot/vmlinuz", "MZ");
	auto_fd int bad = root_open(&m.folder.root, "boot/vmlinuz", O_RDONLY, &err);
	auto_vmlinuz struct vmlinuz none = { 0 };
	assert_int_equal(vmlinuz_cache_read(NULL, &m.folder.root, bad, "vmlinuz", &none, &err), -1);
	assert_int_equal(err.code, E_ELF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_second_time),
		cmocka_unit_test(test_rebuilt_kernel),
		cmocka_unit_test(test_image_of_another_build),
		cmocka_unit_test(test_arm64_image),
		cmocka_unit_test(test_no_build_id),
		cmocka_unit_test(test_damaged_entry),
		cmocka_unit_test(test_foreign_entry),
		cmocka_unit_test(test_foreign_file),
		cmocka_unit_test(test_bounded),
		cmocka_unit_test(test_image_that_cannot_be_written_down),
		cmocka_unit_test(test_disk),
		cmocka_unit_test(test_unusable_state),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
