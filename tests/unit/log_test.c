// SPDX-License-Identifier: Apache-2.0
#include "base/process/log.h"

#include "base/formats/json.h"
#include "tests/unit/tempdir.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

FOLDER_OF_A_TEST

// Standard error of what say() logs.
static char *heard(void (*say)(void))
{
	struct err err;
	char *text = NULL;
	folder_file(&folder, "log", "");
	auto_fd int log = root_open(&folder.root, "log", O_WRONLY | O_TRUNC, &err);
	auto_fd int kept = dup(2);
	fflush(stderr);
	dup2(log, 2);
	say();
	fflush(stderr);
	dup2(kept, 2);
	assert_int_equal(root_read(&folder.root, "log", &text, NULL, &err), 1);
	return text;
}

static void say_all(void)
{
	struct err err;
	log_debug("hidden %d", 1);
	log_info("started");
	log_warn("slow");
	err_set(&err, E_ABI, "nvidia.ko: 3 symbols differ");
	log_err(&err);
}

static void say_hostile(void)
{
	char big[3000];
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	log_info("one\ntwo\r\n\x1b[31mred\x7f \"quoted\" \xff");
	log_info("%s", big);
	for (size_t i = 1; i + 2 < sizeof(big); i += 2)
		memcpy(big + i, "\xc3\xbc", 2);
	log_info("%s", big);
}

static void test_text(void **state)
{
	(void)state;
	log_setup(LOG_LEVEL_INFO, false);
	auto_str char *text = heard(say_all);
	auto_str char *want =
		str_fmt("kmodsmith: started\nkmodsmith: warn: slow\nkmodsmith: error: E_ABI: nvidia.ko: 3 symbols "
			"differ\nkmodsmith: next: %s\n",
			err_info(E_ABI)->next);
	assert_string_equal(text, want);
	log_setup(LOG_LEVEL_ERROR, false);
	auto_str char *errors = heard(say_all);
	assert_true(str_starts(errors, "kmodsmith: error: "));
}

static void say_from_service(void)
{
	struct stat st;
	assert_int_equal(fstat(2, &st), 0);
	auto_str char *stream = str_fmt("%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	say_all();
}

static void say_beside_service(void)
{
	setenv("JOURNAL_STREAM", "1:2", 1);
	log_warn("slow");
	setenv("JOURNAL_STREAM", "", 1);
	log_warn("slow");
}

// The journal has the name of the program, and takes the priority off the line.
static void test_journal(void **state)
{
	(void)state;
	log_setup(LOG_LEVEL_DEBUG, false);
	auto_str char *text = heard(say_from_service);
	auto_str char *want = str_fmt("<7>debug: hidden 1\n<6>started\n<4>warn: slow\n<3>error: E_ABI: nvidia.ko: 3 "
				      "symbols differ\n<3>next: %s\n",
				      err_info(E_ABI)->next);
	assert_string_equal(text, want);
	auto_str char *beside = heard(say_beside_service); // a file, of a service's child
	assert_string_equal(beside, "kmodsmith: warn: slow\nkmodsmith: warn: slow\n");
	log_setup(LOG_LEVEL_ERROR, true);
	auto_str char *json = heard(say_from_service);
	assert_true(str_starts(json, "{"));
	unsetenv("JOURNAL_STREAM");
}

static void test_json(void **state)
{
	(void)state;
	log_setup(LOG_LEVEL_INFO, true);
	log_step("prove");
	auto_str char *text = heard(say_all);
	log_step(NULL);
	auto_strv struct strv lines = { 0 };
	strv_split(&lines, text, "\n");
	assert_int_equal(lines.count, 3);
	auto_json json_t *last = json_loads(lines.items[2], JSON_REJECT_DUPLICATES, NULL);
	const char *ts, *level, *msg, *step, *code, *reason, *next;
	int retryable;
	assert_int_equal(json_unpack(last, "{s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:s !}", "ts", &ts, "level", &level,
				     "msg", &msg, "step", &step, "code", &code, "reason", &reason, "retryable",
				     &retryable, "next", &next),
			 0);
	assert_false(retryable);
	assert_string_equal(next, err_info(E_ABI)->next);
	assert_int_equal(strlen(ts), strlen("2000-01-01T00:00:00.000Z"));
	assert_string_equal(level, "error");
	assert_string_equal(msg, "nvidia.ko: 3 symbols differ");
	assert_string_equal(step, "prove");
	assert_string_equal(code, "E_ABI");
	assert_string_equal(reason, "AbiMismatch");
}

// R-K4: one event is one short line, whatever a compiler or a kernel put into it.
static void test_one_event_is_one_line(void **state)
{
	(void)state;
	for (int is_json = 0; is_json < 2; is_json++) {
		log_setup(LOG_LEVEL_INFO, is_json);
		auto_str char *text = heard(say_hostile);
		auto_strv struct strv lines = { 0 };
		strv_split(&lines, text, "\n");
		assert_int_equal(lines.count, 3);
		assert_null(strchr(lines.items[2], '?')); // no half character
		assert_true(str_ends(lines.items[2], is_json ? "\xc3\xbc\"}" : "\xc3\xbc"));
		for (size_t i = 0; i < lines.count; i++)
			assert_true(strlen(lines.items[i]) < 640);
		for (const char *p = text; *p; p++)
			assert_true(*p == '\n' || (unsigned char)*p >= ' ');
		assert_null(strchr(text, 0x7f));
		assert_non_null(strstr(lines.items[0], "one two"));
	}
}

static void say_longest_error(void)
{
	struct err err = { .code = E_ABI };
	memset(err.text, 'e', sizeof(err.text) - 2);
	err.text[sizeof(err.text) - 2] = '!';
	log_err(&err);
}

// What failed stands at the end of what was wrapped around it.
static void test_error_is_never_cut(void **state)
{
	(void)state;
	log_setup(LOG_LEVEL_ERROR, false);
	auto_str char *text = heard(say_longest_error);
	assert_non_null(strstr(text, "ee!\n"));
}

static void say_fields(void)
{
	auto_json json_t *fields = json_pack("{s:f, s:i, s:s}", "seconds", 0.5, "gpus", 8, "msg", "not this one");
	log_line(LOG_LEVEL_INFO, fields, "kernel %s", "6.1");
}

static void test_fields(void **state)
{
	(void)state;
	log_setup(LOG_LEVEL_INFO, true);
	auto_str char *text = heard(say_fields);
	auto_json json_t *line = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	assert_true(json_real_value(json_object_get(line, "seconds")) == 0.5);
	assert_int_equal(json_integer_value(json_object_get(line, "gpus")), 8);
	assert_string_equal(json_string_value(json_object_get(line, "msg")), "kernel 6.1");
	log_setup(LOG_LEVEL_INFO, false);
	auto_str char *plain = heard(say_fields);
	assert_string_equal(plain, "kmodsmith: kernel 6.1\n");
}

static void say_progress(void)
{
	log_rewrite("compile  50% (1 of 2)", false);
	log_rewrite("compile  99% (2 of 2)", false);
	log_info("compile took a while");
	log_rewrite("compile 100%", true);
	log_info("end");
	log_rewrite("fetched  10%", false);
	log_end_line();
	log_end_line();
}

// Nothing is written behind a line that rewrites itself; where there is no terminal there is no such line.
static void test_progress(void **state)
{
	(void)state;
	char got[400];
	log_setup(LOG_LEVEL_INFO, false);
	auto_str char *text = heard(say_progress);
	assert_string_equal(text, "kmodsmith: compile took a while\nkmodsmith: end\n");
	auto_fd int terminal = posix_openpt(O_RDWR | O_NOCTTY);
	assert_true(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
	auto_fd int end = ioctl(terminal, TIOCGPTPEER, O_RDWR | O_NOCTTY);
	auto_fd int kept = dup(2);
	dup2(end, 2);
	say_progress();
	fflush(stderr);
	dup2(kept, 2);
	static const char due[] =
		"\rcompile  50% (1 of 2)\rcompile  99% (2 of 2)\r\nkmodsmith: compile took a while\r\n"
		"\rcompile 100%\r\nkmodsmith: end\r\n\rfetched  10%\r\n";
	struct pollfd more = { .fd = terminal, .events = POLLIN };
	ssize_t len = 0, n; // a kernel thread hands it over, in as many parts as it likes
	while (len < (ssize_t)sizeof(due) - 1 && poll(&more, 1, 10000) == 1 &&
	       (n = read(terminal, got + len, sizeof(got) - 1 - (size_t)len)) > 0)
		len += n;
	got[len] = '\0';
	assert_string_equal(got, due);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_FOLDER(test_text),
		IN_FOLDER(test_journal),
		IN_FOLDER(test_json),
		IN_FOLDER(test_one_event_is_one_line),
		IN_FOLDER(test_error_is_never_cut),
		IN_FOLDER(test_fields),
		IN_FOLDER(test_progress),
	};
	return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
