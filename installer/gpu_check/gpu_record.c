// SPDX-License-Identifier: Apache-2.0
#include "gpu_check/gpu_record.h"

#include "base/core/date.h"
#include "base/process/boot_record.h"
#include "base/process/state_file.h"
#include "driver_root/root_record.h"
#include "gpu_check/gpu_helper.h"

#include <unistd.h>

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
	json_object_set_new(json, "load", json_integer((json_int_t)r->load));
	json_object_set_new(json, "time", json_text(r->time));
	json_object_set_new(json, "allowed_missing", json_integer(r->allowed));
	json_object_set_new(json, "waived", json_boolean(r->is_waived));
	return json;
}

static void parse_record(const json_t *json, struct gpu_record *ret)
{
	json_int_t allowed = json_integer_value(json_object_get(json, "allowed_missing"));
	ret->driver = json_text_dup(json, "driver");
	ret->flavour = json_text_dup(json, "flavour");
	ret->load = (uint64_t)json_integer_value(json_object_get(json, "load"));
	ret->time = json_text_dup(json, "time");
	ret->is_waived = json_is_true(json_object_get(json, "waived"));
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
	if (gpu_record_check(r, &ignored) < 0) // on a full disk the last one would go on saying that they work
		root_unlink(host, OF_BOOT, &ignored);
	if (state)
		json_put(state, OF_STATE, json, &ignored);
	return -1;
}

static void begin_record(const struct modules *loaded, struct gpu_record *r)
{
	r->driver = str_dup(loaded->version);
	r->flavour = str_dup(module_type_name(loaded->flavour));
	r->time = date_text(time(NULL));
}

int gpu_record_waive(const struct root *host, const char *boot_id, const struct modules *loaded, struct err *err)
{
	auto_gpu_record struct gpu_record r = { .is_waived = true };
	begin_record(loaded, &r);
	return gpu_record_write(host, NULL, boot_id, &r, err); // the last measurement outlives it
}

bool gpu_record_is_of(const struct gpu_record *r, const char *driver, const char *flavour)
{
	return r->driver && str_eq(r->driver, driver) && str_eq(r->flavour, flavour);
}

bool gpu_record_is_valid(const struct gpu_record *r, const struct modules *loaded)
{
	return gpu_record_is_of(r, loaded->version, module_type_name(loaded->flavour)) &&
	       (!r->load || r->load == loaded->load);
}

// Where the user space of the loaded driver is, absolute in host: its own, or that of the driver root; NULL = nowhere.
static char *find_user_space(const struct root *host, const char *boot, const char *version)
{
	auto_str char *own = gpu_helper_dir(host, version), *dir = NULL;
	auto_root_record struct root_record now = { 0 };
	auto_root struct root exported = ROOT_NONE;
	struct err ignored;
	if (own)
		return TAKE(own);
	if (root_record_read(host, boot, &now, &ignored) < 0 || !now.dir ||
	    root_sub(host, now.dir, &exported, &ignored) < 0)
		return NULL;
	dir = gpu_helper_dir(&exported, version);
	return dir ? str_fmt("/%s%s", now.dir, dir) : NULL;
}

static bool waits_for_fabric(const struct gpu_result *g)
{
	return g->outcome == GPU_UNTESTED && gpu_result_is_off_fabric(g);
}

// As one that was only started, to be asked again.
static void forget_answer(struct gpu_result *g)
{
	free(TAKE(g->reason));
	free(TAKE(g->note));
	g->level = GPU_START;
	g->outcome = GPU_WORKS;
}

// What nobody could find out says nothing about the GPU.
static void stay_at(struct gpu_result *g, enum gpu_level level)
{
	str_add(&g->note, "%snot asked to %s: %s", g->note ? "; " : "", gpu_level_name(g->level), g->reason);
	free(TAKE(g->reason));
	g->level = level;
	g->outcome = GPU_WORKS;
}

// The process that hangs, as of gpu_helper_answer().
static pid_t ask_once(const struct gpu_check *check, struct gpu_helper *helper, struct gpu_results *r)
{
	enum { ANSWER_MS = 30 * 1000, COMPUTE_MS = 60 * 1000 };
	helper->deadline_ms = ANSWER_MS;
	pid_t left = gpu_helper_answer(helper, r);
	helper->deadline_ms = COMPUTE_MS;
	for (size_t i = 0; i < r->count && check->deepest == GPU_COMPUTE && !left; i++) {
		if (r->items[i].outcome != GPU_WORKS)
			continue;
		progress_tick(check->start.node->progress);
		left = gpu_helper_compute(helper, &r->items[i]);
	}
	return left;
}

// The GPUs are held meanwhile: one that is closed leaves the fabric.
static bool wait_for_fabric(const struct gpu_check *check, struct gpu_results *r, int64_t until, bool is_first)
{
	enum { NAP_MS = 1000 };
	int64_t left = until - clock_ms();
	size_t waiting = 0;
	for (size_t i = 0; i < r->count; i++)
		waiting += waits_for_fabric(&r->items[i]);
	if (!waiting || left <= 0)
		return false;
	if (is_first)
		progress_note(check->start.node->progress, "%zu GPU%s wait%s for the NVLink fabric, at most %d s",
			      waiting, str_plural(waiting), waiting == 1 ? "s" : "", (int)(left / 1000));
	for (size_t i = 0; i < r->count; i++)
		if (r->items[i].outcome == GPU_WORKS || waits_for_fabric(&r->items[i]))
			forget_answer(&r->items[i]);
	progress_tick(check->start.node->progress);
	usleep((useconds_t)(left < NAP_MS ? left : NAP_MS) * 1000);
	return true;
}

static void ask_further(const struct gpu_check *check, struct gpu_results *r)
{
	const struct facts *f = check->start.facts;
	int64_t until = clock_ms() + check->fabric_ms;
	auto_str char *dir = find_user_space(check->start.node->host, f->host.boot_id, f->loaded.version);
	struct gpu_helper helper = { .root = check->start.node->host, .dir = dir, .version = f->loaded.version };
	if (!dir)
		return;
	for (bool is_first = true; ask_once(check, &helper, r) == 0 && wait_for_fabric(check, r, until, is_first);)
		is_first = false;
	for (size_t i = 0; i < r->count; i++) {
		struct gpu_result *g = &r->items[i];
		if (g->outcome == GPU_UNTESTED && g->level > GPU_START && !(check->fabric_ms && waits_for_fabric(g)))
			stay_at(g, g->level - 1);
	}
}

int gpu_record_measure(const struct gpu_check *check, struct gpu_record *ret, struct gpu_holds *ret_holds,
		       struct err *err)
{
	const struct gpu_start *start = &check->start;
	int64_t begun = clock_ms();
	auto_gpu_record struct gpu_record r = { 0 };
	auto_str char *who = NULL;
	if (gpu_start_find_pending(start->node->kern, &who))
		return err_set(err, E_GPU_PENDING, "a start that began earlier has not ended (%s)", who);
	if (gpu_start_all(start, &r.results, ret_holds, err) < 0)
		return -1;
	if (check->deepest > GPU_START && !start->node->sys->record && !gpu_results_count(&r.results, GPU_PENDING))
		ask_further(check, &r.results);
	r.results.seconds = (double)(clock_ms() - begun) / 1000;
	begin_record(&start->facts->loaded, &r);
	r.load = start->facts->loaded.load;
	*ret = r;
	r = (struct gpu_record){ 0 };
	return 0;
}

static bool does_start(const struct gpu_results *g)
{
	for (size_t i = 0; i < g->count; i++)
		if (g->items[i].outcome == GPU_BROKEN && g->items[i].level <= GPU_START)
			return false;
	return true;
}

int gpu_record_check(const struct gpu_record *r, struct err *err)
{
	const struct gpu_results *g = &r->results;
	int code = gpu_results_count(g, GPU_PENDING)             ? E_GPU_PENDING :
		   gpu_results_count(g, GPU_BROKEN) > r->allowed ? (does_start(g) ? E_GPU_FAULT : E_GPU_START) :
		   gpu_results_count(g, GPU_UNTESTED)            ? E_GPU_UNTESTED :
								   0;
	if (!code)
		return 0;
	auto_str char *text = gpu_results_text(g);
	return err_set(err, code, "%s", text);
}
