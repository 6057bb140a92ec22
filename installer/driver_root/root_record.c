// SPDX-License-Identifier: Apache-2.0
#include "driver_root/root_record.h"

#include "base/process/boot_record.h"
#include "base/process/state_file.h"
#include "driver_root/generation.h"
#include "precompiled/payload/version_check.h"

void root_record_done(struct root_record *x)
{
	free(x->dir);
	free(x->former);
	free(x->driver);
	free(x->payload);
	free(x->modules);
	free(x->sources);
	free(x->user_space);
	free(x->problem);
	*x = (struct root_record){ 0 };
}

static json_t *root_layout_json(const struct root_layout *layout)
{
	json_t *list = json_array();
	for (size_t i = 0; i < layout->count; i++) {
		const struct root_entry *p = &layout->items[i];
		json_array_append_new(list, p->is_own  ? json_pack("{s:s, s:b}", "path", p->path, "own", true) :
					    p->is_link ? json_pack("{s:o, s:o}", "path", json_text(p->path), "link",
								   json_text(p->source)) :
							 json_pack("{s:o, s:I, s:I, s:b}", "path", json_text(p->path),
								   "dev", (json_int_t)p->dev, "ino", (json_int_t)p->ino,
								   "read_only", p->is_read_only));
	}
	return list;
}

int root_record_write(const struct root *host, const char *boot, const struct root_record *x,
		      const struct root_layout *p, struct err *err)
{
	auto_json json_t *json =
		json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:o}", "boot", json_text(boot), "dir",
			  json_text(x->dir), "former", json_text(x->former), "driver", json_text(x->driver), "payload",
			  json_text(x->payload), "modules", json_text(x->modules), "sources", json_text(x->sources),
			  "generation", (int)x->generation, "pieces", root_layout_json(p));
	return root_mkdirs(host, BOOT_RECORD_DIR, 0755, err) < 0 ? -1 : json_put(host, ROOT_RECORD_FILE, json, err);
}

int root_record_restore(const struct root *host, const char *text, struct err *err)
{
	if (text)
		return root_put(host, ROOT_RECORD_FILE, text, strlen(text), 0644, err);
	return root_unlink(host, ROOT_RECORD_FILE, err) < 0 ? -1 : 0;
}

int root_record_drop_former(const struct root *host, struct err *err)
{
	auto_json json_t *json = NULL;
	int r = state_file_load(host, ROOT_RECORD_FILE, &json, err);
	if (r <= 0)
		return r;
	json_object_set_new(json, "former", json_null());
	return json_put(host, ROOT_RECORD_FILE, json, err);
}

unsigned root_record_generation(const struct root *host)
{
	struct err ignored;
	auto_json json_t *json = NULL;
	json_int_t number = state_file_load(host, ROOT_RECORD_FILE, &json, &ignored) > 0 ?
				    json_integer_value(json_object_get(json, "generation")) :
				    0;
	return number > 0 && number < UINT32_MAX / 2 ? (unsigned)number : 0;
}

static int read_root_record(const struct root *host, const char *boot, json_t **ret_json, struct root_record *x,
			    struct err *err)
{
	int r = state_file_load(host, ROOT_RECORD_FILE, ret_json, err);
	if (r <= 0 || !boot_record_is_of(*ret_json, boot))
		return r < 0 ? -1 : 0;
	x->dir = json_text_dup(*ret_json, "dir");
	x->driver = json_text_dup(*ret_json, "driver");
	x->payload = json_text_dup(*ret_json, "payload");
	x->modules = json_text_dup(*ret_json, "modules");
	x->sources = json_text_dup(*ret_json, "sources");
	x->former = json_text_dup(*ret_json, "former");
	x->generation = (unsigned)json_integer_value(json_object_get(*ret_json, "generation"));
	return x->dir && x->driver && x->payload;
}

int root_record_read(const struct root *host, const char *boot, struct root_record *ret, struct err *err)
{
	auto_root_record struct root_record x = { 0 };
	auto_json json_t *json = NULL;
	int r = read_root_record(host, boot, &json, &x, err);
	if (r <= 0)
		return r;
	*ret = x;
	x = (struct root_record){ 0 };
	return 1;
}

static void parse_root_layout(const json_t *json, struct root_layout *p)
{
	size_t i;
	json_t *item;
	json_array_foreach(json_object_get(json, "pieces"), i, item)
	{
		p->items = mem_grow(p->items, p->count + 1, sizeof(*p->items));
		p->items[p->count++] = (struct root_entry){
			.path = json_text_dup(item, "path"),
			.source = json_text_dup(item, "link"),
			.is_link = json_object_get(item, "link"),
			.is_own = json_is_true(json_object_get(item, "own")),
			.is_read_only = json_is_true(json_object_get(item, "read_only")),
			.dev = (uint64_t)json_integer_value(json_object_get(item, "dev")),
			.ino = (uint64_t)json_integer_value(json_object_get(item, "ino")),
		};
	}
}

// Where the container toolkit looks, in its order (nvidia-container-toolkit, internal/lookup/library.go).
char *root_record_libraries(const struct root *root, const char *version, char **ret_dir)
{
	static const char *const dirs[] = {
		"usr/lib64",
		"usr/lib/x86_64-linux-gnu",
		"usr/lib/aarch64-linux-gnu",
		"lib64",
		"usr/lib/x86_64-linux-gnu/nvidia/current",
		"lib/x86_64-linux-gnu",
		"usr/lib/aarch64-linux-gnu/nvidia/current",
		"lib/aarch64-linux-gnu",
	};
	struct err ignored;
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		auto_strv struct strv names = { 0 };
		root_list(root, dirs[i], &names, &ignored);
		for (size_t j = 0; j < names.count; j++)
			if (str_starts(names.items[j], "libcuda.so.") ||
			    str_starts(names.items[j], "libnvidia-ml.so.")) {
				auto_str char *found = payload_version(names.items[j]);
				if (!found || (version && !str_eq(found, version)))
					continue;
				*ret_dir = str_dup(dirs[i]);
				return TAKE(found);
			}
	}
	return NULL;
}

int root_record_measure(const struct node *node, const char *boot, struct root_record *ret, struct err *err)
{
	const struct root *host = node->host;
	auto_root_record struct root_record x = { 0 };
	auto_root_layout struct root_layout p = { 0 };
	auto_mount_ns struct mount_ns s = MOUNT_NS_NONE;
	auto_root struct root parent = ROOT_NONE, here = ROOT_NONE;
	auto_json json_t *json = NULL;
	int r = read_root_record(host, boot, &json, &x, err);
	if (r <= 0)
		return r;
	parse_root_layout(json, &p);
	if (!root_exists(host, x.dir)) {
		x.problem = str_fmt("/%s is gone", x.dir);
	} else {
		const char *base = strrchr(x.dir, '/') ? strrchr(x.dir, '/') + 1 : x.dir;
		auto_str char *above = str_ndup(x.dir, (size_t)(base - x.dir)), *libraries = NULL;
		const struct mount_point point = { .mount_ns = &s, .parent = &parent, .name = base };
		if (mount_ns_open(node, &s, err) < 0 || root_sub(host, *above ? above : ".", &parent, err) < 0 ||
		    root_sub(&parent, base, &here, err) < 0 || generation_check(&point, &p, &x.problem, err) < 0)
			return -1;
		x.user_space = root_record_libraries(&here, NULL, &libraries);
	}
	*ret = x;
	x = (struct root_record){ 0 };
	return 1;
}
