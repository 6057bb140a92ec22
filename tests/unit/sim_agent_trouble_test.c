// SPDX-License-Identifier: Apache-2.0
// An agent that cannot write its files starts nothing, says so once in its log, on its Node and in an Event, and
// continues by itself. Here something else is in the place of its files; for a full disk see sim_agent_disk_test.c.
#include "tests/unit/agent_fixture.h"

#include <limits.h>

static void block(struct fixture *s, const char *path)
{
	folder_dir(&s->folder, path);
	auto_str char *inside = str_fmt("%s/x", path);
	folder_dir(&s->folder, inside);
}

static void unblock(struct fixture *s, const char *path)
{
	auto_str char *full = str_fmt("%s/%s", s->folder.path, path);
	nftw(full, folder_remove_one_, 16, FTW_DEPTH | FTW_PHYS);
}

// "TYPE MESSAGE" of those that are of trouble.
static unsigned events(const struct fixture *s, const char *beginning)
{
	unsigned count = 0;
	size_t i;
	const json_t *e;
	auto_json json_t *list = sim_ask(s->sim, "GET", "/api/v1/namespaces/default/events", NULL);
	json_array_foreach(json_object_get(list, "items"), i, e)
	{
		if (!str_eq(sim_text(e, "reason"), "AgentTrouble"))
			continue;
		auto_str char *text = str_fmt("%s %s", sim_text(e, "type"), sim_text(e, "message"));
		expect(str_starts(text, beginning), text);
		assert_string_equal(sim_text(e, "involvedObject name"), "n1");
		count++;
	}
	return count;
}

// At most before and after the Node was told, and not with every try.
static void expect_said(const struct fixture *s, const char *line)
{
	unsigned count = 0;
	for (const char *at = s->log; *at; at = strchr(at, '\n') + 1, count++)
		expect(str_starts(at, line), s->log);
	expect(count == 1 || count == 2, s->log);
}

static void the_journal_cannot_be_written(void **state)
{
	(void)state;
	struct fixture s;
	fixture_begin(&s);
	s.facts.store[1] = fixture_target_hash("2.0");
	fixture_run(&s, 1000);
	assert_string_equal(s.log, "");
	unblock(&s, "agent");
	folder_file(&s.folder, "agent", "");
	fixture_order(&s, "1.1", "replace", "2.0");
	fixture_run(&s, 65000);
	expect_said(&s, "trouble nothing is begun, because the journal cannot be written: E_");
	assert_int_equal(s.children, 0);
	auto_str char *trouble = str_dup(fixture_note(&s, "trouble"));
	assert_true(str_starts(trouble, "E_") && strstr(trouble, ": "));
	auto_str char *message =
		str_fmt("Warning the agent begins nothing, and the driver stays as it is: %s", trouble);
	assert_int_equal(events(&s, message), 1);
	assert_string_equal(fixture_note(&s, "ack"), "");
	free(s.log);
	s.log = str_dup("");
	unlinkat(s.folder.root.fd, "agent", 0);
	fixture_run(&s, 11000); // it is tried every ten seconds
	fixture_expect_log(&s, "did order 1.1: replace\ndid replace: starting the worker\nbegin swap 2.0\n",
			   "it goes on");
	assert_string_equal(fixture_note(&s, "trouble"), "");
	assert_int_equal(events(&s, message), 1);
	fixture_end(&s);
}

// Nothing is to be written any more, so that nothing would find out that it could be.
static void trouble_is_reported_only_while_it_lasts(void **state)
{
	(void)state;
	struct fixture s;
	fixture_begin(&s);
	fixture_run(&s, 1000);
	unblock(&s, "agent");
	folder_file(&s.folder, "agent", "");
	s.facts.loaded = fixture_target_hash("3.0"); // by hand
	s.found = "3.0";
	fixture_run(&s, 70000); // what it found cannot be kept
	assert_true(*fixture_note(&s, "trouble"));
	unlinkat(s.folder.root.fd, "agent", 0);
	fixture_run(&s, 11000);
	assert_string_equal(fixture_note(&s, "trouble"), "");
	// The next time is another one.
	unblock(&s, "agent");
	folder_file(&s.folder, "agent", "");
	s.facts.store[1] = fixture_target_hash("2.0");
	fixture_order(&s, "1.1", "replace", "2.0");
	fixture_run(&s, 2000);
	assert_true(*fixture_note(&s, "trouble"));
	assert_int_equal(events(&s, "Warning "), 2);
	fixture_end(&s);
}

static void a_refused_event_is_logged(void **state)
{
	(void)state;
	struct fixture s;
	fixture_begin(&s);
	sim_fault(s.sim, &(struct sim_fault){ .what = SIM_STATUS, .status = 403, .resource = "events", .times = 100 });
	folder_file(&s.folder, "agent", "");
	fixture_run(&s, 5000);
	assert_non_null(strstr(s.log, "trouble an event: "));
	assert_true(*fixture_note(&s, "trouble"));
	fixture_end(&s);
}

// What it orders itself is a file of its own.
static void its_own_orders_cannot_be_written(void **state)
{
	(void)state;
	struct fixture s;
	fixture_begin(&s);
	s.policy = "{\"mode\": \"self\", \"pools\": [{\"name\": \"p\", \"target\": {\"driver\": \"2.0\"}}]}";
	folder_dir(&s.folder, "agent");
	block(&s, "agent/self.json");
	fixture_run(&s, 30000);
	expect_said(&s, "trouble nothing is ordered: E_");
	assert_true(str_starts(fixture_note(&s, "trouble"), "E_"));
	assert_int_equal(s.children, 0);
	free(s.log);
	s.log = str_dup("");
	unblock(&s, "agent/self.json");
	fixture_run(&s, 11000);
	assert_true(str_starts(s.log, "did mode self: staging\n"));
	assert_string_equal(fixture_note(&s, "trouble"), "");
	assert_int_equal(s.children, 1);
	fixture_end(&s);
}

// Not to be read is not to be damaged: nothing is set aside, and nothing begins anew.
static void an_unreadable_state_prevents_the_start(void **state)
{
	(void)state;
	static const char *const files[] = { "agent/journal.json", "agent/self.json" };
	char name[NAME_MAX + 2] = "";
	struct stat st;
	memset(name, 'x', sizeof(name) - 1);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		struct fixture s;
		struct agent a;
		struct err err;
		fixture_begin(&s);
		fixture_run(&s, 1000);
		unblock(&s, files[i]);
		assert_int_equal(symlinkat(name, s.folder.root.fd, files[i]), 0);
		expect(agent_open(&s.site, &a, &err) == -1 && err.code == ENAMETOOLONG, files[i]);
		expect(root_stat(&s.folder.root, files[i], &st, &err) == 1 && S_ISLNK(st.st_mode), files[i]);
		fixture_end(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_journal_cannot_be_written),
		cmocka_unit_test(trouble_is_reported_only_while_it_lasts),
		cmocka_unit_test(a_refused_event_is_logged),
		cmocka_unit_test(its_own_orders_cannot_be_written),
		cmocka_unit_test(an_unreadable_state_prevents_the_start),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
