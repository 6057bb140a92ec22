// SPDX-License-Identifier: Apache-2.0
// What a node has, in the words of a policy: the recorded machine h100x8, which runs 535.261.03 (open), with other
// names for the same and for others. T36, T39.
#include "base/copy.h"
#include "cluster/agent_look.h"
#include "tests/unit/test.h"

enum { MOST = 4 };
struct name {
	const char *driver, *flavour, *package, *parameters;
};
static const struct row {
	const char *text;
	struct name names[MOST];
	int loaded; // index; -1: it gets a name of its own
} rows[] = {
	{ "no name at all", { { 0 } }, -1 },
	{ "its name", { { "535.261.03", "open", NULL, "" } }, 0 },
	{ "whatever flavour", { { "535.261.03", "", NULL, "" } }, 0 },
	{ "whatever flavour, in a word", { { "535.261.03", "auto", NULL, "" } }, 0 },
	{ "another flavour", { { "535.261.03", "proprietary", NULL, "" } }, -1 },
	{ "another version", { { "535.216.03", "open", NULL, "" } }, -1 },
	{ "the second one", { { "535.216.03", "open", NULL, "" }, { "535.261.03", "open", NULL, "" } }, 1 },
	{ "with a parameter that it has", { { "535.261.03", "open", NULL, "NVreg_EnableMSI=1" } }, 0 },
	{ "with a parameter that is another", { { "535.261.03", "open", NULL, "NVreg_EnableMSI=0" } }, -1 },
	{ "with a parameter of a module", { { "535.261.03", "open", NULL, "nvidia:NVreg_EnableMSI=0" } }, -1 },
	{ "what says most, of several",
	  { { "535.216.03", "open", NULL, "" },
	    { "535.261.03", "open", NULL, "" },
	    { "535.261.03", "open", NULL, "NVreg_EnableMSI=1" } },
	  2 },
	{ "but first what worked before",
	  { { "535.261.03", "open", NULL, "" }, { "535.261.03", "open", NULL, "NVreg_EnableMSI=1" } },
	  0 },
	{ "T39 a package that nobody knows to be loaded",
	  { { "535.261.03", "open", "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "" } },
	  -1 },
};

static void check(const struct row *w, const struct root *machine, const struct root *state)
{
	struct target targets[MOST] = { 0 }, found;
	const struct target *names[MOST];
	struct agent_facts f = { 0 };
	struct err err;
	size_t count = 0;
	for (; count < MOST && w->names[count].driver; count++) {
		struct target *t = &targets[count];
		snprintf(t->driver, sizeof(t->driver), "%s", w->names[count].driver);
		snprintf(t->flavour, sizeof(t->flavour), "%s", w->names[count].flavour);
		t->package = str_dup(w->names[count].package);
		t->parameters = str_dup(w->names[count].parameters);
		target_name(t);
		names[count] = t;
	}
	const struct agent_place at = { machine, machine, state };
	expect(agent_look(&at, names, count, &f, &found, &err) == 0, w->text);
	expect(f.is_known && !f.is_empty, w->text);
	expect(str_eq(f.version, "535.261.03") && str_eq(f.srcversion, "B5C8059AF6B6CFDF45E832F"), w->text);
	expect(!aim_is(&f.store[0]), w->text);
	struct target own = { .driver = "535.261.03", .flavour = "open", .parameters = str_dup("") };
	target_name(&own);
	const struct target *wanted = w->loaded < 0 ? &own : names[w->loaded];
	expect(aim_eq(&f.loaded, &wanted->aim), w->text);
	expect((*found.driver != '\0') == (w->loaded < 0), w->text);
	target_done(&own);
	target_done(&found);
	for (size_t i = 0; i < count; i++)
		target_done(&targets[i]);
}

static void t36_t39_names(void **state)
{
	(void)state;
	auto_folder struct folder folder;
	folder_make(&folder);
	auto_root struct root hosts = ROOT_NONE, machine = ROOT_NONE, kept = ROOT_NONE;
	struct err err;
	assert_int_equal(root_init(&hosts, "tests/hosts", &err), 0);
	assert_int_equal(copy_tree(&hosts, "h100x8", &folder.root, "m", &err), 0);
	// whose driver it is: a run of this boot has noted it
	folder_dir(&folder, "m/run/kmodsmith");
	folder_file(&folder, "m/run/kmodsmith/loaded.json",
		    "{\"boot_id\": \"BOOT\", \"modules\": {\"nvidia\": \"B5C8059AF6B6CFDF45E832F\"}}");
	folder_dir(&folder, "m/proc/sys/kernel/random");
	folder_file(&folder, "m/proc/sys/kernel/random/boot_id", "BOOT\n");
	folder_dir(&folder, "m/var/lib/kmodsmith");
	assert_int_equal(root_sub(&folder.root, "m", &machine, &err), 0);
	assert_int_equal(root_sub(&machine, "var/lib/kmodsmith", &kept, &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check(&rows[i], &machine, &kept);
}

static void parameters(void **state)
{
	(void)state;
	struct target t = { .parameters = str_dup("NVreg_A=1\nnvidia-uvm:uvm_x=a:b\nNVreg_B=c:d") };
	auto_strv struct strv words = { 0 };
	target_params(&t, &words);
	auto_str char *text = strv_join(&words, " ");
	assert_string_equal(text, "nvidia:NVreg_A=1 nvidia-uvm:uvm_x=a:b nvidia:NVreg_B=c:d");
	target_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t36_t39_names),
		cmocka_unit_test(parameters),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
