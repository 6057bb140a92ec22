// SPDX-License-Identifier: Apache-2.0
// run/kmodsmith/status.json through the states of a node (R-G5, R-K2, R-E1).
#include "status/status_file.h"

#include "tests/unit/tempdir.h"

#include <signal.h>
#include <sys/resource.h>

static const char FILE_NAME[] = "run/kmodsmith/status.json";

static char boot[] = "b1", other_boot[] = "b2", release[] = "6.1";
static struct loaded_module module;

static struct facts facts_of(const char *loaded)
{
	static char name[] = "nvidia", version[] = "535.1", taint[] = "OE";
	static struct gpu gpu = { .address = "0000:40:00.0", .kind = GPU_DISPLAY, .device = 0x2330 };
	struct facts f = { .host = { .boot_id = boot, .release = release, .build_id = "cafe" },
			   .gpus = { .items = &gpu, .count = 1 } };
	module = (struct loaded_module){ .name = name, .is_driver = true, .version = version, .taint = taint };
	if (loaded)
		f.loaded = (struct modules){
			.items = &module, .count = 1, .version = version, .flavour = MODULE_TYPE_OPEN
		};
	return f;
}

static struct status status_of(bool is_ready)
{
	static char evidence[2][8] = { "1 of 1", "0 of 1" };
	static struct check check;
	check = (struct check){ .name = "gpus", .evidence = evidence[!is_ready], .is_ok = is_ready };
	return (struct status){ .has_gpu = true, .is_ready = is_ready, .checks = &check, .count = 1 };
}

static json_t *read_file(const struct folder *t)
{
	struct err err;
	json_t *json = NULL;
	assert_int_equal(json_read(&t->root, FILE_NAME, &json, &err), 1);
	return json;
}

static void expect_text(const json_t *json, const char *key, const char *text)
{
	const char *is = json_string_value(json_object_get(json, key));
	if (text ? !str_eq(is, text) : is != NULL)
		fail_msg("%s is %s, not %s", key, is ? is : "null", text ? text : "null");
}

static void expect_state(const struct folder *t, const char *state, const char *step, const char *outcome,
			 const char *code)
{
	auto_json json_t *json = read_file(t);
	const json_t *last = json_object_get(json, "last_run");
	expect_text(json, "state", state);
	expect_text(json, "boot_id", "b1");
	expect_text(json_object_get(json, "run"), "step", step);
	expect_text(last, "outcome", outcome);
	expect_text(json_object_get(last, "error"), "code", code);
	assert_true(json_is_true(json_object_get(json, "ready")) == str_eq(state, "READY"));
	assert_true(json_array_size(json_object_get(json, "checks")) == (str_eq(state, "CHANGING") ? 0 : 1) ||
		    !outcome);
}

static int end(const struct folder *t, bool is_ready, const char *outcome, int code)
{
	struct err err, failure = { 0 };
	struct facts f = facts_of("535.1");
	struct status s = status_of(is_ready);
	struct status_file_end e = { .outcome = outcome, .failure = code ? &failure : NULL };
	err_set(&failure, code, "something");
	return status_file_end(&t->root, &f, &s, &e, &err);
}

static void step(const struct folder *t, const char *name, bool is_touch)
{
	struct err err;
	struct facts f = facts_of(NULL);
	assert_int_equal(status_file_step(&t->root, &f.host, name, "nvidia", is_touch, &err), 0);
}

static void withdrawn_before_it_changes(void **state)
{
	(void)state;
	auto_folder struct folder t;
	folder_make(&t);
	step(&t, "compile", false);
	expect_state(&t, "NOT_READY", "compile", NULL, NULL);
	step(&t, "load", true);
	expect_state(&t, "CHANGING", "load", NULL, NULL);
	assert_int_equal(end(&t, true, "change", 0), 1);
	expect_state(&t, "READY", NULL, "change", NULL);
	step(&t, "compile", false); // beside a driver that works
	expect_state(&t, "READY", "compile", "change", NULL);
	step(&t, "unload", true);
	expect_state(&t, "CHANGING", "unload", "change", NULL);
}

static size_t size_of(const struct folder *t, const char *path)
{
	struct err err;
	struct stat st;
	return root_stat(&t->root, path, &st, &err) > 0 ? (size_t)st.st_size : 0;
}

// Where there is no room for the metrics there are none: the old ones would tell of a driver that is ready.
static void no_room_for_metrics(void **state)
{
	(void)state;
	static const char metrics[] = "run/kmodsmith/metrics/node.prom";
	auto_folder struct folder t;
	struct rlimit old, small;
	folder_make(&t);
	step(&t, "load", true);
	size_t status_size = size_of(&t, FILE_NAME), metrics_size = size_of(&t, metrics);
	assert_true(status_size && status_size < metrics_size);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	small = (struct rlimit){ metrics_size - 1, old.rlim_max };
	setrlimit(RLIMIT_FSIZE, &small);
	assert_int_equal(root_unlink(&t.root, metrics, &(struct err){ 0 }), 1);
	assert_int_equal(root_put(&t.root, metrics, "kmodsmith_ready 1\n", 18, 0644, &(struct err){ 0 }), 0);
	step(&t, "load", true);
	setrlimit(RLIMIT_FSIZE, &old);
	expect_state(&t, "CHANGING", "load", NULL, NULL);
	assert_int_equal(size_of(&t, metrics), 0);
}

// Measured by somebody who changes nothing: the last run stays, and one that is under way is not written over.
static void measured_by_somebody_else(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	struct facts f = facts_of("535.1");
	struct status good = status_of(true);
	folder_make(&t);
	assert_int_equal(status_file_refresh(&t.root, &f, &good, &err), 1);
	expect_state(&t, "READY", NULL, NULL, NULL);
	auto_json json_t *first = read_file(&t);
	assert_true(json_is_null(json_object_get(first, "run")));
	assert_int_equal(end(&t, true, "change", 0), 1);
	struct status bad = status_of(false);
	assert_int_equal(status_file_refresh(&t.root, &f, &bad, &err), 1);
	expect_state(&t, "NOT_READY", NULL, "change", NULL);
	step(&t, "load", true);
	good = status_of(true);
	assert_int_equal(status_file_refresh(&t.root, &f, &good, &err), 0);
	expect_state(&t, "CHANGING", "load", "change", NULL);
}

static void failures(void **state)
{
	(void)state;
	auto_folder struct folder t;
	folder_make(&t);
	assert_int_equal(end(&t, false, "change", E_LOAD), 1);
	expect_state(&t, "FAILED", NULL, "change", "E_LOAD");
	assert_int_equal(end(&t, true, "change", E_LOAD), 1); // the old driver is back
	expect_state(&t, "READY", NULL, "change", "E_LOAD");
	assert_int_equal(end(&t, true, "adopt", 0), 1); // the error is history
	expect_state(&t, "READY", NULL, "adopt", NULL);
	assert_int_equal(end(&t, false, "unload", 0), 1);
	expect_state(&t, "NOT_READY", NULL, "unload", NULL);
}

static void an_unchanged_file_is_not_written(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct stat first, second;
	struct err err;
	folder_make(&t);
	assert_int_equal(end(&t, true, "change", 0), 1);
	assert_int_equal(root_stat(&t.root, FILE_NAME, &first, &err), 1);
	assert_int_equal(end(&t, true, "adopt", 0), 0);
	assert_int_equal(root_stat(&t.root, FILE_NAME, &second, &err), 1);
	assert_int_equal(first.st_ino, second.st_ino);
	expect_state(&t, "READY", NULL, "change", NULL);
	assert_int_equal(end(&t, false, "adopt", 0), 1); // something else was measured
}

static void of_this_boot_only(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	json_t *json = NULL;
	folder_make(&t);
	assert_int_equal(status_file_read(&t.root, boot, &json, &err), 0);
	assert_int_equal(end(&t, true, "change", 0), 1);
	assert_int_equal(status_file_read(&t.root, other_boot, &json, &err), 0);
	assert_int_equal(status_file_read(&t.root, NULL, &json, &err), 0);
	assert_int_equal(status_file_read(&t.root, boot, &json, &err), 1);
	json_decref(json);
	folder_file(&t, FILE_NAME, "{");
	assert_int_equal(status_file_read(&t.root, boot, &json, &err), -1);
	step(&t, "load", true); // damage does not keep a run from withdrawing
	expect_state(&t, "CHANGING", "load", NULL, NULL);
}

static void since_is_of_the_state(void **state)
{
	(void)state;
	auto_folder struct folder t;
	folder_make(&t);
	tempdir_write(&t, FILE_NAME,
		      "{\"state\": \"READY\", \"since\": \"2001-01-01T00:00:00Z\", \"boot_id\": \"b1\"}");
	assert_int_equal(end(&t, true, "adopt", 0), 1);
	auto_json json_t *same = read_file(&t);
	expect_text(same, "since", "2001-01-01T00:00:00Z");
	assert_string_not_equal(json_string_value(json_object_get(same, "time")), "2001-01-01T00:00:00Z");
	assert_int_equal(end(&t, false, "adopt", 0), 1);
	auto_json json_t *changed = read_file(&t);
	assert_string_not_equal(json_string_value(json_object_get(changed, "since")), "2001-01-01T00:00:00Z");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(withdrawn_before_it_changes),
		cmocka_unit_test(no_room_for_metrics),
		cmocka_unit_test(measured_by_somebody_else),
		cmocka_unit_test(failures),
		cmocka_unit_test(an_unchanged_file_is_not_written),
		cmocka_unit_test(of_this_boot_only),
		cmocka_unit_test(since_is_of_the_state),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
