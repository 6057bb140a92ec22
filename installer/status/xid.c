// SPDX-License-Identifier: Apache-2.0
#include "status/xid.h"

#include "base/formats/prometheus.h"
#include "base/process/boot_record.h"

#include <stdio.h>

static const char RECORD[] = BOOT_RECORD_DIR "/xid.json", METRICS_DIR[] = BOOT_RECORD_DIR "/metrics",
		  METRICS[] = BOOT_RECORD_DIR "/metrics/xid.prom";

enum { RECOVERY_ACTION_CHANGED = 154 };

// NULL: there is no room for one more.
static struct xid_count *count_xid(struct xids *x, const char *gpu, unsigned xid, unsigned long times)
{
	for (size_t i = 0; i < x->count; i++) {
		if (x->items[i].xid == xid && str_eq(x->items[i].gpu, gpu)) {
			x->items[i].count += times;
			return &x->items[i];
		}
	}
	if (x->count == XIDS_MOST) {
		x->others += times;
		return NULL;
	}
	struct xid_count *one = &x->items[x->count++];
	*one = (struct xid_count){ .xid = xid, .count = times };
	snprintf(one->gpu, sizeof(one->gpu), "%s", gpu);
	return one;
}

// What was before speaks neither for nor against the driver that is loaded now.
static bool forget_earlier_driver(struct xids *x)
{
	bool is_any = false;
	for (size_t i = 0; i < x->count; i++) {
		is_any = is_any || x->items[i].loaded;
		x->items[i].loaded = 0;
	}
	return is_any;
}

bool xids_take(struct xids *x, const char *record, size_t len)
{
	enum { KERNEL = 8 }; // priorities below it
	unsigned priority, domain, bus, device, xid;
	unsigned long long sequence;
	char gpu[16];
	auto_str char *text = str_ndup(record, len);
	if (sscanf(text, "%u,%llu,", &priority, &sequence) != 2 || sequence < x->next)
		return false;
	// What was overwritten before it was read may have been a load.
	bool is_changed = x->next && sequence > x->next && forget_earlier_driver(x);
	x->next = sequence + 1;
	const char *message = strchr(text, ';');
	if (!message || priority >= KERNEL)
		return is_changed;
	if (str_starts(message, ";NVRM: loading NVIDIA"))
		return forget_earlier_driver(x) || is_changed;
	if (sscanf(message, ";NVRM: Xid (PCI:%4x:%2x:%2x", &domain, &bus, &device) != 3)
		return is_changed;
	const char *end = strchr(message, ')'); // a MIG instance may stand before it
	if (!end || sscanf(end, "): %u,", &xid) != 1)
		return is_changed;
	snprintf(gpu, sizeof(gpu), "%04x:%02x:%02x.0", domain & 0xffff, bus & 0xff, device & 0xff);
	struct xid_count *one = count_xid(x, gpu, xid, 1);
	if (one)
		one->loaded = xid == RECOVERY_ACTION_CHANGED && strstr(end, " to 0x0 ") ? 0 : one->loaded + 1;
	return true;
}

int xids_read(const struct root *host, const char *boot_id, struct xids *ret, struct err *err)
{
	auto_json json_t *file = NULL;
	size_t i;
	json_t *one;
	*ret = (struct xids){ 0 };
	int r = boot_record_read(host, RECORD, boot_id, &file, err);
	if (r <= 0)
		return r;
	json_int_t next = json_integer_value(json_object_get(file, "next"));
	json_int_t others = json_integer_value(json_object_get(file, "others"));
	ret->next = next > 0 ? (uint64_t)next : 0;
	ret->others = others > 0 ? (unsigned long)others : 0;
	json_array_foreach(json_object_get(file, "xids"), i, one)
	{
		const char *gpu = json_string_value(json_object_get(one, "gpu"));
		json_int_t xid = json_integer_value(json_object_get(one, "xid"));
		json_int_t count = json_integer_value(json_object_get(one, "count"));
		json_int_t loaded = json_integer_value(json_object_get(one, "since_load"));
		struct xid_count *its = gpu && xid >= 0 && xid <= UINT32_MAX && count > 0 ?
						count_xid(ret, gpu, (unsigned)xid, (unsigned long)count) :
						NULL;
		if (its && loaded > 0 && loaded <= count)
			its->loaded = (unsigned long)loaded;
	}
	return 1;
}

static char *xids_metrics(const struct xids *x)
{
	char *text = NULL;
	prometheus_head(&text, "kmodsmith_xid_errors_total", "counter",
			"NVIDIA's errors (Xid) in the kernel log of this boot; without any there is no sample.");
	for (size_t i = 0; i < x->count; i++) {
		auto_str char *xid = str_fmt("%u", x->items[i].xid);
		str_add(&text, "kmodsmith_xid_errors_total{");
		prometheus_label(&text, "gpu", x->items[i].gpu, ",");
		prometheus_label(&text, "xid", xid, "}");
		str_add(&text, " %lu\n", x->items[i].count);
	}
	if (x->others)
		str_add(&text, "kmodsmith_xid_errors_total{gpu=\"\",xid=\"\"} %lu\n", x->others);
	return text;
}

int xids_write(const struct root *host, const char *boot_id, const struct xids *x, struct err *err)
{
	auto_json json_t *list = json_array();
	auto_str char *text = xids_metrics(x);
	for (size_t i = 0; i < x->count; i++)
		json_array_append_new(list,
				      json_pack("{s:s, s:I, s:I, s:I}", "gpu", x->items[i].gpu, "xid",
						(json_int_t)x->items[i].xid, "count", (json_int_t)x->items[i].count,
						"since_load", (json_int_t)x->items[i].loaded));
	auto_json json_t *file = json_pack("{s:O, s:I, s:I}", "xids", list, "others", (json_int_t)x->others, "next",
					   (json_int_t)x->next);
	// First the record: what it has not counted would be counted twice.
	if (boot_record_write(host, RECORD, boot_id, file, err) < 0)
		return -1;
	return root_mkdirs(host, METRICS_DIR, 0755, err) < 0 ? -1 : root_put_or_remove(host, METRICS, text, err);
}
