// SPDX-License-Identifier: Apache-2.0
#include "status/status_file.h"

#include "base/core/date.h"
#include "devices/cdi_spec_file.h"

static const char DIR_NAME[] = "run/kmodsmith", FILE_NAME[] = "run/kmodsmith/status.json";

static json_t *now_json(void)
{
	auto_str char *now = date_text(time(NULL));
	return json_string(now);
}

int publish_read(const struct root *root, const char *boot_id, json_t **ret, struct err *err)
{
	auto_json json_t *file = NULL;
	int r = json_read(root, FILE_NAME, &file, err);
	if (r <= 0)
		return r;
	if (!boot_id || !str_eq(json_string_value(json_object_get(file, "boot_id")), boot_id))
		return 0;
	*ret = TAKE(file);
	return 1;
}

// What cannot be read is replaced.
static json_t *read_old(const struct root *root, const char *boot_id)
{
	struct err ignored;
	json_t *old = NULL;
	return publish_read(root, boot_id, &old, &ignored) > 0 ? old : NULL;
}

static const char *state_of(const json_t *file)
{
	return json_string_value(json_object_get(file, "state"));
}

static int write_file(const struct root *root, const struct host *host, json_t *file, const json_t *old,
		      struct err *err)
{
	json_t *since = json_object_get(old, "since");
	json_object_set_new(file, "boot_id", json_text(host->boot_id));
	json_object_set_new(file, "build_id", json_text(host->build_id));
	json_object_set_new(file, "time", now_json());
	json_object_set_new(file, "since",
			    since && str_eq(state_of(old), state_of(file)) ? json_incref(since) : now_json());
	return root_mkdirs(root, DIR_NAME, 0755, err) < 0 ? -1 : json_put(root, FILE_NAME, file, err);
}

// Nothing of what was measured before holds from here on.
static json_t *blank(const char *state)
{
	return json_pack("{s:s, s:b, s:n, s:[], s:[], s:n}", "state", state, "ready", 0, "compatible", "checks",
			 "nodes", "last_run");
}

int publish_step(const struct root *root, const struct host *host, const char *step, const char *subject,
		 bool is_touching, struct err *err)
{
	auto_json json_t *old = read_old(root, host->boot_id), *file = is_touching ? blank("CHANGING") :
								       old         ? json_copy(old) :
										     blank("NOT_READY");
	json_t *last = json_object_get(old, "last_run");
	if (last)
		json_object_set(file, "last_run", last);
	json_object_set_new(file, "run",
			    json_pack("{s:s, s:o, s:o, s:i}", "step", step, "subject", json_text(subject), "since",
				      now_json(), "pid", (int)getpid()));
	if (is_touching && cdi_keep_withdraw(root, err) < 0)
		return -1;
	return write_file(root, host, file, old, err);
}

// What differs between two measurements of the same state.
static json_t *lasting(const json_t *file)
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
static bool is_said(const json_t *old, const json_t *file, const struct err *failure)
{
	const json_t *last = json_object_get(old, "last_run");
	if (failure || !last || !json_is_null(json_object_get(last, "error")))
		return false;
	auto_json json_t *a = lasting(old), *b = lasting(file);
	return json_equal(a, b);
}

int publish_end(const struct root *root, const struct facts *now, const struct status *status,
		const struct publish_end *end, struct err *err)
{
	static const struct watch none;
	auto_json json_t *old = read_old(root, now->host.boot_id), *file = report_json(now, status);
	json_object_set_new(file, "run", json_null());
	if (end->failure && status->has_gpu && !status->is_ready)
		json_object_set_new(file, "state", json_string("FAILED"));
	if (is_said(old, file, end->failure))
		return 0;
	json_object_set_new(file, "last_run",
			    json_pack("{s:s, s:o, s:i, s:o, s:o}", "outcome", end->outcome, "time", now_json(), "pid",
				      (int)getpid(), "error", end->failure ? report_error(end->failure) : json_null(),
				      "phases", report_phases(end->watch ? end->watch : &none)));
	return write_file(root, &now->host, file, old, err) < 0 ? -1 : 1;
}

int publish_status(const struct root *root, const struct facts *now, const struct status *status, struct err *err)
{
	auto_json json_t *old = read_old(root, now->host.boot_id), *file = report_json(now, status);
	json_t *last = json_object_get(old, "last_run");
	if (json_is_object(json_object_get(old, "run")))
		return 0;
	json_object_set_new(file, "run", json_null());
	json_object_set_new(file, "last_run", last ? json_incref(last) : json_null());
	return write_file(root, &now->host, file, old, err) < 0 ? -1 : 1;
}
