// SPDX-License-Identifier: Apache-2.0
// R-E1, R-F3: what a node remembers of its changes, across writing, reading and boots.
#include "base/process/state_file.h"
#include "journal/loaded_params.h"
#include "journal/state_dir.h"
#include "plan/plan.h"
#include "tests/unit/tempdir.h"

static struct driver_state make(const char *version, const char *params)
{
	struct driver_state d = { .version = str_dup(version),
				  .flavour = str_dup("open"),
				  .digest = str_dup("d1"),
				  .kernel = str_dup("k1") };
	strv_add(&d.modules, str_dup("nvidia"));
	strv_add(&d.modules, str_dup("nvidia-uvm"));
	driver_state_set_params(&d, "nvidia", params);
	return d;
}

static void drivers_are_told_apart(void **state)
{
	(void)state;
	auto_driver_state struct driver_state a = make("535.1", "NVreg_X=1"), b = make("535.1", "NVreg_X=1"),
					      copy = { 0 };
	assert_true(driver_state_same(&a, &b));
	driver_state_copy(&a, &copy);
	assert_true(driver_state_same(&a, &copy));
	strv_add(&b.modules, str_dup("nvidia-drm"));
	assert_false(driver_state_same(&a, &b));
	auto_driver_state struct driver_state other = make("535.1", "NVreg_X=2"), none = make("535.1", "");
	assert_false(driver_state_same(&a, &other));
	assert_false(driver_state_same(&a, &none));
	free(copy.digest);
	copy.digest = NULL;
	assert_false(driver_state_same(&a, &copy));
	assert_string_equal(driver_state_params(&a, "nvidia"), "NVreg_X=1");
	assert_string_equal(driver_state_params(&a, "nvidia_uvm"), "");
	assert_string_equal(driver_state_params(&a, "nvid"), "");
}

static void a_written_journal_is_read_back_whole(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	folder_make(&folder);
	auto_journal struct journal j = { 0 }, back = { 0 };
	auto_driver_state struct driver_state target = make("560.2", "NVreg_X=\"a b\""), previous = make("535.1", "");
	struct err err;
	strv_add(&target.options, str_dup("nvidia:NVreg_X=a b"));
	strv_add(&target.options, str_dup("nvidia_uvm:x=a b"));
	driver_state_drop(&target, "nvidia-uvm");
	assert_int_equal(journal_find(&folder.root, &folder.root, &back, &err), 0);
	journal_begin(&j, "boot-1", &target, &previous);
	journal_step(&j, "load");
	err_set(&err, E_LOAD, "the kernel says 'no'");
	journal_failed(&j, &err);
	assert_int_equal(journal_keep(&folder.root, &folder.root, false, &j, &err), 0);
	assert_int_equal(journal_find(&folder.root, &folder.root, &back, &err), 1);
	assert_int_equal(back.state, JOURNAL_CHANGING);
	assert_string_equal(back.step, "load");
	assert_string_equal(back.boot, "boot-1");
	assert_true(driver_state_same(&back.target, &target));
	assert_int_equal(back.target.options.count, 1);
	assert_string_equal(back.target.options.items[0], "nvidia:NVreg_X=a b");
	assert_true(driver_state_same(&back.previous, &previous));
	assert_int_equal(back.previous.options.count, 0);
	assert_null(back.last_good.version);
	assert_int_equal(back.boots.count, 1);
	assert_int_equal(back.failure_count, 1);
	assert_string_equal(back.failures[0].code, "E_LOAD");
	assert_string_equal(back.failures[0].text, "the kernel says 'no'");
	assert_true(journal_is_open(&back, "boot-1"));
	assert_false(journal_is_open(&back, "boot-2"));
}

static void an_invalid_journal_counts_as_none(void **state)
{
	static const char *const texts[] = { "",
					     "{",
					     "[]",
					     "{\"state\": \"flying\"}",
					     "{\"state\": 3}",
					     "null\n",
					     "ELF",
					     "{\"state\": \"idle\", \"state\": \"wedged\"}" };
	(void)state;
	auto_folder struct folder folder;
	folder_make(&folder);
	struct err err;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		auto_journal struct journal j = { 0 };
		assert_int_equal(root_write(&folder.root, "journal", texts[i], strlen(texts[i]), 0644, &err), 0);
		assert_int_equal(journal_find(&folder.root, &folder.root, &j, &err), 0);
		folder_expect(&folder, "journal", texts[i]); // whoever has no lock leaves it to those who do
		journal_mend(&folder.root);
		assert_false(root_exists(&folder.root, "journal"));
		folder_expect(&folder, "journal.damaged", texts[i]);
	}
	auto_journal struct journal odd = { 0 }; // a document of another shape is read as far as it goes
	static const char text[] = "{\"state\":\"changing\",\"boots\":[1,\"b\"],\"target\":7,\"failures\":[null,{}]}";
	assert_int_equal(root_write(&folder.root, "journal", text, strlen(text), 0644, &err), 0);
	assert_int_equal(journal_find(&folder.root, &folder.root, &odd, &err), 1);
	assert_int_equal(odd.boots.count, 1);
	assert_null(odd.target.version);
}

// run/kmodsmith/journal counts for the state directory that it was written for, until that has a journal again.
static void the_journal_in_memory_belongs_to_one_state_directory(void **state)
{
	(void)state;
	auto_folder struct folder host, dir, other;
	auto_journal struct journal j = { 0 }, back = { 0 }, again = { 0 }, left = { 0 };
	auto_driver_state struct driver_state target = make("560.2", ""), none = { 0 };
	auto_str char *text = NULL, *copy = NULL, *why = NULL;
	struct err err;
	struct stat st;
	folder_make(&host);
	folder_make(&dir);
	folder_make(&other);
	assert_int_equal(fstat(dir.root.fd, &st), 0);
	journal_begin(&j, "boot-1", &target, &none);
	assert_int_equal(journal_keep(&host.root, &dir.root, true, &j, &err), 0);
	assert_int_equal(journal_keep(&host.root, &other.root, true, &j, &err), 0);
	assert_false(root_exists(&host.root, "run/kmodsmith/journal"));
	text = str_fmt("{\"state\":\"wedged\",\"boot\":\"boot-2\",\"unwritten\":\"the disk is full\","
		       "\"state-dir\":\"%llu:%llu\"}",
		       (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
	tempdir_write(&host, "run/kmodsmith/journal", text);
	assert_int_equal(journal_find(&host.root, &dir.root, &back, &err), 1);
	assert_true(journal_is_wedged(&back, "boot-2"));
	assert_string_equal(back.unwritten, "the disk is full");
	why = journal_unwritten(&host.root);
	assert_string_equal(why, "the disk is full");
	assert_int_equal(journal_find(&host.root, &other.root, &again, &err), 1);
	assert_true(journal_is_open(&again, "boot-1"));
	assert_null(again.unwritten);
	assert_int_equal(journal_keep(&host.root, &dir.root, false, &back, &err), 0);
	assert_null(back.unwritten);
	assert_false(root_exists(&host.root, "run/kmodsmith/journal"));
	copy = journal_unwritten(&host.root);
	assert_null(copy);
	tempdir_write(&host, "run/kmodsmith/journal", "{\"state\":");
	assert_int_equal(journal_find(&host.root, &dir.root, &left, &err), 1);
	assert_true(journal_is_wedged(&left, "boot-2"));
}

static void disk_errors_are_recognized(void **state)
{
	(void)state;
	static const struct {
		int code;
		bool is_due;
	} rows[] = { { EROFS, true },      { ENOSPC, true },       { EDQUOT, true },          { EIO, true },
		     { E_NO_SPACE, true }, { E_STORE_FULL, true }, { E_READ_ONLY, true },     { EACCES, false },
		     { ENOENT, false },    { E_DIGEST, false },    { E_STORE_CORRUPT, false } };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct err err = { .code = rows[i].code };
		expect(state_dir_is_disk_error(&err) == rows[i].is_due, err_info(rows[i].code)->name);
	}
}

static void a_target_that_failed_is_remembered_until_it_changes(void **state)
{
	(void)state;
	auto_journal struct journal j = { 0 };
	auto_driver_state struct driver_state bad = make("560.2", "NVreg_X=1"), other = make("560.2", "NVreg_X=2"),
					      none = { 0 };
	struct err err;
	err_set(&err, E_PARAM, "bad value");
	journal_begin(&j, "boot-1", &bad, &none);
	journal_failed(&j, &err);
	journal_failed(&j, &err);
	journal_rolled_back(&j);
	assert_int_equal(j.failure_count, 1); // once
	assert_int_equal(j.state, JOURNAL_IDLE);
	auto_str char *why = journal_why_not(&j, "boot-9", &bad), *free_to_go = journal_why_not(&j, "boot-1", &other);
	assert_non_null(strstr(why, "E_PARAM: bad value"));
	assert_null(free_to_go);
	journal_begin(&j, "boot-9", &bad, &none);
	journal_succeeded(&j);
	assert_null(journal_why_not(&j, "boot-9", &bad)); // it works now
	err_set(&err, E_NO_DEVICE, "no interrupt");
	journal_begin(&j, "boot-9", &other, &none);
	journal_failed(&j, &err);
	journal_rolled_back(&j);
	auto_str char *same_boot = journal_why_not(&j, "boot-9", &other),
		      *next_boot = journal_why_not(&j, "boot-10", &other);
	assert_non_null(same_boot);
	assert_null(next_boot);
	assert_true(driver_state_same(&j.last_good, &bad));
	assert_string_equal(j.last_good_boot, "boot-9");
}

// A load that could not end well: as long as the boot lasts, it is known what is loaded; it may turn out to be good.
static void what_was_left_loaded_is_remembered(void **state)
{
	(void)state;
	auto_driver_state struct driver_state target = make("535.1", "NVreg_X=1"), none = { 0 };
	auto_journal struct journal j = { 0 }, back = { 0 };
	auto_folder struct folder folder;
	struct err err;
	folder_make(&folder);
	journal_begin(&j, "boot-1", &target, &none);
	assert_null(journal_left_loaded(&j, "boot-1"));
	journal_left(&j);
	assert_int_equal(journal_keep(&folder.root, &folder.root, false, &j, &err), 0);
	assert_int_equal(journal_find(&folder.root, &folder.root, &back, &err), 1);
	assert_false(journal_is_unfinished(&back, "boot-1"));
	assert_null(journal_why_not(&back, "boot-2", &target));
	assert_null(journal_left_loaded(&back, "boot-2"));
	const struct driver_state *left = journal_left_loaded(&back, "boot-1");
	assert_true(left && driver_state_same(left, &target));
	assert_ptr_equal(loaded_params_record(&back, "boot-1", "535.1", "open"), left);
	assert_null(loaded_params_record(&back, "boot-1", "535.2", "open"));
	assert_null(loaded_params_record(&back, "boot-2", "535.1", "open"));
	journal_succeeded(&back);
	assert_null(journal_left_loaded(&back, "boot-1"));
	assert_true(driver_state_same(&back.last_good, &target));
	assert_string_equal(back.last_good_boot, "boot-1");
	auto_driver_state struct driver_state other = make("535.2", "");
	journal_adopted(&back, &other);
	assert_true(driver_state_same(&back.last_good, &other));
	assert_null(loaded_params_record(&back, "boot-1", "535.2", "open")); // nobody knows how it was loaded
}

static void the_oldest_failures_are_forgotten(void **state)
{
	(void)state;
	auto_journal struct journal j = { 0 };
	struct err err;
	err_set(&err, E_LOAD, "no");
	for (int i = 0; i < 20; i++) {
		auto_str char *version = str_fmt("535.%d", i);
		auto_driver_state struct driver_state d = make(version, ""), none = { 0 };
		journal_begin(&j, "boot", &d, &none);
		journal_failed(&j, &err);
		journal_rolled_back(&j);
	}
	assert_int_equal(j.failure_count, 8);
	assert_string_equal(j.failures[7].driver.version, "535.19");
}

// The way back to what worked last is not given up for ever: one boot rests, the next one tries.
static void a_rollback_loop_pauses_for_one_boot(void **state)
{
	(void)state;
	auto_driver_state struct driver_state good = make("560.1", ""), other = make("560.2", ""), none = { 0 };
	auto_journal struct journal j = { 0 };
	driver_state_copy(&good, &j.last_good);
	journal_begin(&j, "a", &good, &none);
	journal_begin(&j, "b", &good, &none);
	assert_false(journal_skip_boot(&j, "b")); // the second one is under way
	assert_true(journal_skip_boot(&j, "c"));
	assert_false(journal_skip_boot(&j, "c")); // that was written already
	auto_json json_t *json = journal_json(&j);
	assert_string_equal(json_string_value(json_object_get(json, "rest")), "c");
	auto_str char *now = journal_why_not(&j, "c", &good), *next = journal_why_not(&j, "d", &good);
	assert_string_equal(now, "2 boots ended while it was being loaded (begin)");
	assert_null(next);
	journal_begin(&j, "d", &good, &none);
	journal_begin(&j, "e", &good, &none);
	assert_true(journal_skip_boot(&j, "f")); // and again
	journal_begin(&j, "x", &other, &none);
	journal_begin(&j, "y", &other, &none);
	assert_false(journal_skip_boot(&j, "z")); // what is requested is another matter
}

static void two_boots_that_ended_in_a_change_are_a_loop(void **state)
{
	(void)state;
	static const struct {
		const char *boots; // in which the change was tried
		const char *now;
		bool is_loop;
	} rows[] = {
		{ "a", "a", false },                              // killed and started again
		{ "a", "b", false },                              // one boot is an accident
		{ "a a a a", "b", false }, { "a b", "b", false }, // the second one is under way
		{ "a b", "c", true },      { "a b c", "c", true },
	};
	auto_driver_state struct driver_state target = make("560.2", ""), other = make("560.3", ""), none = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_journal struct journal j = { 0 };
		auto_strv struct strv boots = { 0 };
		strv_split(&boots, rows[i].boots, " ");
		for (size_t b = 0; b < boots.count; b++)
			journal_begin(&j, boots.items[b], &target, &none);
		auto_str char *why = journal_why_not(&j, rows[i].now, &target);
		auto_str char *of_other = journal_why_not(&j, rows[i].now, &other);
		if (!!why != rows[i].is_loop)
			fail_msg("boots '%s', now '%s': %s", rows[i].boots, rows[i].now, why ? why : "no loop");
		assert_null(of_other);
		journal_begin(&j, "x", &other, &none); // another change counts from the beginning
		assert_int_equal(j.boots.count, 1);
		journal_rolled_back(&j);
		assert_null(journal_why_not(&j, "y", &target));
	}
}

static void a_wedge_ends_with_the_boot(void **state)
{
	(void)state;
	auto_journal struct journal j = { 0 };
	journal_wedge(&j, "boot-1", "nvidia_uvm hangs");
	assert_true(journal_is_wedged(&j, "boot-1"));
	assert_false(journal_is_wedged(&j, "boot-2"));
	assert_string_equal(j.text, "nvidia_uvm hangs");
}

// A boot in which a load of the target hung or oopsed ended in the middle; one stuck in something else did not.
static void two_boots_stuck_in_a_load_are_a_loop(void **state)
{
	(void)state;
	auto_driver_state struct driver_state target = make("560.2", ""), none = { 0 };
	for (int is_load = 0; is_load < 2; is_load++) {
		auto_journal struct journal j = { 0 };
		const char *const boots[] = { "a", "b", "c" };
		char *whys[3] = { NULL };
		for (size_t i = 0; i < ARRAY_SIZE(boots); i++) {
			assert_false(journal_is_wedged(&j, boots[i]));
			whys[i] = journal_why_not(&j, boots[i], &target);
			journal_begin(&j, boots[i], &target, &none);
			journal_step(&j, "load");
			if (!is_load)
				journal_rolled_back(&j);
			journal_wedge(&j, boots[i], "nvidia oopsed");
			assert_true(journal_is_wedged(&j, boots[i]));
			assert_false(journal_is_unfinished(&j, boots[i]));
			assert_true(journal_is_unfinished(&j, "x"));
		}
		assert_null(whys[0]);
		assert_null(whys[1]);
		if (is_load)
			assert_string_equal(whys[2], "2 boots ended while it was being loaded (load); the last one: "
						     "nvidia oopsed");
		else
			assert_null(whys[2]);
		free(whys[2]);
	}
}

// A bad target is left alone while there is something better: a driver that would have to go, or one that worked.
static void a_bad_target_is_tried_when_there_is_nothing_to_lose(void **state)
{
	(void)state;
	static const struct {
		const char *name, *loaded, *last_good;
		bool is_retry, is_refused;
	} rows[] = {
		{ "a driver is loaded", "535.1", NULL, false, true },
		{ "nothing is loaded, and nothing ever worked", NULL, NULL, false, false },
		{ "nothing is loaded, another one worked", NULL, "535.1", false, true },
		{ "nothing is loaded, this one worked once", NULL, "560.2", false, false },
		{ "somebody insists", "535.1", "535.1", true, false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_journal struct journal j = { 0 };
		auto_driver_state struct driver_state bad = make("560.2", ""), none = { 0 };
		struct facts facts = { .host = { .boot_id = (char *)(uintptr_t) "b" },
				       .loaded = { .version = (char *)(uintptr_t)rows[i].loaded } };
		struct request request = { .is_retry = rows[i].is_retry };
		struct err err;
		err_set(&err, E_LOAD, "no");
		journal_begin(&j, "b", &bad, &none);
		journal_failed(&j, &err);
		journal_rolled_back(&j);
		if (rows[i].last_good)
			j.last_good = make(rows[i].last_good, "");
		auto_str char *why = plan_why_not(&bad, &request, &facts, &j);
		if (!!why != rows[i].is_refused)
			fail_msg("%s: %s", rows[i].name, why ? why : "not refused");
	}
}

// Of what the disk cannot read nobody knows that it is damaged; a file that is none is set aside under the lock.
static void an_unreadable_file_stays(void **state)
{
	(void)state;
	struct err err;
	struct stat st;
	struct folder folder;
	auto_json json_t *json = NULL;
	auto_root struct root process = ROOT_NONE;
	folder_make(&folder);
	assert_int_equal(root_init(&process, "/proc/self", &err), 0);
	assert_int_equal(state_file_read(&process, "mem", &json, &err), -1); // nothing is mapped at its beginning
	assert_int_equal(err.code, EIO);
	assert_int_equal(state_file_load(&process, "mem", &json, &err), 0);
	assert_int_equal(symlinkat("nowhere", folder.root.fd, "link"), 0);
	assert_int_equal(state_file_load(&folder.root, "link", &json, &err), 0);
	assert_int_equal(root_stat(&folder.root, "link", &st, &err), 1);
	state_file_mend(&process, "mem");
	state_file_mend(&folder.root, "link");
	assert_int_equal(root_stat(&folder.root, "link.damaged", &st, &err), 1);
	folder_done(&folder);
}

static void removed_parameters_are_named(void **state)
{
	(void)state;
	static const char *const names[] = { "NVreg_A", "NVreg_B", "bare", "NVreg_C" };
	struct err err;
	auto_driver_state struct driver_state d = { 0 };
	auto_module_params struct module_params requested = { 0 };
	auto_strv struct strv modules = { 0 };
	strv_add(&modules, str_dup("nvidia"));
	driver_state_set_params(&d, "nvidia", "NVreg_A=1 NVreg_B=\"x y=z\" bare NVreg_C=");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		auto_str char *text = str_fmt("nvidia %s", names[i]), *option = str_fmt("nvidia:%s=1", names[i]);
		auto_str char *removed = loaded_params_removed(&d, &modules, &requested);
		assert_string_equal(removed, text);
		assert_int_equal(module_params_add_option(&requested, option, &err), 0);
	}
	assert_null(loaded_params_removed(&d, &modules, &requested));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(drivers_are_told_apart),
		cmocka_unit_test(a_written_journal_is_read_back_whole),
		cmocka_unit_test(an_invalid_journal_counts_as_none),
		cmocka_unit_test(the_journal_in_memory_belongs_to_one_state_directory),
		cmocka_unit_test(disk_errors_are_recognized),
		cmocka_unit_test(a_target_that_failed_is_remembered_until_it_changes),
		cmocka_unit_test(what_was_left_loaded_is_remembered),
		cmocka_unit_test(the_oldest_failures_are_forgotten),
		cmocka_unit_test(two_boots_that_ended_in_a_change_are_a_loop),
		cmocka_unit_test(a_rollback_loop_pauses_for_one_boot),
		cmocka_unit_test(a_wedge_ends_with_the_boot),
		cmocka_unit_test(two_boots_stuck_in_a_load_are_a_loop),
		cmocka_unit_test(a_bad_target_is_tried_when_there_is_nothing_to_lose),
		cmocka_unit_test(an_unreadable_file_stays),
		cmocka_unit_test(removed_parameters_are_named),
	};
	return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
