// SPDX-License-Identifier: Apache-2.0
#include "next_kernel/kernel_report.h"

#include "base/core/date.h"
#include "base/formats/prometheus.h"
#include "base/process/boot_record.h"

#include <stdio.h>

static const char RECORD[] = "run/kmodsmith/kernels.json", METRICS_DIR[] = "run/kmodsmith/metrics",
		  METRICS[] = "run/kmodsmith/metrics/kernels.prom", BLOCKED[] = "run/kmodsmith/reboot-blocked";

static const char *const names[] = { "ready", "building", "needs-build", "incomplete", "impossible" };

const char *kernel_verdict_name(enum kernel_verdict v)
{
	return names[v];
}

void kernel_report_done(struct kernel_report *f)
{
	for (size_t i = 0; i < f->count; i++) {
		free(f->items[i].release);
		free(f->items[i].where);
		free(f->items[i].evidence);
		free(f->items[i].package);
	}
	free(f->items);
	free(f->running);
	free(f->driver);
	*f = (struct kernel_report){ 0 };
}

const struct kernel_report_entry *kernel_report_find(const struct kernel_report *f, const char *release)
{
	for (size_t i = 0; i < f->count; i++)
		if (str_eq(f->items[i].release, release))
			return &f->items[i];
	return NULL;
}

void kernel_report_set(struct kernel_report_entry *k, enum kernel_verdict verdict, int code, const char *evidence)
{
	free(k->evidence);
	k->verdict = verdict;
	k->code = code;
	k->evidence = str_dup(evidence);
}

const struct kernel_report_entry *kernel_report_next(const struct kernel_report *f)
{
	const struct kernel_report_entry *first = NULL;
	for (size_t i = 0; i < f->count; i++) {
		const struct kernel_report_entry *k = &f->items[i];
		if (k->is_next && k->verdict != KERNEL_READY)
			return k;
		if (k->is_next && !first)
			first = k;
	}
	return first;
}

static const char *report_entry_code(const struct kernel_report_entry *k)
{
	return k->code ? err_info(k->code)->name : NULL;
}

char *kernel_report_line(const struct kernel_report_entry *k)
{
	const char *code = report_entry_code(k);
	return str_fmt("%s%s: %s%s%s: %s", k->release, k->is_next ? " may start next" : "", names[k->verdict],
		       code ? ": " : "", code ? code : "", k->evidence);
}

json_t *kernel_report_json(const struct kernel_report *f)
{
	json_t *list = json_array();
	for (size_t i = 0; i < f->count; i++) {
		const struct kernel_report_entry *k = &f->items[i];
		json_array_append_new(list,
				      json_pack("{s:o, s:o, s:b, s:s, s:o, s:o, s:o, s:o, s:s, s:i, s:I}", "release",
						json_text(k->release), "where", json_text(k->where), "next", k->is_next,
						"verdict", names[k->verdict], "code", json_text(report_entry_code(k)),
						"evidence", json_text(k->evidence), "next_step",
						json_text(k->code ? err_info(k->code)->next : NULL), "package",
						json_text(k->package), "stamp", k->stamp, "tries", (int)k->tries,
						"not_before_s", (json_int_t)k->not_before_s));
	}
	return json_pack("{s:o, s:o, s:b, s:o}", "running", json_text(f->running), "driver", json_text(f->driver),
			 "gate", f->is_gated, "kernels", list);
}

static bool read_report_entry(const json_t *json, struct kernel_report_entry *k)
{
	auto_str char *verdict = json_text_dup(json, "verdict"), *code = json_text_dup(json, "code"),
		      *stamp = json_text_dup(json, "stamp");
	const struct err_info *info = code ? err_info_by_name(code) : NULL;
	size_t v = 0;
	while (v < ARRAY_SIZE(names) && !str_eq(names[v], verdict))
		v++;
	if (v == ARRAY_SIZE(names) || !digest_is_hex(stamp) || !json_is_string(json_object_get(json, "release")))
		return false;
	*k = (struct kernel_report_entry){ .release = json_text_dup(json, "release"),
					   .where = json_text_dup(json, "where"),
					   .is_next = json_is_true(json_object_get(json, "next")),
					   .verdict = (enum kernel_verdict)v,
					   .code = info ? info->code : 0,
					   .evidence = json_text_dup(json, "evidence"),
					   .package = json_text_dup(json, "package"),
					   .tries = (unsigned)json_integer_value(json_object_get(json, "tries")),
					   .not_before_s = json_integer_value(json_object_get(json, "not_before_s")) };
	memcpy(k->stamp, stamp, sizeof(k->stamp));
	return true;
}

static int read_report_file(const struct root *host, const char *boot_id, json_t **ret, struct err *err)
{
	auto_json json_t *json = NULL;
	int r = boot_record_read(host, RECORD, boot_id, &json, err);
	if (r <= 0 || !json_is_string(json_object_get(json, "running")))
		return r < 0 ? -1 : 0;
	*ret = TAKE(json);
	return 1;
}

int kernel_report_read(const struct root *host, const char *boot_id, struct kernel_report *ret, struct err *err)
{
	size_t i;
	json_t *item;
	auto_json json_t *json = NULL;
	int r = read_report_file(host, boot_id, &json, err);
	if (r <= 0)
		return r;
	*ret = (struct kernel_report){ .running = json_text_dup(json, "running"),
				       .driver = json_text_dup(json, "driver"),
				       .is_gated = json_is_true(json_object_get(json, "gate")) };
	json_array_foreach(json_object_get(json, "kernels"), i, item)
	{
		struct kernel_report_entry k;
		if (!read_report_entry(item, &k))
			continue;
		ret->items = mem_grow(ret->items, ret->count + 1, sizeof(k));
		ret->items[ret->count++] = k;
	}
	return 1;
}

static char *metrics_text(const struct kernel_report *f)
{
	const struct kernel_report_entry *next = kernel_report_next(f);
	char *text = NULL;
	prometheus_head(&text, "kmodsmith_kernel_ready", "gauge",
			"Whether the node has a proven package for an installed kernel.");
	for (size_t i = 0; i < f->count; i++) {
		const struct kernel_report_entry *k = &f->items[i];
		str_add(&text, "kmodsmith_kernel_ready{");
		prometheus_label(&text, "kernel", k->release, ",");
		prometheus_label(&text, "next", k->is_next ? "true" : "false", ",");
		prometheus_label(&text, "verdict", names[k->verdict], ",");
		prometheus_label(&text, "code", report_entry_code(k) ? report_entry_code(k) : "", "}");
		str_add(&text, " %d\n", k->verdict == KERNEL_READY);
	}
	prometheus_head(&text, "kmodsmith_next_kernel_ready", "gauge",
			"Whether the node has a proven package for each kernel that may start next.");
	str_add(&text, "kmodsmith_next_kernel_ready %d\n", !next || next->verdict == KERNEL_READY);
	return text;
}

static int put_changed_text(const struct root *host, const char *path, const char *text, struct err *err)
{
	struct err ignored;
	auto_str char *old = NULL;
	if (root_read(host, path, &old, NULL, &ignored) > 0 && str_eq(old, text))
		return 0;
	return root_put(host, path, text, strlen(text), 0644, err);
}

// A reboot manager checks whether the file exists; its text is for people.
static int update_reboot_gate(const struct root *host, const struct kernel_report *f, struct err *err)
{
	const struct kernel_report_entry *next = kernel_report_next(f);
	if (!f->is_gated || !next || next->verdict == KERNEL_READY)
		return root_unlink(host, BLOCKED, err) < 0 ? -1 : 0;
	auto_str char *line = kernel_report_line(next), *text = str_fmt("%s\n", line);
	return put_changed_text(host, BLOCKED, text, err);
}

// The gate first: a reader may act on the verdict at once.
int kernel_report_write(const struct root *host, const char *boot_id, const struct kernel_report *f, struct err *err)
{
	struct err ignored;
	auto_json json_t *json = kernel_report_json(f), *old = NULL;
	auto_str char *metrics = metrics_text(f), *now = date_text(time(NULL));
	if (root_mkdirs(host, METRICS_DIR, 0755, err) < 0 || update_reboot_gate(host, f, err) < 0)
		return -1;
	if (put_changed_text(host, METRICS, metrics, err) < 0) {
		root_unlink(host, METRICS, &ignored); // the old ones may say that the next kernel is served
		return -1;
	}
	json_object_set_new(json, "boot_id", json_text(boot_id));
	if (read_report_file(host, boot_id, &old, &ignored) > 0)
		json_object_del(old, "time");
	if (old && json_equal(old, json))
		return 0;
	json_object_set_new(json, "time", json_string(now));
	return boot_record_write(host, RECORD, boot_id, json, err) < 0 ? -1 : 1;
}
