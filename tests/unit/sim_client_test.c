// SPDX-License-Identifier: Apache-2.0
// What the client of the API guarantees in numbers, on a clock that stands still while code runs: how long it waits,
// what it retries and when, which token it sends, which time it believes. For bad answers on a real socket see
// kube_test.
#include "cluster/kube/clock.h"
#include "tests/sim/sim.h"
#include "tests/unit/tempdir.h"

#define auto_client __attribute__((cleanup(kube_freep)))
#define NODES "/api/v1/nodes"
enum { CALL_MS = 20, FOR_EVER = 9999 };

static struct sim *begin(const struct sim_fault *fault)
{
	struct sim *s = sim_new(&(struct sim_options){ .call_ms = CALL_MS });
	sim_fault(s, fault);
	return s;
}

// No answer comes: a write is asked once and fails after its try, a read is asked as long as there is time.
static void deadlines_of_an_answer(void **state)
{
	(void)state;
	static const struct {
		const char *method;
		unsigned within_ms, deadline_ms, try_ms; // of the client, of the call
		long took_ms;
	} rows[] = {
		{ "POST", 0, 0, 0, 10000 },      { "POST", 0, 0, 3000, 3000 },       { "POST", 0, 7000, 0, 7000 },
		{ "POST", 12000, 0, 0, 10000 },  { "POST", 5000, 0, 0, 5000 },       { "POST", 5000, 60000, 0, 5000 },
		{ "POST", 5000, 2000, 0, 2000 }, { "POST", 0, 60000, 45000, 45000 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_sim struct sim *s = begin(&(struct sim_fault){ .what = SIM_LINGER, .times = FOR_EVER });
		auto_client struct kube *k = sim_client_within(s, "a", rows[i].within_ms);
		auto_json json_t *body = json_object();
		auto_kube_call struct kube_call call = { .method = rows[i].method,
							 .path = NODES,
							 .body = body,
							 .deadline_ms = rows[i].deadline_ms,
							 .try_ms = rows[i].try_ms };
		assert_int_equal(kube_run(k, &call, &err), -1);
		auto_str char *row = str_fmt("row %zu: %ld ms, %s", i, sim_now_ms(), err.text);
		expect(err.code == E_TIMEOUT && sim_count(s, NULL, NULL) == 1, row);
		expect(sim_now_ms() - rows[i].took_ms <= CALL_MS && sim_now_ms() >= rows[i].took_ms, row);
	}
}

static void what_is_retried(void **state)
{
	(void)state;
	static const struct {
		const char *method;
		bool is_repeatable, is_busy_final;
		struct sim_fault fault;
		size_t calls;
	} rows[] = {
		{ NULL, false, false, { .what = SIM_STATUS, .status = 500 }, 2 },
		{ NULL, false, false, { .what = SIM_STATUS, .status = 503 }, 2 },
		{ NULL, false, false, { .what = SIM_STATUS, .status = 404 }, 1 },
		{ NULL, false, false, { .what = SIM_STATUS, .status = 410 }, 1 },
		{ NULL, false, false, { .what = SIM_STATUS, .status = 429 }, 2 },
		{ NULL, false, true, { .what = SIM_STATUS, .status = 429 }, 1 },
		{ NULL, false, true, { .what = SIM_STATUS, .status = 500 }, 2 },
		{ NULL, false, false, { .what = SIM_CUT_BEFORE }, 2 },
		{ "POST", false, false, { .what = SIM_STATUS, .status = 500 }, 1 }, // it may have been done
		{ "POST", false, false, { .what = SIM_STATUS, .status = 503, .retry_s = 1 }, 2 }, // it was not
		{ "POST", true, false, { .what = SIM_STATUS, .status = 500 }, 2 },
		{ "POST", false, false, { .what = SIM_STATUS, .status = 429 }, 2 },
		{ "POST", false, true, { .what = SIM_STATUS, .status = 429, .retry_s = 1 }, 1 },
		{ "POST", false, false, { .what = SIM_CUT_BEFORE }, 1 },
		{ "POST", false, false, { .what = SIM_CUT_AFTER }, 1 },
		{ "POST", true, false, { .what = SIM_CUT_BEFORE }, 2 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_sim struct sim *s = begin(&rows[i].fault);
		auto_client struct kube *k = sim_client(s, "a");
		auto_json json_t *body = rows[i].method ? json_pack("{s:{s:s}}", "metadata", "name", "n1") : NULL;
		auto_kube_call struct kube_call call = { .method = rows[i].method,
							 .path = rows[i].method ? NODES : NODES "?limit=1",
							 .body = body,
							 .is_repeatable = rows[i].is_repeatable,
							 .is_busy_final = rows[i].is_busy_final };
		int r = kube_run(k, &call, &err);
		auto_str char *row = str_fmt("row %zu: %zu calls: %s", i, sim_count(s, NULL, NULL), err.text);
		expect(sim_count(s, NULL, NULL) == rows[i].calls, row);
		expect(r == (rows[i].calls == 2 ? 0 : -1), row);
	}
}

// Each wait is somewhere in the upper half of its step, and steps double up to eight seconds: who was refused together
// does not come back together, and nobody waits for long after a server came back.
static void waits_grow_with_jitter(void **state)
{
	(void)state;
	static const long most_ms[] = { 250, 500, 1000, 2000, 4000, 8000, 8000, 8000 };
	bool is_other = false;
	long first_ms = -1;
	for (unsigned seed = 1; seed <= 20; seed++) {
		struct err err = { 0 };
		auto_sim struct sim *s = sim_new(&(struct sim_options){ .seed = seed, .call_ms = CALL_MS });
		auto_client struct kube *k = sim_client(s, "a");
		auto_kube_call struct kube_call call = { .path = NODES "?limit=1", .deadline_ms = 60000 };
		size_t calls;
		sim_fault(s, &(struct sim_fault){ .what = SIM_STATUS, .status = 503, .times = FOR_EVER });
		assert_int_equal(kube_run(k, &call, &err), -1);
		const struct sim_call *log = sim_log(s, &calls);
		assert_true(calls > ARRAY_SIZE(most_ms));
		for (size_t i = 0; i < ARRAY_SIZE(most_ms); i++) {
			long waited = log[i + 1].ms - log[i].ms - CALL_MS;
			auto_str char *row = str_fmt("wait %zu of seed %u: %ld ms", i, seed, waited);
			expect(waited >= most_ms[i] / 2 && waited <= most_ms[i], row);
		}
		is_other = is_other || (first_ms >= 0 && first_ms != log[1].ms);
		first_ms = log[1].ms;
	}
	assert_true(is_other);
}

// The server's own word comes before that, up to an hour.
static void retry_after_is_obeyed(void **state)
{
	(void)state;
	static const struct {
		unsigned retry_s, retry_ms;
		size_t calls;
		long again_ms;
	} rows[] = { { 5, 5000, 2, 5000 }, { 3600, 3600000, 1, 0 }, { 7200, 3600000, 1, 0 } };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_sim struct sim *s =
			begin(&(struct sim_fault){ .what = SIM_STATUS, .status = 429, .retry_s = rows[i].retry_s });
		auto_client struct kube *k = sim_client(s, "a");
		auto_kube_call struct kube_call call = { .path = NODES "?limit=1" };
		size_t calls;
		int r = kube_run(k, &call, &err);
		const struct sim_call *log = sim_log(s, &calls);
		assert_int_equal(calls, rows[i].calls);
		assert_int_equal(r, calls == 2 ? 0 : -1);
		if (calls == 2)
			assert_int_equal(log[1].ms - log[0].ms - CALL_MS, rows[i].again_ms);
		else
			assert_int_equal(call.retry_ms, rows[i].retry_ms);
	}
}

struct gate {
	unsigned runs, fails_at;
	long takes_ms;
};
static int pass(void *ctx, struct err *err)
{
	struct gate *g = ctx;
	kube_sleep(g->takes_ms);
	return ++g->runs == g->fails_at ? err_set(err, E_CONFLICT, "no leader any more") : 0;
}

// Who lost the lead sends nothing more, not even what he was about to repeat; and what he asks before is not taken from
// the time of the call.
static void a_failing_hook_sends_nothing(void **state)
{
	(void)state;
	static const struct {
		unsigned fails_at;
		size_t calls;
	} rows[] = { { 0, 3 }, { 1, 0 }, { 2, 1 }, { 3, 2 } };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		struct gate gate = { .fails_at = rows[i].fails_at, .takes_ms = 29000 };
		auto_sim struct sim *s = begin(&(struct sim_fault){ .what = SIM_STATUS, .status = 503, .times = 2 });
		auto_client struct kube *k = sim_client(s, "a");
		auto_kube_call struct kube_call call = { .path = NODES "?limit=1" };
		kube_before(k, pass, &gate);
		assert_int_equal(kube_run(k, &call, &err), rows[i].fails_at ? -1 : 0);
		assert_int_equal(sim_count(s, NULL, NULL), rows[i].calls);
		assert_int_equal(gate.runs, rows[i].fails_at ? rows[i].fails_at : 3);
		if (rows[i].fails_at)
			expect(err.code == E_CONFLICT && str_eq(err.text, "no leader any more"), err.text);
	}
}

struct site {
	struct sim *sim;
	struct folder folder;
	struct kube *kube;
};
static void site_begin(struct site *site, const char *token)
{
	struct err err = { 0 };
	auto_kube_config struct kube_config c = KUBE_CONFIG_NONE;
	site->sim = sim_new(NULL);
	kube_free(sim_client(site->sim, "a")); // clients of this process reach the simulation from here on
	folder_make(&site->folder);
	if (token)
		tempdir_write(&site->folder, "token", token);
	c.server = str_dup("http://sim");
	c.token_file = str_dup("token");
	expect(root_init(&c.token_root, site->folder.path, &err) == 0 && kube_open(&c, &site->kube, &err) == 0,
	       err.text);
}
static void site_end(struct site *site)
{
	kube_free(site->kube);
	folder_done(&site->folder);
	sim_free(site->sim);
}
#define auto_site __attribute__((cleanup(site_end)))

static void expect_token(struct site *site, const char *name, const char *what)
{
	struct err err = { 0 };
	size_t calls;
	expect(api_get(site->kube, NODES "?limit=1", NULL, &err) == 1, err.text);
	const struct sim_call *log = sim_log(site->sim, &calls);
	expect(str_eq(log[calls - 1].client, name), what);
}

static void a_token_is_read_again_after_a_minute(void **state)
{
	(void)state;
	auto_site struct site site;
	site_begin(&site, "one\n");
	expect_token(&site, "one", "at first");
	long began_ms = sim_now_ms() - 2; // a call takes two
	tempdir_write(&site.folder, "token", "two\n");
	sim_pass(began_ms + 59990 - sim_now_ms());
	expect_token(&site, "one", "not yet");
	sim_pass(began_ms + 60000 - sim_now_ms());
	expect_token(&site, "two", "a minute later");
	sim_pass(60000);
	tempdir_write(&site.folder, "token", "\n");
	expect_token(&site, "two", "while it is exchanged");
	sim_pass(60000);
	auto_str char *path = str_fmt("%s/token", site.folder.path);
	assert_int_equal(unlink(path), 0);
	expect_token(&site, "two", "while it is away");
}

// What is counted is what Prometheus shows: each kind of answer once, and none is lost when there are too many.
static void answers_are_counted_by_kind(void **state)
{
	(void)state;
	struct err err = { 0 };
	size_t count;
	auto_sim struct sim *s = sim_new(NULL);
	auto_client struct kube *k = sim_client(s, "a");
	static const char *const record[] = { KUBE_EVENT, NULL };
	auto_kube_watch struct kube_watch w = { .path = NODES, .record = record };
	assert_int_equal(kube_watch_begin(k, &w, 5, &err), 0);
	kube_watch_end(&w);
	for (long status = 400; status < 500; status++) {
		auto_kube_call struct kube_call call = { .path = NODES "?limit=1", .is_busy_final = true };
		sim_heal(s);
		sim_fault(s, &(struct sim_fault){ .what = SIM_STATUS, .status = status, .times = FOR_EVER });
		for (int i = 0; i < 2; i++)
			assert_int_equal(kube_run(k, &call, &err), -1);
	}
	const struct kube_count *counts = kube_counts(k, &count);
	assert_int_equal(count, KUBE_COUNTS);
	assert_true(str_eq(counts[0].verb, "WATCH") && counts[0].status == 0 && counts[0].count == 1);
	for (size_t i = 1; i < count; i++)
		assert_true(str_eq(counts[i].verb, "GET") && counts[i].status == 399 + (long)i);
	for (size_t i = 1; i + 1 < count; i++)
		assert_int_equal(counts[i].count, 2);
	assert_int_equal(counts[count - 1].count, 2 * (100 - (KUBE_COUNTS - 2)));
}

static int keep_name(void *ctx, json_t *object, struct err *err)
{
	(void)err;
	str_add((char **)ctx, "%s ", sim_text(object, "metadata name"));
	return 0;
}

static void last_path(struct sim *s, const char *want)
{
	size_t calls;
	const struct sim_call *log = sim_log(s, &calls);
	assert_string_equal(log[calls - 1].path, want);
}

// A list that expires in its middle begins anew, and not for ever.
static void an_expired_list_starts_over(void **state)
{
	(void)state;
	static const char *const record[] = { "metadata name", NULL };
	static const struct {
		unsigned first, times; // of the pages that are too old
		const char *names;
		size_t calls;
		long status;
	} rows[] = {
		{ 0, 0, "n0 n1 n2 ", 3, 410 }, { 2, 1, "n0 n0 n1 n2 ", 5, 410 }, { 3, 1, "n0 n1 n0 n1 n2 ", 6, 410 },
		{ 1, 1, NULL, 1, 410 }, // the first page is that of no list that was begun
		{ 2, FOR_EVER, NULL, 3, 410 }, { 2, FOR_EVER, NULL, 2, 403 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_str char *names = str_dup(""), *version = NULL, *row = str_fmt("row %zu", i);
		auto_sim struct sim *s = sim_new(NULL);
		auto_client struct kube *k = sim_client(s, "a");
		for (int n = 0; n < 3; n++)
			sim_make(s, NODES, "{'metadata':{'name':'n%d'}}", n);
		if (rows[i].times)
			sim_fault(s, &(struct sim_fault){ .what = SIM_STATUS,
							  .status = rows[i].status,
							  .nth = rows[i].first,
							  .times = rows[i].times });
		struct kube_list list = {
			.path = NODES, .record = record, .limit = 1, .take = keep_name, .ctx = &names
		};
		int r = kube_list(k, &list, &version, &err);
		auto_str char *got =
			str_fmt("%s: %d, %s after %zu calls: %s", row, r, names, sim_count(s, NULL, NULL), err.text);
		expect(r == (rows[i].names ? 0 : -1), got);
		expect(!rows[i].names || (str_eq(names, rows[i].names) && version), got);
		expect(rows[i].names || (err.code == (rows[i].status == 403 ? E_AUTH : E_KUBE) && !version), got);
		expect(sim_count(s, NULL, NULL) == rows[i].calls, got);
	}
}

// A page of thousands of objects may take longer than any other answer, but not longer than a minute.
static void a_list_may_be_slow(void **state)
{
	(void)state;
	static const char *const record[] = { "metadata name", NULL };
	static const struct {
		long late_ms;
		bool is_read;
	} rows[] = { { 9000, true }, { 20000, true }, { 59000, true }, { 61000, false } };
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_str char *names = str_dup(""), *version = NULL;
		auto_sim struct sim *s = begin(&(struct sim_fault){ .what = SIM_SLOW, .late_ms = rows[i].late_ms });
		auto_client struct kube *k = sim_client(s, "a");
		struct kube_list list = { .path = NODES, .record = record, .take = keep_name, .ctx = &names };
		auto_str char *row = str_fmt("row %zu", i);
		expect(kube_list(k, &list, &version, &err) == (rows[i].is_read ? 0 : -1), row);
		expect(sim_count(s, NULL, NULL) == 1 && sim_now_ms() <= 60000 + CALL_MS, row);
		expect(rows[i].is_read || err.code == E_TIMEOUT, err.text);
	}
}

// What a list and a watch ask for when nobody says how much and from where.
static void collections_are_requested_by_page_and_version(void **state)
{
	(void)state;
	static const char *const record[] = { "metadata name", NULL }, *const events[] = { KUBE_EVENT, NULL };
	struct err err = { 0 };
	auto_str char *names = str_dup(""), *version = NULL;
	auto_sim struct sim *s = sim_new(NULL);
	auto_client struct kube *k = sim_client(s, "a");
	struct kube_list list = { .path = NODES, .record = record, .take = keep_name, .ctx = &names };
	assert_int_equal(kube_list(k, &list, &version, &err), 0);
	last_path(s, NODES "?limit=500");
	list.query = "labelSelector=a";
	free(TAKE(version));
	assert_int_equal(kube_list(k, &list, &version, &err), 0);
	last_path(s, NODES "?limit=500&labelSelector=a");
	auto_kube_watch struct kube_watch w = { .path = NODES, .record = events };
	assert_int_equal(kube_watch_begin(k, &w, 30, &err), 0);
	last_path(s, NODES "?watch=1&allowWatchBookmarks=true&timeoutSeconds=30&resourceVersion=0");
	w.version = TAKE(version);
	w.query = "labelSelector=a";
	w.is_gone = true;
	auto_str char *want =
		str_fmt(NODES "?watch=1&allowWatchBookmarks=true&timeoutSeconds=30&resourceVersion=%s&labelSelector=a",
			w.version);
	assert_int_equal(kube_watch_begin(k, &w, 30, &err), 0);
	last_path(s, want);
	assert_false(w.is_gone); // that was said of another stream
}

struct last {
	unsigned events;
	const char *refused;
};
static int hear(void *ctx, const char *type, json_t *object, struct err *err)
{
	struct last *l = ctx;
	l->events++;
	bool is_refused = str_eq(sim_text(object, "metadata name"), l->refused);
	return is_refused ? err_set(err, E_CONFIG, "%s %s means nothing", type, l->refused) : 0;
}

// Whoever is told something that he cannot take ends the watch with his own words, and is told it again.
static void an_event_that_the_callback_refuses(void **state)
{
	(void)state;
	static const char *const record[] = { KUBE_EVENT, "object metadata name", NULL };
	struct err err = { 0 };
	struct last last = { .refused = "n2" };
	auto_sim struct sim *s = sim_new(NULL);
	auto_client struct kube *k = sim_client(s, "a");
	sim_make(s, NODES, "{'metadata':{'name':'n0'}}");
	auto_kube_watch struct kube_watch w = { .path = NODES, .record = record, .event = hear, .ctx = &last };
	w.version = str_dup(sim_text(sim_get(s, NODES "/n0"), "metadata resourceVersion"));
	assert_int_equal(kube_watch_begin(k, &w, 60, &err), 0);
	for (int i = 1; i < 4; i++)
		sim_make(s, NODES, "{'metadata':{'name':'n%d'}}", i);
	int r = 1;
	for (int i = 0; i < 10 && r > 0; i++)
		r = kube_step(k, 100, &err) == 0 ? kube_watch_look(&w, &err) : -1;
	assert_int_equal(r, -1);
	assert_int_equal(err.code, E_CONFIG);
	assert_string_equal(err.text, "ADDED n2 means nothing");
	assert_int_equal(last.events, 2);
	assert_string_equal(w.version, sim_text(sim_get(s, NODES "/n1"), "metadata resourceVersion"));
	last = (struct last){ 0 };
	assert_int_equal(kube_watch_begin(k, &w, 60, &err), 0);
	for (int i = 0; i < 10; i++)
		assert_int_equal(kube_step(k, 100, &err), 0);
	assert_int_equal(kube_watch_look(&w, &err), 1);
	assert_int_equal(last.events, 2); // n2 and n3
}

static void without_a_token_nothing_is_sent(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_site struct site site;
	site_begin(&site, NULL);
	assert_int_equal(api_get(site.kube, NODES, NULL, &err), -1);
	assert_int_equal(err.code, E_AUTH);
	assert_string_equal(err.text, "the token file 'token' is gone");
	static const char *const record[] = { KUBE_EVENT, NULL };
	auto_kube_watch struct kube_watch w = { .path = NODES, .record = record };
	assert_int_equal(kube_watch_begin(site.kube, &w, 5, &err), -1);
	assert_int_equal(sim_count(site.sim, NULL, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deadlines_of_an_answer),
		cmocka_unit_test(what_is_retried),
		cmocka_unit_test(waits_grow_with_jitter),
		cmocka_unit_test(retry_after_is_obeyed),
		cmocka_unit_test(a_failing_hook_sends_nothing),
		cmocka_unit_test(a_token_is_read_again_after_a_minute),
		cmocka_unit_test(without_a_token_nothing_is_sent),
		cmocka_unit_test(answers_are_counted_by_kind),
		cmocka_unit_test(an_expired_list_starts_over),
		cmocka_unit_test(a_list_may_be_slow),
		cmocka_unit_test(an_event_that_the_callback_refuses),
		cmocka_unit_test(collections_are_requested_by_page_and_version),
	};
	return cmocka_run_group_tests_name("client", tests, NULL, NULL);
}
