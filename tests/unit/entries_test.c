// SPDX-License-Identifier: Apache-2.0
// What stands where files are read and is none: a mask, a directory, a FIFO, a socket, a link to itself. It stops
// nobody, nothing waits for it, and the files beside it count.
#include "base/http/http.h"
#include "base/linker/ldcache.h"
#include "devices/cdi_spec_file.h"
#include "devices/nodes.h"
#include "host/module_params.h"
#include "package_manager/package_manager_internal.h"
#include "precompiled/repository/credentials.h"
#include "precompiled/trust/trust.h"

#include "tests/unit/tempdir.h"

#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

enum kind { MASK, DIRECTORY, FIFO, SOCKET, LOOP, DANGLING, KINDS };

static const char *const words[] = {
	[MASK] = NULL,
	[DIRECTORY] = "a directory",
	[FIFO] = "a FIFO",
	[SOCKET] = "a socket",
	[LOOP] = "a link that leads back to itself",
	[DANGLING] = "a link that leads nowhere",
};

static void make_entry(const struct folder *t, const char *path, enum kind kind)
{
	auto_str char *full = str_fmt("%s/%s", t->path, path);
	tempdir_parent(t, path);
	if (kind == MASK) {
		auto_str char *null = str_fmt("%s/dev/null", t->path);
		folder_dir(t, "dev");
		mknod(null, S_IFCHR | 0666, makedev(1, 3)); // where that is not allowed, as in a copy of a machine
		folder_link(t, "/dev/null", path);
	} else if (kind == DIRECTORY) {
		folder_dir(t, path);
	} else if (kind == FIFO) {
		assert_int_equal(mkfifo(full, 0644), 0);
	} else if (kind == SOCKET) {
		struct sockaddr_un at = { .sun_family = AF_UNIX };
		auto_fd int fd = socket(AF_UNIX, SOCK_STREAM, 0);
		assert_true(strlen(full) < sizeof(at.sun_path));
		memcpy(at.sun_path, full, strlen(full) + 1);
		assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	} else {
		const char *slash = strrchr(path, '/');
		folder_link(t, kind == LOOP ? slash + 1 : "nothing", path);
	}
}

// What a reader says of the entry is one sentence, of a mask none.
static void expect_skipped(const struct strv *skipped, const char *path, enum kind kind)
{
	expect(skipped->count == (kind != MASK), path);
	if (kind == MASK)
		return;
	expect(strstr(skipped->items[0], path), skipped->items[0]);
	expect(str_ends(skipped->items[0], words[kind]), skipped->items[0]);
}

static bool has_param(const struct module_params *p, const char *name)
{
	return module_params_has(p, "nvidia", name);
}

static void read_params(const struct folder *t, const char *path, enum kind kind, struct module_params *ret)
{
	static const struct strv none;
	struct err err = { 0 };
	expect(module_params_read(&t->root, &t->root, &t->root, &none, NULL, ret, &err) == 0, err.text);
	expect_skipped(&ret->skipped, path, kind);
}

static void test_modprobe_d(void **state)
{
	(void)state;
	static const char *const dirs[] = { "etc/modprobe.d", "run/modprobe.d", "usr/local/lib/modprobe.d",
					    "usr/lib/modprobe.d", "lib/modprobe.d" };
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		for (enum kind kind = 0; kind < KINDS; kind++) {
			auto_folder struct folder t;
			auto_module_params struct module_params p = { 0 };
			folder_make(&t);
			auto_str char *odd = str_fmt("%s/a.conf", dirs[i]), *good = str_fmt("%s/b.conf", dirs[i]);
			make_entry(&t, odd, kind);
			tempdir_write(&t, good, "options nvidia Beside=1\n");
			tempdir_write(&t, "lib/modprobe.d/c.conf", "options nvidia Last=1\n");
			read_params(&t, odd, kind, &p);
			expect(has_param(&p, "Beside") && has_param(&p, "Last"), odd);
		}
}

// A mask hides the file of its name in a place that comes later; a directory does not, for modprobe neither.
static void test_what_a_name_hides(void **state)
{
	(void)state;
	for (enum kind kind = 0; kind < KINDS; kind++) {
		auto_folder struct folder t;
		auto_module_params struct module_params p = { 0 };
		folder_make(&t);
		make_entry(&t, "etc/modprobe.d/nvidia.conf", kind);
		tempdir_write(&t, "usr/lib/modprobe.d/nvidia.conf", "options nvidia Vendor=1\n");
		tempdir_write(&t, "usr/lib/modprobe.d/.hidden.conf", "options nvidia Hidden=1\n");
		read_params(&t, "etc/modprobe.d/nvidia.conf", kind, &p);
		expect(has_param(&p, "Vendor") == (kind == DIRECTORY), words[kind]);
		expect(!has_param(&p, "Hidden"), words[kind]);
	}
}

static void test_drivers(void **state)
{
	(void)state;
	for (enum kind kind = 0; kind < KINDS; kind++) {
		auto_folder struct folder t;
		auto_module_params struct module_params p = { 0 };
		folder_make(&t);
		make_entry(&t, "drivers/nvidia.conf", kind);
		tempdir_write(&t, "drivers/nvidia-uvm.conf", "uvm_on=1\n");
		read_params(&t, "drivers/nvidia.conf", kind, &p);
		expect(module_params_has(&p, "nvidia-uvm", "uvm_on") && p.count == 1, words[kind]);
	}
}

static const char PUBLIC_KEY[] = "-----BEGIN PUBLIC KEY-----\n"
				 "MCowBQYDK2VwAyEAIOjq3y8niHZOBnLjasigMDYJUA6O5/XH11rDLtfJSpw=\n"
				 "-----END PUBLIC KEY-----\n";

static const char CERTIFICATE[] = "-----BEGIN CERTIFICATE-----\n"
				  "MIIBLDCB36ADAgECAhQuO7oOtt7CW4LtAlB2//kd8MqN4jAFBgMrZXAwDDEKMAgG\n"
				  "A1UEAwwBYTAeFw0yNjExMjgxMDAyMTFaFw0yNjExMjkxMDAyMTFaMAwxCjAIBgNV\n"
				  "BAMMAWEwKjAFBgMrZXADIQAg6OrfLyeIdk4GcuNqyKAwNglQDo7n9cfXWsMu18lK\n"
				  "nKNTMFEwHQYDVR0OBBYEFKT0PJydFYLgZlHpeA9uDJWfAioJMB8GA1UdIwQYMBaA\n"
				  "FKT0PJydFYLgZlHpeA9uDJWfAioJMA8GA1UdEwEB/wQFMAMBAf8wBQYDK2VwA0EA\n"
				  "p1WM+nVAnhU4fTJrIOHAMTWmeKJrvluE/wbEzuoxnBC2Fm7uyXT70aiYwoolJU4A\n"
				  "orFAXa85HNy8cSyIOLVVDQ==\n"
				  "-----END CERTIFICATE-----\n";

// No kind makes anything valid that was not: keys that are no files are no keys, a policy that is none is an error.
static void test_trust(void **state)
{
	(void)state;
	for (enum kind kind = 0; kind < KINDS; kind++) {
		struct err err = { 0 };
		auto_folder struct folder t;
		auto_trust struct trust trust = { 0 }, none = { 0 };
		folder_make(&t);
		make_entry(&t, "trust/alice.pem", kind);
		tempdir_write(&t, "trust/bob.pem", PUBLIC_KEY);
		auto_root struct root dir = ROOT_NONE;
		assert_int_equal(root_sub(&t.root, "trust", &dir, &err), 0);
		expect(trust_open(&dir, &trust, &err) == 0, err.text);
		expect(trust.count == 1 && str_eq(trust.keys[0].name, "bob"), words[kind]);
		if (kind != MASK) // it leads out of the directory, where nothing is
			expect_skipped(&trust.skipped, "trust/alice.pem", kind);
		make_entry(&t, "trust/policy.json", kind);
		expect(trust_open(&dir, &none, &err) < 0, words[kind]);
	}
}

// Keys may have been removed from a directory that cannot be read.
static void test_a_trust_directory_that_is_none(void **state)
{
	(void)state;
	for (enum kind kind = 0; kind < KINDS; kind++) {
		auto_folder struct folder t;
		auto_trust_now struct trust_now now = { 0 };
		folder_make(&t);
		make_entry(&t, "etc/kmodsmith/trust", kind);
		trust_now(&t.root, NULL, &now);
		expect(!now.is_absent && !now.trust.count, words[kind]);
		expect((now.unread.code != 0) == (kind != DIRECTORY), words[kind]);
	}
}

static void test_authorities(void **state)
{
	(void)state;
	for (enum kind kind = 0; kind < KINDS; kind++) {
		struct err err = { 0 };
		auto_folder struct folder t;
		auto_http struct http *h = NULL;
		folder_make(&t);
		make_entry(&t, "ca/a.pem", kind);
		tempdir_write(&t, "ca/b.pem", CERTIFICATE);
		auto_str char *path = str_fmt("%s/ca", t.path);
		expect(http_new(&(struct http_options){ .proxy = "", .ca = path }, &h, &err) == 0, err.text);
	}
}

static void test_credentials(void **state)
{
	(void)state;
	for (enum kind kind = 0; kind < KINDS; kind++) {
		struct err err = { 0 };
		auto_folder struct folder t;
		auto_credentials struct credentials c = { 0 };
		folder_make(&t);
		make_entry(&t, "docker/config.json", kind);
		tempdir_write(&t, "run/containers/auth.json",
			      "{\"auths\": {\"reg.example\": {\"username\": \"u\", \"password\": \"p\"}}}");
		auto_str char *docker = str_fmt("%s/docker", t.path), *run = str_fmt("%s/run", t.path),
			      *file = str_fmt("%s/docker/config.json", t.path);
		assert_int_equal(setenv("DOCKER_CONFIG", docker, true) | setenv("XDG_RUNTIME_DIR", run, true), 0);
		expect(credentials_find(NULL, "reg.example", "reg.example/x", &c, &err) == 1, err.text);
		expect(str_eq(c.user, "u"), words[kind]);
		expect(credentials_find(file, "reg.example", "reg.example/x", &c, &err) < 0, words[kind]); // named
	}
}

static void test_ld_so_conf_d(void **state)
{
	(void)state;
	for (enum kind kind = 0; kind < KINDS; kind++) {
		struct err err = { 0 };
		auto_folder struct folder t;
		auto_strv struct strv dirs = { 0 };
		folder_make(&t);
		make_entry(&t, "etc/ld.so.conf.d/a.conf", kind);
		tempdir_write(&t, "etc/ld.so.conf", "include ld.so.conf.d/*.conf\n");
		tempdir_write(&t, "etc/ld.so.conf.d/b.conf", "/opt/lib\n");
		expect(ldcache_conf_dirs(&t.root, &dirs, &err) == 0, err.text);
		expect(strv_has(&dirs, "opt/lib"), words[kind]);
	}
}

static void test_repositories_of_packages(void **state)
{
	(void)state;
	for (enum kind kind = 0; kind < KINDS; kind++) {
		struct err err = { 0 };
		auto_folder struct folder t;
		auto_strv struct strv keys = { 0 };
		folder_make(&t);
		make_entry(&t, "etc/yum.repos.d/a.repo", kind);
		tempdir_write(&t, "etc/yum.repos.d/b.repo", "[b]\ngpgkey=file:///etc/key\n");
		const struct package_manager pm = { .host = &t.root };
		const struct package_job job = { .pm = &pm };
		expect(rpm_keys_list(&job, "etc/yum.repos.d", &keys, &err) == 0, err.text);
		expect(keys.count == 1, words[kind]);
	}
}

static void test_cdi(void **state)
{
	(void)state;
	for (enum kind kind = 0; kind < KINDS; kind++) {
		struct err err = { 0 };
		auto_folder struct folder t;
		auto_str char *rival = NULL;
		folder_make(&t);
		make_entry(&t, "etc/cdi/a.json", kind);
		tempdir_write(&t, "etc/cdi/b.json", "{\"kind\": \"nvidia.com/gpu\"}");
		expect(cdi_spec_file_conflict(&t.root, "/var/run/cdi/own.json", "nvidia.com/gpu", &rival, &err) == 1,
		       err.text);
		expect(str_eq(rival, "/etc/cdi/b.json"), words[kind]);
	}
}

static void test_dev(void **state)
{
	(void)state;
	for (enum kind kind = 0; kind < KINDS; kind++) {
		struct err err = { 0 };
		auto_folder struct folder t;
		auto_devices struct devices d = { 0 };
		folder_make(&t);
		tempdir_write(&t, "proc/devices", "Character devices:\n195 nvidia\n\n");
		make_entry(&t, "dev/nvidiactl", kind);
		make_entry(&t, "dev/char/195:255", kind);
		struct sys sys = sys_recorder(&t.root);
		assert_int_equal(devices_want(&t.root, 0, &d, &err), 1);
		expect(devices_apply(&t.root, &sys, false, &d, &err) >= 0, err.text);
		folder_expect(&t, "dev/nvidiactl", "c 195:255 0666 0:0\n");
		folder_expect(&t, "dev/char/195:255", "c 195:255 0666 0:0\n");
	}
}

int main(void)
{
	alarm(60); // nothing waits
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_modprobe_d),
		cmocka_unit_test(test_what_a_name_hides),
		cmocka_unit_test(test_drivers),
		cmocka_unit_test(test_trust),
		cmocka_unit_test(test_a_trust_directory_that_is_none),
		cmocka_unit_test(test_authorities),
		cmocka_unit_test(test_credentials),
		cmocka_unit_test(test_ld_so_conf_d),
		cmocka_unit_test(test_repositories_of_packages),
		cmocka_unit_test(test_cdi),
		cmocka_unit_test(test_dev),
	};
	return cmocka_run_group_tests_name("entries", tests, NULL, NULL);
}
