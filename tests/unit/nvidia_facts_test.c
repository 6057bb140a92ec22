// SPDX-License-Identifier: Apache-2.0
// What we know of NVIDIA's sources says everywhere from which version it is: nvidia.def, the pages, and the simulated
// upgrade controller.
#include "cluster/node_state/nvidia.h"
#include "cluster/node_state/operands.h"
#include "cluster/node_state/states.h"
#include "tests/unit/test.h"

enum { SHORT = 7 }; // of a commit

static char *read_page(const char *path)
{
	auto_root struct root top = ROOT_NONE;
	char *text = NULL;
	struct err err;
	if (root_init(&top, ".", &err) < 0 || root_read(&top, path, &text, NULL, &err) <= 0)
		fail_msg("%s: %s", path, err.text);
	return text;
}

static void test_versions(void **state)
{
	(void)state;
	auto_str char *limits = read_page("docs/limits.md"), *contract = read_page("docs/design/contract.md");
	auto_str char *all = nvidia_sources_text();
	print_message("# what is known of NVIDIA's programs was read in %s\n", all);
	for (const struct nvidia_source *s = nvidia_sources; s->repository; s++) {
		auto_str char *text = str_fmt("%s %s (%s, %s)", s->repository, s->version, s->commit, s->date);
		auto_str char *commit = str_ndup(s->commit, SHORT);
		expect(strstr(all, text) != NULL, text);
		expect(strstr(limits, text) != NULL, text);
		expect(strstr(contract, commit) != NULL, text);
	}
}

// Each row of the simulated controller has words that the label can have, and its head the commits.
static void test_simulated_controller(void **state)
{
	(void)state;
	auto_str char *rows = read_page("tests/sim/nvidia.def");
	static const struct {
		const char *word, *next;
	} table[] = {
#define X(word, when, act, next) { word, next },
#include "tests/sim/nvidia.def"
#undef X
	};
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		const char *both[] = { table[i].word, table[i].next };
		for (size_t k = 0; k < ARRAY_SIZE(both); k++)
			// drain-required is left out in 26.7: its chart disables draining
			expect(!both[k] || str_eq(both[k], "drain-required") ||
				       node_name_index(upgrade_words, UPGRADE_OTHER, both[k], strlen(both[k])) >= 0,
			       both[k]);
	}
	for (const struct nvidia_source *s = nvidia_sources; s->repository; s++) {
		auto_str char *commit = str_ndup(s->commit, SHORT);
		if (str_eq(s->repository, "gpu-operator") || str_eq(s->repository, "k8s-operator-libs"))
			expect(strstr(rows, commit) != NULL, s->repository);
	}
}

// Of a name twice the second row would never be found; the plugin of DRA is the last one.
static void test_rows(void **state)
{
	(void)state;
	size_t count = 0;
	for (const struct nvidia_input *x = nvidia_inputs; x->name; x++)
		for (const struct nvidia_input *y = nvidia_inputs; y < x; y++)
			expect(x->kind != y->kind || !str_eq(x->name, y->name), x->name);
	for (; operands[count].key; count++)
		expect(operands[count].is_last == !operands[count + 1].key, operands[count].key);
	assert_int_equal(count, 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_simulated_controller),
		cmocka_unit_test(test_rows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
