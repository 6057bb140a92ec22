// SPDX-License-Identifier: Apache-2.0
#include "gpu_check/gpu_record.h"

#include "base/core/date.h"
#include "base/process/boot_record.h"
#include "base/process/state_file.h"

static const char OF_BOOT[] = BOOT_RECORD_DIR "/gpus.json", OF_STATE[] = "gpus.json";

void gpu_record_done(struct gpu_record *r)
{
	free(r->driver);
	free(r->flavour);
	free(r->time);
	gpu_results_done(&r->results);
	*r = (struct gpu_record){ 0 };
}

json_t *gpu_record_json(const struct gpu_record *r)
{
	json_t *json = gpu_results_json(&r->results);
	json_object_set_new(json, "driver", json_text(r->driver));
	json_object_set_new(json, "flavour", json_text(r->flavour));
	json_object_set_new(json, "time", json_text(r->time));
	json_object_set_new(json, "allowed_missing", json_integer(r->allowed));
	return json;
}

static void parse_record(const json_t *json, struct gpu_record *ret)
{
	json_int_t allowed = json_integer_value(json_object_get(json, "allowed_missing"));
	ret->driver = json_text_dup(json, "driver");
	ret->flavour = json_text_dup(json, "flavour");
	ret->time = json_text_dup(json, "time");
	ret->allowed = allowed > 0 && allowed < INT32_MAX ? (unsigned)allowed : 0;
	gpu_results_parse(json, &ret->results);
}

int gpu_record_read(const struct root *host, const char *boot_id, struct gpu_record *ret, struct err *err)
{
	auto_json json_t *json = NULL;
	int r = boot_record_read(host, OF_BOOT, boot_id, &json, err);
	if (r > 0)
		parse_record(json, ret);
	return r;
}

int gpu_record_last(const struct root *state, struct gpu_record *ret, struct err *err)
{
	auto_json json_t *json = NULL;
	int r = state_file_load(state, OF_STATE, &json, err);
	if (r > 0)
		parse_record(json, ret);
	return r;
}

int gpu_record_write(const struct root *host, const struct root *state, const char *boot_id, const struct gpu_record *r,
		     struct err *err)
{
	auto_json json_t *json = gpu_record_json(r);
	struct err ignored;
	if (boot_record_write(host, OF_BOOT, boot_id, json, err) == 0)
		return state ? json_put(state, OF_STATE, json, err) : 0;
	if (state)
		json_put(state, OF_STATE, json, &ignored);
	return -1;
}

int gpu_record_forget(const struct root *host, struct err *err)
{
	return root_unlink(host, OF_BOOT, err);
}

bool gpu_record_is_of(const struct gpu_record *r, const char *driver, const char *flavour)
{
	return r->driver && str_eq(r->driver, driver) && str_eq(r->flavour, flavour);
}

int gpu_record_measure(const struct gpu_start *start, struct gpu_record *ret, struct gpu_holds *ret_holds,
		       struct err *err)
{
	const struct modules *l = &start->facts->loaded;
	auto_gpu_record struct gpu_record r = { 0 };
	auto_str char *who = NULL;
	if (gpu_start_find_pending(start->kern, &who))
		return err_set(err, E_GPU_PENDING, "a start that began earlier has not ended (%s)", who);
	if (gpu_start_all(start, &r.results, ret_holds, err) < 0)
		return -1;
	r.driver = str_dup(l->version);
	r.flavour = str_dup(module_type_name(l->flavour));
	r.time = date_text(time(NULL));
	*ret = r;
	r = (struct gpu_record){ 0 };
	return 0;
}

int gpu_record_check(const struct gpu_record *r, struct err *err)
{
	const struct gpu_results *g = &r->results;
	int code = gpu_results_count(g, GPU_PENDING)             ? E_GPU_PENDING :
		   gpu_results_count(g, GPU_BROKEN) > r->allowed ? E_GPU_START :
		   gpu_results_count(g, GPU_UNTESTED)            ? E_GPU_UNTESTED :
								   0;
	if (!code)
		return 0;
	auto_str char *text = gpu_results_text(g);
	return err_set(err, code, "%s", text);
}
