// SPDX-License-Identifier: Apache-2.0
// run/kmodsmith/pulse.json: written seldom, and never so seldom that a start that goes on looks stalled (R-H2).
#include "status/liveness.h"

#include "base/formats/json.h"
#include "tests/unit/test.h"

#include <signal.h>
#include <sys/resource.h>

static const char FILE_NAME[] = "run/kmodsmith/pulse.json", BOOT_ID[] = "proc/sys/kernel/random/boot_id";

static struct liveness open_on(const struct folder *t)
{
	struct liveness p;
	auto_str char *process = str_fmt("proc/%d", (int)getpid()), *stat = str_fmt("%s/stat", process);
	folder_dir(t, "proc/sys/kernel/random");
	folder_file(t, BOOT_ID, "b1\n");
	folder_dir(t, process);
	folder_file(t, stat, "1 (x) S 1\n");
	liveness_open(&p, &t->root, LIVENESS_DIR, &t->root);
	return p;
}

static struct liveness_verdict judge(const struct folder *t)
{
	struct err err = { 0 };
	struct liveness_verdict v;
	assert_int_equal(liveness_check(&t->root, LIVENESS_DIR, &t->root, 60, &v, &err), 0);
	return v;
}

static ino_t inode(const struct folder *t)
{
	struct stat st;
	struct err err;
	assert_int_equal(root_stat(&t->root, FILE_NAME, &st, &err), 1);
	return st.st_ino;
}

static void test_beats(void **state)
{
	(void)state;
	auto_folder struct folder t;
	folder_make(&t);
	auto_liveness struct liveness p = open_on(&t);
	auto_liveness_verdict struct liveness_verdict none = judge(&t);
	assert_true(none.is_alive && none.pid == 0);

	liveness_beat(&p, "compile", 0, 0);
	liveness_beat(&p, "compile", 1, 900);
	ino_t first = inode(&t);
	for (unsigned i = 2; i < 800; i++)
		liveness_beat(&p, "compile", i, 900);
	auto_liveness_verdict struct liveness_verdict middle = judge(&t);
	assert_true(middle.is_alive && middle.pid == getpid() && str_eq(middle.step, "compile"));
	assert_true(middle.done < 799); // what came within the same second was left out
	p.beat_ms -= 1000;
	liveness_beat(&p, "compile", 801, 900);
	assert_int_not_equal(inode(&t), first);
	liveness_beat(&p, "compile", 900, 900);
	auto_liveness_verdict struct liveness_verdict last = judge(&t);
	assert_int_equal(last.done, 900);
	liveness_beat(&p, LIVENESS_SERVE, 0, 0);
	auto_liveness_verdict struct liveness_verdict serves = judge(&t);
	assert_true(serves.is_alive && strstr(serves.why, "serves"));
}

// A coordinator's: it may hang, and its disk may be full.
static void test_turns(void **state)
{
	(void)state;
	struct err err;
	auto_folder struct folder t;
	folder_make(&t);
	auto_liveness struct liveness p = open_on(&t);
	folder_dir(&t, LIVENESS_DIR);
	liveness_beat(&p, LIVENESS_TURN, 0, 0);
	ino_t first = inode(&t);
	liveness_beat(&p, LIVENESS_TURN, 0, 0);
	assert_int_equal(inode(&t), first); // not at each turn
	auto_liveness_verdict struct liveness_verdict goes = judge(&t);
	assert_true(goes.is_alive && !goes.is_serving && strstr(goes.why, "is alive"));
	auto_json json_t *json = NULL;
	assert_int_equal(json_read(&t.root, FILE_NAME, &json, &err), 1);
	json_t *beat = json_object_get(json, "uptime_ms");
	json_integer_set(beat, json_integer_value(beat) - 61500);
	assert_int_equal(json_write(&t.root, FILE_NAME, json, &err), 0);
	auto_liveness_verdict struct liveness_verdict hangs = judge(&t);
	assert_true(!hangs.is_alive && strstr(hangs.why, "has hung for 61 s"));
	p.beat_ms -= 5000;
	struct rlimit was, full;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	full = (struct rlimit){ .rlim_cur = 0, .rlim_max = was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
	liveness_beat(&p, LIVENESS_TURN, 0, 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	auto_liveness_verdict struct liveness_verdict none = judge(&t);
	assert_true(none.is_alive && none.pid == 0);
}

static void test_nowhere_to_write(void **state)
{
	(void)state;
	auto_folder struct folder t;
	folder_make(&t);
	auto_liveness struct liveness p = open_on(&t);
	folder_file(&t, "run", "no directory");
	liveness_beat(&p, "compile", 0, 0); // a start does not fail for it
	auto_liveness_verdict struct liveness_verdict v = judge(&t);
	assert_true(v.is_alive && v.pid == 0);
}

static void test_what_cannot_be_read(void **state)
{
	(void)state;
	static const char *const texts[] = { "", "{", "[]", "{\"boot_id\": \"b1\"}",
					     "{\"boot_id\": \"b1\", \"pid\": \"x\", \"step\": 1}" };
	auto_folder struct folder t;
	folder_make(&t);
	folder_dir(&t, "run/kmodsmith");
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		folder_file(&t, FILE_NAME, texts[i]);
		auto_liveness_verdict struct liveness_verdict v = judge(&t);
		expect(v.is_alive && v.pid == 0, texts[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_beats),
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_nowhere_to_write),
		cmocka_unit_test(test_what_cannot_be_read),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
