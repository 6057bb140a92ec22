// SPDX-License-Identifier: Apache-2.0
// modprobe.d as modprobe itself reads it, of a host that is a directory.
#include "kmod/load/host_modules.h"
#include "kmod/load/modprobe_text.h"

#include "tests/unit/tempdir.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

// "MODULE WORD FILE" a line, then the blacklist, then "; " and what the kernel forbids.
static char *read_host(const struct folder *t)
{
	struct err err = { 0 };
	auto_host_modules struct host_modules m = { 0 };
	if (host_modules_read(&t->root, &t->root, &m, &err) < 0)
		fail_msg("%s", err.text);
	char *text = str_dup("");
	for (size_t i = 0; i < m.count; i++)
		str_add(&text, "%s %s %s\n", m.params[i].module, m.params[i].word,
			m.params[i].where ? m.params[i].where : "-");
	auto_str char *blacklist = strv_join(&m.blacklist, " ");
	str_add(&text, "%s", blacklist);
	auto_str char *forbidden = strv_join(&m.forbidden, " ");
	str_add(&text, "%s%s", m.forbidden.count ? "; " : "", forbidden);
	return text;
}

#define FILE_A "etc/modprobe.d/a.conf"
#define IN_A " " FILE_A "\n"

// The same of the text of FILE_A, as the static program reads it: of installs the first of a name, of aliases those
// that are off.
static char *read_text(const char *text)
{
	auto_str char *copy = str_dup(text);
	auto_strv struct strv blacklist = { 0 }, installs = { 0 }, idle = { 0 }, aliases = { 0 };
	char *ret = str_dup(""), *rest = copy;
	for (struct modprobe_line line; modprobe_text_next(&rest, &line);) {
		if (line.verb == MODPROBE_BLACKLIST)
			strv_add(&blacklist, str_dup(line.module));
		if (line.verb == MODPROBE_ALIAS && str_eq(line.words, "off"))
			strv_add(&aliases, str_dup(line.module));
		if (line.verb == MODPROBE_INSTALL && !strv_has(&installs, line.module)) {
			auto_str char *command = str_dup(line.words);
			strv_add(&installs, str_dup(line.module));
			const char *program = str_trim(command);
			if (str_ends(program, "/false") && !strpbrk(program, " \t"))
				strv_add(&idle, str_dup(line.module));
		}
		for (char *word; line.verb == MODPROBE_OPTIONS && (word = host_modules_next_word(&line.words));
		     free(word))
			str_add(&ret, "%s %s" IN_A, line.module, word);
	}
	for (size_t i = 0; i < idle.count; i++)
		strv_add(&blacklist, str_dup(idle.items[i]));
	for (size_t i = 0; i < aliases.count; i++)
		strv_add(&blacklist, str_dup(aliases.items[i]));
	auto_str char *names = strv_join(&blacklist, " ");
	str_add(&ret, "%s", names);
	return ret;
}

static void test_lines(void **state)
{
	(void)state;
	static const struct {
		const char *text, *want;
	} rows[] = {
		{ "", "" },
		{ "\n\n", "" },
		{ "options nvidia-drm modeset=1 fbdev", "nvidia_drm modeset=1" IN_A "nvidia_drm fbdev" IN_A },
		{ "options nvidia A=\"x y\"\tB=2\r\nblacklist nova-core\r\n",
		  "nvidia A=x y" IN_A "nvidia B=2" IN_A "nova_core" },
		{ "options nvidia A=1 \\\n  B=2 \\", "nvidia A=1" IN_A "nvidia B=2" IN_A }, // the end joins nothing
		{ "options nvidia A=1\\\nB=2\n", "nvidia A=1B=2" IN_A }, // a line that goes on has no blank
		{ "  # options nvidia A=1\n#\noptions nvidia B=2 # C=3\n",
		  "nvidia B=2" IN_A "nvidia #" IN_A "nvidia C=3" IN_A },
		{ "options nvidia A=1\noptions nvidia A=2\n", "nvidia A=1" IN_A "nvidia A=2" IN_A },
		// What leads modprobe to a module or away from it.
		{ "alias gpu nvidia\noptions gpu A=1\n", "gpu A=1" IN_A },
		{ "softdep nvidia pre: ipmi_msghandler post: nvidia-uvm\noptions nvidia A=1\n", "nvidia A=1" IN_A },
		{ "install nvidia /sbin/modprobe -i nvidia\nremove nvidia /bin/false\nblacklist nvidia\n", "nvidia" },
		// What others write for a blacklist.
		{ "install nvidia /bin/false", "nvidia" },
		{ "install nvidia-drm  /bin/false \ninstall nvidia-drm /bin/false", "nvidia_drm" },
		{ "install nvidia modprobe -i nvidia\ninstall nvidia /bin/false", "" }, // the first one counts
		{ "install nvidia\ninstall nvidia \ninstall\n", "" },
		{ "alias nvidia off\nalias nvidia-drm off x\nalias gpu nvidia\nalias off\n", "nvidia nvidia_drm" },
		// Nothing that libkmod understands, before and after something that it does.
		{ "options\noptions nvidia\nblacklist\nsoftdep\n}{ \"\nblacklist a\n\1\2\377 x\nblacklist b\n", "a b" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder t;
		folder_make(&t);
		tempdir_write(&t, FILE_A, rows[i].text);
		auto_str char *got = read_host(&t), *static_got = read_text(rows[i].text);
		assert_string_equal(got, rows[i].want);
		assert_string_equal(static_got, rows[i].want);
	}
}

static size_t next_number(uint32_t *seed) // the same in each run
{
	*seed = *seed * 1103515245U + 12345;
	return *seed >> 16;
}

// What nobody would write: libkmod decides what it means.
static void test_the_static_program_reads_as_libkmod_does(void **state)
{
	(void)state;
	static const char *const pieces[] = {
		"\noptions ",
		"\nblacklist ",
		"\noptions a-b ",
		"options",
		"a-b",
		"x[-]",
		"]",
		"[",
		"-",
		"#",
		"\\",
		"\\\n",
		"\n",
		"\r\n",
		" ",
		" ",
		"\t",
		"\v",
		"\"",
		"=",
		"A",
		"_",
		"\377",
		"\ninstall a-b ",
		"/bin/false",
		"\nalias ",
		"\nalias a-b ",
		" off\n",
		"\ninstall A /bin/false",
	};
	enum { TEXTS = 400, MOST = 24 };
	size_t params = 0;
	uint32_t seed = 1;
	auto_folder struct folder t;
	folder_make(&t);
	for (int i = 0; i < TEXTS; i++) {
		auto_str char *text = str_dup("");
		for (size_t n = 1 + next_number(&seed) % MOST; n; n--)
			str_add(&text, "%s", pieces[next_number(&seed) % ARRAY_SIZE(pieces)]);
		tempdir_write(&t, FILE_A, text);
		auto_str char *want = read_host(&t), *got = read_text(text);
		if (!str_eq(want, got))
			fail_msg("of this text:\n%s\nlibkmod reads:\n%s\nwe read:\n%s", text, want, got);
		params += *want != '\0';
	}
	assert_true(params > TEXTS / 4);
}

static void test_commands_that_load_nothing(void **state)
{
	(void)state;
	static const struct {
		const char *command;
		bool is_idle;
	} rows[] = {
		{ "/bin/true", true },
		{ "/usr/bin/true", true },
		{ "/usr/bin/false", true },
		{ "false", true },
		{ ":", true },
		{ "/sbin/modprobe --ignore-install nvidia $CMDLINE_OPTS", false },
		{ "/bin/true && /sbin/modprobe -i nvidia", false },
		{ "/bin/false; modprobe -i nvidia", false },
		{ "/opt/true/modprobe", false },
		{ "/usr/bin/falsehood", false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder t;
		folder_make(&t);
		auto_str char *line = str_fmt("install nvidia %s\n", rows[i].command);
		tempdir_write(&t, FILE_A, line);
		auto_str char *got = read_host(&t);
		expect(str_eq(got, rows[i].is_idle ? "nvidia" : ""), rows[i].command);
	}
}

// The kernel keeps the last one, and knows no "-" in a name; what modprobe is told is nothing to the kernel.
static void test_what_the_kernel_refuses(void **state)
{
	(void)state;
	static const char *const rows[][2] = {
		{ "module_blacklist=nvidia_uvm,nvidia", "nvidia_uvm nvidia; nvidia_uvm nvidia" },
		{ "module_blacklist=a module_blacklist=b,c", "b c; b c" },
		{ "modprobe.blacklist=nvidia", "nvidia" },
		{ "module_blacklist=\"a,b\" modprobe.blacklist=c", "c a b; a b" },
		{ "module_blacklist=", "" },
		{ "xmodule_blacklist=a", "" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder t;
		folder_make(&t);
		tempdir_write(&t, "proc/cmdline", rows[i][0]);
		auto_str char *got = read_host(&t);
		expect(str_eq(got, rows[i][1]), got);
	}
}

static void test_no_modprobe_d(void **state)
{
	(void)state;
	auto_folder struct folder t;
	folder_make(&t);
	tempdir_write(&t, "proc/cmdline", "quiet drm.debug=0x1 nvidia-uvm.x=\"a b\" module_blacklist=a,b\n");
	auto_str char *got = read_host(&t);
	assert_string_equal(got, "drm debug=0x1 -\nnvidia-uvm x=a b -\na b; a b");
}

static void test_files_in_order(void **state)
{
	(void)state;
	auto_folder struct folder t;
	folder_make(&t);
	tempdir_write(&t, "usr/lib/modprobe.d/b.conf", "blacklist b_usr\n");
	tempdir_write(&t, "lib/modprobe.d/z.conf", "blacklist z_lib\n");
	tempdir_write(&t, "run/modprobe.d/c.conf", "blacklist c_run\n");
	tempdir_write(&t, "etc/modprobe.d/c.conf", "blacklist c_etc\n");
	tempdir_write(&t, "usr/local/lib/modprobe.d/a.conf", "blacklist a_local");
	tempdir_write(&t, "etc/modprobe.d/c.conf.dpkg-old", "blacklist old\n");
	auto_str char *got = read_host(&t);
	assert_string_equal(got, "a_local b_usr c_etc z_lib");
}

static void test_links_stay_in_the_root(void **state)
{
	(void)state;
	auto_folder struct folder t;
	folder_make(&t);
	tempdir_write(&t, "outside.conf", "blacklist outside\n");
	auto_str char *outside = root_path(&t.root, "outside.conf");
	tempdir_write(&t, "etc/alternatives/glx", "blacklist inside\n");
	tempdir_link(&t, "etc/modprobe.d/nvidia.conf", "/etc/alternatives/glx");
	tempdir_link(&t, "etc/modprobe.d/absolute.conf", outside); // of the machine, where it exists
	tempdir_link(&t, "etc/modprobe.d/dotdot.conf", "../../../../../../../../../etc/alternatives/glx");
	tempdir_link(&t, "etc/modprobe.d/dangling.conf", "/nowhere");
	auto_str char *got = read_host(&t);
	assert_string_equal(got, "inside inside");
}

static void test_large_files(void **state)
{
	(void)state;
	enum { LONG = 1 << 20, LINES = 20000 };
	auto_folder struct folder t;
	auto_str char *word = mem_alloc(LONG + 1), *lines = str_dup("");
	folder_make(&t);
	memset(word, 'x', LONG);
	auto_str char *line = str_fmt("options nvidia %s", word);
	tempdir_write(&t, "etc/modprobe.d/line.conf", line);
	for (size_t i = 0; i < LINES; i++)
		str_add(&lines, "options nvidia NVreg_%zu=%040zu\n", i, i);
	tempdir_write(&t, "etc/modprobe.d/lines.conf", lines);
	struct err err;
	auto_host_modules struct host_modules m = { 0 };
	assert_int_equal(host_modules_read(&t.root, &t.root, &m, &err), 0);
	assert_int_equal(m.count, 1 + LINES);
	assert_string_equal(m.params[0].word, word);
}

// Of this machine. 0 = it was not taken for the host's, 2 = there is no right to replace it.
static int read_with_cmdline(const struct folder *t)
{
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return 2;
	auto_str char *path = root_path(&t->root, "cmdline");
	if (mount(path, "/proc/cmdline", NULL, MS_BIND, NULL) < 0)
		return 2;
	struct err err;
	auto_host_modules struct host_modules m = { 0 };
	if (host_modules_read(&t->root, &t->root, &m, &err) < 0)
		return 1;
	return m.count == 1 && str_eq(m.params[0].word, "A=1") && m.blacklist.count == 1 ? 0 : 1;
}

static void test_our_own_command_line_is_not_the_hosts(void **state)
{
	(void)state;
	int status;
	auto_folder struct folder t;
	folder_make(&t);
	tempdir_write(&t, FILE_A, "options nvidia A=1\nblacklist nouveau\n");
	tempdir_write(&t, "cmdline", "nvidia.A=2 nvidia.B=3 modprobe.blacklist=nvidia,nova_core drm.debug=1\n");
	pid_t child = fork();
	if (child == 0)
		_exit(read_with_cmdline(&t));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 2) {
		folder_done(&t);
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_commands_that_load_nothing),
		cmocka_unit_test(test_what_the_kernel_refuses),
		cmocka_unit_test(test_no_modprobe_d),
		cmocka_unit_test(test_files_in_order),
		cmocka_unit_test(test_links_stay_in_the_root),
		cmocka_unit_test(test_large_files),
		cmocka_unit_test(test_our_own_command_line_is_not_the_hosts),
		cmocka_unit_test(test_the_static_program_reads_as_libkmod_does),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
