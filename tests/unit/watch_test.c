// SPDX-License-Identifier: Apache-2.0
// Phases with their times, those that failed included, and how much of them a log gets (R-H1, R-K4).
#include "base/process/progress.h"

#include "cmd/common/common.h"
#include "tests/unit/tempdir.h"

struct heard {
	char *text; // "+detect -detect" ...
};

static void on_enter(void *ctx, const char *name)
{
	str_add(&((struct heard *)ctx)->text, "%s>", name ? name : "");
}

static void on_phase(void *ctx, const struct phase *p)
{
	str_add(&((struct heard *)ctx)->text, "[%s: %s]", p->name, p->note);
}

static void phases_enter_and_end(void **state)
{
	(void)state;
	struct heard heard = { 0 };
	auto_progress struct progress w = { .enter = on_enter, .phase = on_phase, .ctx = &heard };
	progress_enter(&w, "detect");
	progress_end(&w, "detect", "%d GPUs", 2);
	progress_fail(&w); // nothing runs
	progress_enter(&w, "load");
	progress_end(&w, "nodes", "another one's end");
	progress_fail(&w);
	assert_string_equal(heard.text, "detect>[detect: 2 GPUs]>load>[nodes: another one's end][load: failed]>load>");
	free(heard.text);
	assert_int_equal(w.count, 3);
	for (size_t i = 0; i < w.count; i++)
		assert_true(w.phases[i].seconds >= 0);
}

static void callbacks_are_optional(void **state)
{
	(void)state;
	auto_progress struct progress w = { 0 };
	progress_enter(&w, "detect");
	progress_count(&w, "objects", 1, 2);
	progress_note(&w, "something");
	progress_fail(&w);
	assert_int_equal(w.count, 1);
	assert_string_equal(w.phases[0].note, "failed");
}

static void progress_is_four_lines(void **state)
{
	(void)state;
	auto_folder struct folder t;
	struct err err;
	auto_str char *log = NULL;
	folder_make(&t);
	auto_fd int file = root_create(&t.root, "log", &err), before = dup(STDERR_FILENO);
	assert_true(file >= 0 && before >= 0);
	assert_true(dup2(file, STDERR_FILENO) >= 0);
	for (unsigned done = 1; done <= 173; done++)
		show_progress("compile", done, 173);
	for (unsigned done = 1; done <= 173; done++) // and again
		show_progress("compile", done, 173);
	assert_true(dup2(before, STDERR_FILENO) >= 0);
	assert_int_equal(root_read(&t.root, "log", &log, NULL, &err), 1);
#define ROUND                                                                    \
	"kmodsmith: compile 0% (1 of 173)\nkmodsmith: compile 25% (44 of 173)\n" \
	"kmodsmith: compile 50% (87 of 173)\nkmodsmith: compile 75% (130 of 173)\n"
	assert_string_equal(log, ROUND ROUND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(phases_enter_and_end),
		cmocka_unit_test(callbacks_are_optional),
		cmocka_unit_test(progress_is_four_lines),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
