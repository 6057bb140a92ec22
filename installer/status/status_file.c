// SPDX-License-Identifier: Apache-2.0
#include "status/status_file.h"

#include "base/core/date.h"
#include "base/process/boot_record.h"
#include "base/process/log.h"
#include "devices/cdi_spec_file.h"
#include "status/node_metrics.h"

static const char FILE_NAME[] = BOOT_RECORD_DIR "/status.json", METRICS_DIR[] = BOOT_RECORD_DIR "/metrics",
		  METRICS[] = BOOT_RECORD_DIR "/metrics/node.prom";

static json_t *now_json(void)
{
	auto_str char *now = date_text(time(NULL));
	return json_string(now);
}

int status_file_read(const struct root *root, const char *boot_id, json_t **ret, struct err *err)
{
	auto_json json_t *file = NULL;
	int r = json_read(root, FILE_NAME, &file, err);
	if (r <= 0 || !boot_record_is_of(file, boot_id))
		return r < 0 ? -1 : 0;
	*ret = TAKE(file);
	return 1;
}

static json_t *read_old(const struct root *root, const char *boot_id)
{
	struct err ignored; // the write that follows says it
	json_t *old = NULL;
	return status_file_read(root, boot_id, &old, &ignored) > 0 ? old : NULL;
}

static const char *state_in(const json_t *file)
{
	return json_string_value(json_object_get(file, "state"));
}

// Writes the metrics. A file that cannot be written never fails the run.
static void write_metrics(const struct root *root, const json_t *file)
{
	struct err err;
	auto_str char *text = node_metrics_text(file), *old = NULL;
	if (root_read(root, METRICS, &old, NULL, &err) > 0 && str_eq(old, text))
		return;
	if (root_mkdirs(root, METRICS_DIR, 0755, &err) < 0 || root_put_or_remove(root, METRICS, text, &err) < 0)
		log_warn("no metrics: %s", err.text);
}

static int write_status_file(const struct root *root, const struct host *host, json_t *file, const json_t *old,
			     struct err *err)
{
	json_t *since = json_object_get(old, "since");
	json_object_set_new(file, "build_id", json_text(host->build_id));
	json_object_set_new(file, "time", now_json());
	json_object_set_new(file, "since",
			    since && str_eq(state_in(old), state_in(file)) ? json_incref(since) : now_json());
	if (boot_record_write(root, FILE_NAME, host->boot_id, file, err) < 0)
		return -1;
	write_metrics(root, file);
	return 0;
}

// Nothing of what was measured before holds from here on.
static json_t *unmeasured_json(const char *state)
{
	return json_pack("{s:s, s:b, s:n, s:[], s:[], s:n}", "state", state, "ready", 0, "compatible", "checks",
			 "nodes", "last_run");
}

int status_file_step(const struct root *root, const struct host *host, const char *step, const char *subject,
		     bool is_touching, struct err *err)
{
	auto_json json_t *old = read_old(root, host->boot_id), *file = is_touching ? unmeasured_json("CHANGING") :
								       old         ? json_copy(old) :
										     unmeasured_json("NOT_READY");
	json_t *last = json_object_get(old, "last_run");
	if (last)
		json_object_set(file, "last_run", last);
	json_object_set_new(file, "run",
			    json_pack("{s:s, s:o, s:o, s:i}", "step", step, "subject", json_text(subject), "since",
				      now_json(), "pid", (int)getpid()));
	if (is_touching && cdi_spec_file_withdraw(root, err) < 0)
		return -1;
	return write_status_file(root, host, file, old, err);
}

// What differs between two measurements of the same state.
static json_t *lasting_json(const json_t *file)
{
	static const char *const moments[] = { "time", "since", "last_run", "boot_id", "build_id" }, *const uses[] = {
		"refcount", "holders"
	};
	json_t *copy = json_deep_copy(file), *module;
	size_t i;
	for (i = 0; i < ARRAY_SIZE(moments); i++)
		json_object_del(copy, moments[i]);
	json_array_foreach(json_object_get(copy, "modules"), i, module)
	{
		for (size_t k = 0; k < ARRAY_SIZE(uses); k++)
			json_object_del(module, uses[k]);
	}
	return copy;
}

// A start that found everything as it should be leaves the file alone when it says so.
static bool is_unchanged(const json_t *old, const json_t *file, const struct err *failure)
{
	const json_t *last = json_object_get(old, "last_run");
	if (failure || !last || !json_is_null(json_object_get(last, "error")))
		return false;
	auto_json json_t *a = lasting_json(old), *b = lasting_json(file);
	return json_equal(a, b);
}

int status_file_end(const struct root *root, const struct facts *now, const struct status *status,
		    const struct status_file_end *end, struct err *err)
{
	static const struct progress none;
	auto_json json_t *old = read_old(root, now->host.boot_id), *file = status_json_all(now, status);
	json_object_set_new(file, "run", json_null());
	if (end->failure && status->has_gpu && !status->is_ready)
		json_object_set_new(file, "state", json_string("FAILED"));
	if (is_unchanged(old, file, end->failure)) {
		write_metrics(root, old);
		return 0;
	}
	json_object_set_new(file, "last_run",
			    json_pack("{s:s, s:o, s:i, s:o, s:o}", "outcome", end->outcome, "time", now_json(), "pid",
				      (int)getpid(), "error",
				      end->failure ? status_json_error(end->failure) : json_null(), "phases",
				      status_json_phases(end->progress ? end->progress : &none)));
	return write_status_file(root, &now->host, file, old, err) < 0 ? -1 : 1;
}

int status_file_refresh(const struct root *root, const struct facts *now, const struct status *status, struct err *err)
{
	auto_json json_t *old = read_old(root, now->host.boot_id), *file = status_json_all(now, status);
	json_t *last = json_object_get(old, "last_run");
	if (json_is_object(json_object_get(old, "run")))
		return 0;
	json_object_set_new(file, "run", json_null());
	json_object_set_new(file, "last_run", last ? json_incref(last) : json_null());
	return write_status_file(root, &now->host, file, old, err) < 0 ? -1 : 1;
}
