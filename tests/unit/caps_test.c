// SPDX-License-Identifier: Apache-2.0
// R-N3: what is given up is gone, for this process and for what it starts. The tests change the process itself, so the
// order counts: from more to less.
#include "base/process/capabilities.h"

#include "base/process/proc.h"
#include "tests/unit/tempdir.h"

#include <linux/capability.h>

static uint64_t field(const char *status, const char *name)
{
	const char *line = strstr(status, name);
	return line ? strtoull(line + strlen(name), NULL, 16) : ~UINT64_C(0);
}

static void own_status(char **ret)
{
	auto_root struct root kern = ROOT_NONE;
	struct err err;
	assert_int_equal(root_init(&kern, "/", &err), 0);
	assert_int_equal(root_read(&kern, "proc/self/status", ret, NULL, &err), 1);
}

static uint64_t own_permitted(void)
{
	auto_str char *status = NULL;
	own_status(&status);
	return field(status, "CapPrm:");
}

static void add_line(void *ctx, const char *line)
{
	str_add(ctx, "%s\n", line);
}

static char *status_of_child(void)
{
	static const char *const argv[] = { "/bin/cat", "/proc/self/status", NULL };
	struct proc_end end;
	struct err err;
	char *text = str_dup("");
	struct proc proc = { .argv = argv, .timeout_ms = 10000, .line = add_line, .ctx = &text };
	if (proc_run(&proc, &end, &err) < 0)
		fail_msg("%s", err.text);
	return text;
}

static void names_in_order(void **state)
{
	(void)state;
	auto_str char *none = caps_text(0), *two = caps_text(CAPS_BIT(CAP_SYS_ADMIN) | CAPS_BIT(CAP_CHOWN)),
		      *new = caps_text(CAPS_BIT(62) | CAPS_BIT(CAP_CHECKPOINT_RESTORE));
	assert_string_equal(none, "");
	assert_string_equal(two, "CAP_CHOWN, CAP_SYS_ADMIN");
	assert_string_equal(new, "CAP_CHECKPOINT_RESTORE, 62");
	for (unsigned cap = 0; cap <= CAP_LAST_CAP; cap++)
		assert_non_null(caps_name(cap));
	assert_null(caps_name(63));
}

static void check_status(const char *status, uint64_t most)
{
	assert_int_equal(field(status, "CapPrm:") & ~most, 0);
	assert_int_equal(field(status, "CapEff:") & ~most, 0);
	assert_int_equal(field(status, "CapInh:"), 0);
	assert_int_equal(field(status, "CapAmb:"), 0);
	assert_non_null(strstr(status, "NoNewPrivs:\t1"));
}

static void what_is_not_kept_is_dropped(void **state)
{
	(void)state;
	const uint64_t keep = CAPS_BIT(CAP_SYS_MODULE) | CAPS_BIT(CAP_KILL);
	uint64_t had = own_permitted(), dropped = 0;
	struct err err;
	assert_int_equal(caps_keep(keep, &dropped, &err), 0);
	assert_int_equal(dropped, had & ~keep);
	assert_int_equal(own_permitted(), had & keep);
	auto_str char *own = NULL, *child = status_of_child();
	own_status(&own);
	check_status(own, keep);
	check_status(child, keep);
	if (had & CAPS_BIT(CAP_SETPCAP))
		assert_int_equal(field(own, "CapBnd:") & ~keep, 0);
}

static void dropped_capabilities_stay_dropped(void **state)
{
	(void)state;
	uint64_t dropped = 1;
	struct err err;
	assert_int_equal(caps_keep(CAPS_BIT(CAP_KILL) | CAPS_BIT(CAP_SYS_ADMIN), &dropped, &err), 0);
	assert_int_equal(dropped & ~CAPS_BIT(CAP_SYS_MODULE), 0);
	assert_int_equal(own_permitted() & ~CAPS_BIT(CAP_KILL), 0);
	auto_str char *child = status_of_child();
	check_status(child, CAPS_BIT(CAP_KILL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_in_order),
		cmocka_unit_test(what_is_not_kept_is_dropped),
		cmocka_unit_test(dropped_capabilities_stay_dropped),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
