// SPDX-License-Identifier: Apache-2.0
#include "status/node_metrics.h"

#include "base/core/date.h"
#include "base/formats/prometheus.h"

static const char *text_in(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static void add_gauge(char **text, const char *name, const char *help, long long value)
{
	prometheus_head(text, name, "gauge", help);
	str_add(text, "%s %lld\n", name, value);
}

static void add_time(char **text, const char *name, const char *help, const char *date)
{
	time_t at;
	if (date && date_parse(date, &at))
		add_gauge(text, name, help, (long long)at);
}

// One sample for each state, so that none comes and goes.
static void add_states(char **text, const char *now)
{
	static const char *const states[] = { "READY", "NOT_READY", "CHANGING", "FAILED", "NO_GPU" };
	prometheus_head(text, "kmodsmith_state", "gauge", "1 for the state that the node is in.");
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		str_add(text, "kmodsmith_state{");
		prometheus_label(text, "state", states[i], "}");
		str_add(text, " %d\n", str_eq(now, states[i]));
	}
}

static long long count_of(const json_t *functions, const char *kind)
{
	long long count = 0;
	for (size_t i = 0; i < json_array_size(functions); i++)
		count += str_eq(text_in(json_array_get(functions, i), "kind"), kind);
	return count;
}

static void add_driver(char **text, const json_t *file)
{
	const json_t *driver = json_object_get(file, "driver"), *kernel = json_object_get(file, "kernel");
	const json_t *gpus = json_object_get(file, "gpus");
	if (!kernel)
		return;
	prometheus_head(text, "kmodsmith_driver_info", "gauge", "1; the driver that is loaded, in which kernel.");
	str_add(text, "kmodsmith_driver_info{");
	prometheus_label(text, "driver", text_in(driver, "version"), ",");
	prometheus_label(text, "flavour", text_in(driver, "flavour"), ",");
	prometheus_label(text, "kernel", text_in(kernel, "release"), ",");
	prometheus_label(text, "kmodsmith", KMODSMITH_VERSION, "}");
	str_add(text, " 1\n");
	add_gauge(text, "kmodsmith_gpus", "NVIDIA GPUs on the PCI bus.", count_of(gpus, "gpu"));
}

// Of GPUs that were measured: a few dozen at most.
static void add_gpus(char **text, const json_t *check)
{
	const json_t *gpus = json_object_get(check, "gpus");
	if (!json_array_size(gpus))
		return;
	add_time(text, "kmodsmith_gpu_check_timestamp_seconds", "When the GPUs were measured last.",
		 text_in(check, "time"));
	prometheus_head(text, "kmodsmith_gpu_works", "gauge",
			"1: when it was measured last, the GPU did what its level says (start: it boots).");
	for (size_t i = 0; i < json_array_size(gpus); i++) {
		const json_t *gpu = json_array_get(gpus, i);
		str_add(text, "kmodsmith_gpu_works{");
		prometheus_label(text, "gpu", text_in(gpu, "address"), ",");
		prometheus_label(text, "level", text_in(gpu, "level"), ",");
		prometheus_label(text, "outcome", text_in(gpu, "outcome"), "}");
		str_add(text, " %d\n", str_eq(text_in(gpu, "outcome"), "works"));
	}
}

static void add_last_run(char **text, const json_t *last)
{
	const json_t *error = json_object_get(last, "error");
	if (!json_is_object(last))
		return;
	add_time(text, "kmodsmith_last_run_timestamp_seconds",
		 "When the last run ended that changed or measured anything.", text_in(last, "time"));
	add_gauge(text, "kmodsmith_last_run_failed", "1: the last run failed.", json_is_object(error));
	prometheus_head(text, "kmodsmith_last_run_info", "gauge", "1; what became of the last run, and its error.");
	str_add(text, "kmodsmith_last_run_info{");
	prometheus_label(text, "outcome", text_in(last, "outcome"), ",");
	prometheus_label(text, "code", text_in(error, "code"), "}");
	str_add(text, " 1\n");
}

char *node_metrics_text(const json_t *file)
{
	char *text = NULL;
	const char *state = text_in(file, "state");
	add_gauge(&text, "kmodsmith_ready", "1: the driver works, by every check; also without a GPU.",
		  json_is_true(json_object_get(file, "ready")) || str_eq(state, "NO_GPU"));
	add_states(&text, state);
	add_time(&text, "kmodsmith_state_since_timestamp_seconds", "Since when the node is in its state.",
		 text_in(file, "since"));
	add_driver(&text, file);
	add_gpus(&text, json_object_get(file, "gpu_check"));
	add_last_run(&text, json_object_get(file, "last_run"));
	return text;
}
