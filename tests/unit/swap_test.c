// SPDX-License-Identifier: Apache-2.0
// R-D5: an undo that meets a kernel which does not come back says so and tries nothing more. R-P3: of a module that the
// kernel refuses, only the core counts.
#include "tests/unit/forge.h"
#include "tests/unit/test.h"
#include "transaction/transaction_internal.h"

#include <errno.h>
#include <time.h>

static struct folder folder;

// What was asked for is left as a file, because the call is made in another process.
static int hang_in_uvm(const struct sys *s, const char *name)
{
	(void)s;
	const struct timespec long_time = { .tv_sec = 30 };
	folder_file(&folder, name, "");
	if (str_eq(name, "nvidia_uvm"))
		nanosleep(&long_time, NULL);
	return 0;
}

// On a node with kernel 6.1.
static void make_session(struct session *s, struct request *request, const struct sys *sys)
{
	*s = SESSION_NONE;
	s->request = request;
	s->facts.host.release = str_dup("6.1");
	s->facts.host.boot_id = str_dup("b");
	s->node = (struct node){ .host = &folder.root,
				 .kern = &folder.root,
				 .sys = sys,
				 .release = s->facts.host.release,
				 .boot = s->facts.host.boot_id,
				 .progress = &s->progress };
}

static void unload_that_hangs_is_the_last(void **state)
{
	(void)state;
	struct err err = { 0 };
	const struct sys sys = { .module_unload = hang_in_uvm };
	struct request request = { .unload_timeout_ms = 1000 };
	auto_session struct session s = SESSION_NONE;
	auto_transaction struct transaction t = TRANSACTION_OF(&s, NULL);
	folder_make(&folder);
	make_session(&s, &request, &sys);
	strv_add(&t.loaded, str_dup("nvidia"));
	strv_add(&t.loaded, str_dup("nvidia_uvm"));
	strv_add(&t.loaded, str_dup("nvidia_modeset"));
	assert_int_equal(step_actions[STEP_LOAD].undo(&t, &err), -1);
	assert_int_equal(err.code, E_WEDGED);
	assert_non_null(strstr(err.text, "unload 'nvidia_uvm': the kernel did not return within 1 s"));
	assert_true(root_exists(&folder.root, "nvidia_modeset"));
	assert_false(root_exists(&folder.root, "nvidia"));
	folder_done(&folder);
}

static const char *refused; // module that the kernel does not take

// What it was asked for goes into a file, because a child asks.
static int refuse(const struct sys *s, const void *data, size_t len, const char *name, const char *params)
{
	(void)s, (void)data, (void)len;
	auto_str char *path = str_fmt("%s/asked", folder.path);
	auto_fd int asked = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
	dprintf(asked, "%s(%s) ", name, params);
	errno = EINVAL;
	return str_eq(name, refused) ? -1 : 0;
}

static void make_set(struct transaction *t)
{
	static const char *const names[] = { "nvidia", "nvidia-modeset", "nvidia-uvm" };
	t->set.items = mem_alloc(ARRAY_SIZE(names) * sizeof(*t->set.items));
	t->order = mem_alloc(ARRAY_SIZE(names) * sizeof(*t->order));
	t->needs = mem_alloc(ARRAY_SIZE(names) * sizeof(*t->needs));
	for (; t->set.count < ARRAY_SIZE(names); t->set.count++) {
		struct err err;
		size_t len;
		auto_str char *name = module_canonical(names[t->set.count]);
		char *data = forge_ko(&(struct forge_module){ .name = name }, &len);
		assert_int_equal(module_parse(data, len, names[t->set.count], &t->set.items[t->set.count], &err), 0);
		t->order[t->set.count] = t->set.count;
	}
}

static void only_the_core_counts(void **state)
{
	(void)state;
	static const struct {
		const char *refused;
		bool is_demanded; // --modules named all three
		const char *asked, *loaded, *failed;
		int code;
	} rows[] = {
		{ NULL, false, "nvidia() nvidia_modeset(a=1) nvidia_uvm() ", "nvidia nvidia_modeset nvidia_uvm", NULL,
		  0 },
		{ "nvidia_modeset", false, "nvidia() nvidia_modeset(a=1) nvidia_uvm() ", "nvidia nvidia_uvm",
		  "nvidia-modeset", 0 },
		{ "nvidia_modeset", true, "nvidia() nvidia_modeset(a=1) ", "nvidia", NULL, E_LOAD },
		{ "nvidia_uvm", false, "nvidia() nvidia_modeset(a=1) nvidia_uvm() ", "nvidia nvidia_modeset", NULL,
		  E_LOAD },
		{ "nvidia", false, "nvidia() ", "", NULL, E_LOAD },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct step step = { .kind = STEP_LOAD, .subject = (char[]){ "all" } };
		const struct sys sys = { .module_load_data = refuse };
		struct err err = { 0 };
		struct request request = { 0 };
		auto_session struct session s = SESSION_NONE;
		auto_transaction struct transaction t = TRANSACTION_OF(&s, NULL);
		folder_make(&folder);
		make_session(&s, &request, &sys);
		if (!rows[i].is_demanded)
			strv_add(&s.plan.optional, str_dup("nvidia-modeset"));
		assert_int_equal(module_params_add_option(&s.params, "nvidia-modeset:a=1", &err), 0);
		driver_state_set_params(&t.target, "nvidia_modeset", "a=1");
		make_set(&t);
		refused = rows[i].refused;
		assert_int_equal(step_actions[STEP_LOAD].run(&t, &step, &err), rows[i].code ? -1 : 0);
		assert_int_equal(rows[i].code ? err.code : 0, rows[i].code);
		auto_str char *loaded = t.loaded.count ? strv_join(&t.loaded, " ") : str_dup("");
		folder_expect(&folder, "asked", rows[i].asked);
		assert_string_equal(loaded, rows[i].loaded);
		assert_int_equal(t.failed.count, rows[i].failed ? 1 : 0);
		if (rows[i].failed) {
			assert_string_equal(t.failed.items[0].module, rows[i].failed);
			assert_string_equal(t.failed.items[0].params, "a=1");
			assert_string_equal(t.failed.items[0].code, "E_LOAD");
		}
		folder_done(&folder);
	}
}

static int hang_in_modeset(const struct sys *s, const void *data, size_t len, const char *name, const char *params)
{
	(void)s, (void)data, (void)len, (void)params;
	const struct timespec long_time = { .tv_sec = 30 };
	if (str_eq(name, "nvidia_modeset"))
		nanosleep(&long_time, NULL);
	return 0;
}

// Although the driver works without it: nothing more can be loaded or unloaded.
static void a_load_that_hangs_is_not_spared(void **state)
{
	(void)state;
	const struct step step = { .kind = STEP_LOAD, .subject = (char[]){ "all" } };
	const struct sys sys = { .module_load_data = hang_in_modeset };
	struct err err = { 0 };
	struct request request = { .load_timeout_ms = 500 };
	auto_session struct session s = SESSION_NONE;
	auto_transaction struct transaction t = TRANSACTION_OF(&s, NULL);
	folder_make(&folder);
	make_session(&s, &request, &sys);
	strv_add(&s.plan.optional, str_dup("nvidia-modeset"));
	make_set(&t);
	assert_int_equal(step_actions[STEP_LOAD].run(&t, &step, &err), -1);
	assert_int_equal(err.code, E_WEDGED);
	assert_non_null(strstr(err.text, "load 'nvidia_modeset': the kernel did not return within 0.5 s"));
	assert_int_equal(t.loaded.count, 1);
	assert_int_equal(t.failed.count, 0);
	folder_done(&folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unload_that_hangs_is_the_last),
		cmocka_unit_test(only_the_core_counts),
		cmocka_unit_test(a_load_that_hangs_is_not_spared),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
