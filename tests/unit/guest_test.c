// SPDX-License-Identifier: Apache-2.0
// R-P4: the configuration of a guest with a virtual GPU, and what its licence daemon logs through syslog.
#include "daemons/syslog.h"
#include "daemons/vgpu_guest.h"

#include "tests/unit/tempdir.h"

#include <sys/socket.h>
#include <sys/un.h>

FOLDER_OF_A_TEST
static struct err err;

#define TOKEN "ClientConfigToken/client_configuration_token.tok"

static void configuration(void **state)
{
	(void)state;
	struct stat st;
	auto_root struct root host = ROOT_NONE, kern = ROOT_NONE;
	auto_str char *text = NULL;
	folder_dir(&folder, "host");
	folder_dir(&folder, "kern");
	assert_int_equal(root_sub(&folder.root, "host", &host, &err), 0);
	assert_int_equal(root_sub(&folder.root, "kern", &kern, &err), 0);
	assert_int_equal(vgpu_guest_write(&host, &kern, &err), 0); // nothing is given
	assert_false(root_exists(&host, GUEST_CONFIG "/gridd.conf"));
	tempdir_write(&folder, "kern/drivers/gridd.conf", "FeatureType=1\n");
	tempdir_write(&folder, "kern/drivers/" TOKEN, "secret");
	assert_int_equal(vgpu_guest_write(&host, &kern, &err), 0);
	assert_int_equal(root_read(&host, GUEST_CONFIG "/gridd.conf", &text, NULL, &err), 1);
	assert_string_equal(text, "FeatureType=1\n");
	assert_int_equal(root_stat(&host, GUEST_CONFIG "/" TOKEN, &st, &err), 1);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_size, 6);
	assert_false(vgpu_guest_is_served(&kern));
	tempdir_write(&folder, "kern/usr/bin/nvidia-gridd", "");
	assert_true(vgpu_guest_is_served(&kern));
}

static void licence(void **state)
{
	(void)state;
	static const struct {
		const char *log, *want; // lines by '/'
	} rows[] = {
		{ "", NULL },
		{ "Started (12)", NULL },
		{ "Started (12)/Acquiring license. (Info: nls.example)/License acquired successfully./Tick",
		  "License acquired successfully." },
		{ "License acquired successfully./Failed to renew the licence", "Failed to renew the licence" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_strv struct strv log = { 0 };
		strv_split(&log, rows[i].log, "/");
		const char *got = vgpu_guest_licence(&log);
		expect(got == rows[i].want || str_eq(got, rows[i].want), rows[i].log);
	}
}

static void lines_of_syslog(void **state)
{
	(void)state;
	static const struct {
		const char *text, *name, *message; // name NULL = no such line
	} rows[] = {
		{ "<30>Nov 21 23:11:18 nvidia-gridd[106]: Started (106)\n", "nvidia-gridd", "Started (106)" },
		{ "<30>Nov  1 03:11:18 nvidia-persistenced: a: b", "nvidia-persistenced", "a: b" },
		{ "<30>nvidia-gridd: without a date", "nvidia-gridd", "without a date" },
		{ "<30>Nov 21 23:11:18 x[1]: \033[2Jy\nz", "x", "[2Jy z" },
		{ "<30>Nov 21 23:11:18 x[1]: ", NULL, NULL },
		{ "<30>Nov 21 23:11:18 : y", NULL, NULL },
		{ "Nov 21 23:11:18 x: y", NULL, NULL },
		{ "<30", NULL, NULL },
		{ "<30>", NULL, NULL },
		{ "", NULL, NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *name = NULL, *message = NULL;
		auto_str char *text = str_dup(rows[i].text);
		bool is_line = syslog_parse(text, &name, &message);
		expect(is_line == (rows[i].name != NULL), rows[i].text);
		if (is_line)
			expect(str_eq(name, rows[i].name) && str_eq(message, rows[i].message), rows[i].text);
	}
}

static void a_socket_again_and_again(void **state)
{
	(void)state;
	static const char LINE[] = "<30>x: y";
	char got[64] = "";
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	auto_fd int killed = syslog_open(&folder.root, &err); // what it left is no hindrance
	auto_fd int fd = syslog_open(&folder.root, &err);
	auto_fd int writer = socket(AF_UNIX, SOCK_DGRAM, 0);
	expect(killed >= 0 && fd >= 0, err.text);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/" SYSLOG_DIR "/dev-log", folder.path);
	assert_int_equal(connect(writer, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(send(writer, LINE, sizeof(LINE), 0), sizeof(LINE));
	assert_int_equal(recv(fd, got, sizeof(got), 0), sizeof(LINE));
	assert_string_equal(got, LINE);
	assert_int_equal(recv(fd, got, sizeof(got), 0), -1); // and nobody waits for more
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_FOLDER(configuration),
		IN_FOLDER(licence),
		IN_FOLDER(lines_of_syslog),
		IN_FOLDER(a_socket_again_and_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
