// SPDX-License-Identifier: Apache-2.0
// What a collector is told of a node: the same samples in every state that was measured, and none that was not.
#include "base/formats/prometheus.h"
#include "status/node_metrics.h"
#include "tests/unit/test.h"

static const char MEASURED[] =
	"{\"state\": \"READY\", \"ready\": true, \"since\": \"2027-01-15T08:00:00Z\","
	"\"driver\": {\"version\": \"535.261.03\", \"flavour\": \"open\"}, \"kernel\": {\"release\": \"6.1.0-56\"},"
	"\"gpus\": [{\"kind\": \"gpu\"}, {\"kind\": \"switch\"}, {\"kind\": \"gpu\"}],"
	"\"gpu_check\": {\"time\": \"2027-01-15T08:00:02Z\", \"gpus\": ["
	"{\"address\": \"0000:40:00.0\", \"level\": \"start\", \"outcome\": \"works\"},"
	"{\"address\": \"0000:41:00.0\", \"level\": \"start\", \"outcome\": \"broken\"}]},"
	"\"last_run\": {\"outcome\": \"install\", \"time\": \"2027-01-15T08:00:01Z\", \"error\": null}}";
static const char FAILED[] =
	"{\"state\": \"FAILED\", \"ready\": false, \"since\": \"2027-01-15T08:00:00Z\","
	"\"driver\": {\"version\": null, \"flavour\": null}, \"kernel\": {\"release\": \"6.1.0-56\"}, \"gpus\": [],"
	"\"last_run\": {\"outcome\": \"refused\", \"time\": \"2027-01-15T08:00:01Z\", \"error\": {\"code\": "
	"\"E_NO_PACKAGE\"}}}";
static const char CHANGING[] = "{\"state\": \"CHANGING\", \"ready\": false, \"since\": null, \"last_run\": null}";
static const char NO_GPU[] = "{\"state\": \"NO_GPU\", \"ready\": false, \"last_run\": null}";

static void test_samples(void **state)
{
	(void)state;
	static const struct {
		const char *file, *has[6], *lacks[3];
	} rows[] = {
		{ MEASURED,
		  { "\nkmodsmith_ready 1\n", "\nkmodsmith_state{state=\"READY\"} 1\n",
		    "\nkmodsmith_state{state=\"FAILED\"} 0\n", "\nkmodsmith_gpus 2\n",
		    "\nkmodsmith_driver_info{driver=\"535.261.03\",flavour=\"open\",kernel=\"6.1.0-56\",kmodsmith=",
		    "\nkmodsmith_last_run_info{outcome=\"install\",code=\"\"} 1\n" },
		  { NULL } },
		{ MEASURED,
		  { "\nkmodsmith_state_since_timestamp_seconds 1800000000\n",
		    "\nkmodsmith_last_run_timestamp_seconds 1800000001\n", "\nkmodsmith_last_run_failed 0\n",
		    "\nkmodsmith_gpu_works{gpu=\"0000:40:00.0\",level=\"start\",outcome=\"works\"} 1\n",
		    "\nkmodsmith_gpu_works{gpu=\"0000:41:00.0\",level=\"start\",outcome=\"broken\"} 0\n",
		    "\nkmodsmith_gpu_check_timestamp_seconds 1800000002\n" },
		  { NULL } },
		{ FAILED,
		  { "\nkmodsmith_ready 0\n", "\nkmodsmith_state{state=\"FAILED\"} 1\n", "\nkmodsmith_gpus 0\n",
		    "\nkmodsmith_driver_info{driver=\"\",flavour=\"\",kernel=", "\nkmodsmith_last_run_failed 1\n",
		    "\nkmodsmith_last_run_info{outcome=\"refused\",code=\"E_NO_PACKAGE\"} 1\n" },
		  { NULL } },
		{ CHANGING,
		  { "\nkmodsmith_ready 0\n", "\nkmodsmith_state{state=\"CHANGING\"} 1\n" },
		  { "kmodsmith_driver_info", "kmodsmith_gpu_", "since" } },
		{ NO_GPU, { "\nkmodsmith_ready 1\n", "\nkmodsmith_state{state=\"NO_GPU\"} 1\n" }, { NULL } },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_json json_t *file = json_loads(rows[i].file, 0, NULL);
		assert_non_null(file);
		auto_str char *text = node_metrics_text(file);
		for (size_t k = 0; k < ARRAY_SIZE(rows[i].has) && rows[i].has[k]; k++)
			expect(strstr(text, rows[i].has[k]), rows[i].has[k]);
		for (size_t k = 0; k < ARRAY_SIZE(rows[i].lacks) && rows[i].lacks[k]; k++)
			expect(!strstr(text, rows[i].lacks[k]), rows[i].lacks[k]);
	}
}

static void test_escapes(void **state)
{
	(void)state;
	char *text = NULL;
	prometheus_label(&text, "a", "x\"\\\ny", ",");
	prometheus_label(&text, "b", NULL, "}");
	assert_string_equal(text, "a=\"x\\\"\\\\\\ny\",b=\"\"}");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_samples), cmocka_unit_test(test_escapes) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
