// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_state/gpu_report.h"

#include "cluster/node_state/annotations.h"
#include "status/xid.h"

#include <stdio.h>

static const char *const kinds[GPU_FAULT_KINDS] = {
	[GPU_FAULT_XID] = "xid",          [GPU_FAULT_START] = "no-start",
	[GPU_FAULT_ANSWER] = "no-answer", [GPU_FAULT_COMPUTE] = "no-compute",
	[GPU_FAULT_HANGS] = "hangs",      [GPU_FAULT_RESET] = "reset-due",
	[GPU_FAULT_GONE] = "gone",
};

enum gpu_blame gpu_fault_blame(const struct gpu_fault *f)
{
	switch (f->kind) {
	case GPU_FAULT_XID:
		switch (xid_class(f->xid)) {
		case XID_DRIVER:
			return GPU_BLAMES_DRIVER;
		case XID_HARDWARE:
		case XID_RECOVERY:
			return GPU_BLAMES_HARDWARE;
		default:
			return GPU_BLAMES_NOBODY;
		}
	case GPU_FAULT_START:
	case GPU_FAULT_ANSWER:
	case GPU_FAULT_COMPUTE:
		return GPU_BLAMES_DRIVER;
	default:
		return GPU_BLAMES_HARDWARE;
	}
}

bool gpu_fault_is_same(const struct gpu_fault *a, const struct gpu_fault *b)
{
	return a->kind == b->kind && a->xid == b->xid;
}

const struct gpu_fault *gpu_report_worst(const struct gpu_report *r, enum gpu_blame least)
{
	const struct gpu_fault *worst = NULL;
	for (size_t i = 0; i < r->fault_count; i++)
		if (gpu_fault_blame(&r->faults[i]) >= least &&
		    (!worst || gpu_fault_blame(&r->faults[i]) > gpu_fault_blame(worst)))
			worst = &r->faults[i];
	return worst;
}

const struct gpu_fault *gpu_report_broken(const struct gpu_report *r)
{
	enum { FALLEN_OFF_THE_BUS = 79 };
	for (size_t i = 0; i < r->fault_count; i++) {
		const struct gpu_fault *f = &r->faults[i];
		if (f->kind != GPU_FAULT_XID || f->xid == FALLEN_OFF_THE_BUS || xid_class(f->xid) == XID_RECOVERY)
			return f;
	}
	return NULL;
}

void gpu_report_object(const struct gpu_report *r, const struct gpu_fault *fault, char ret[GPU_FAULT_TEXT])
{
	*ret = '\0';
	if (fault && fault->kind == GPU_FAULT_XID)
		snprintf(ret, GPU_FAULT_TEXT, "%s Xid %u, %s", fault->gpu, fault->xid, r->model);
	else if (fault)
		snprintf(ret, GPU_FAULT_TEXT, "%s %s, %s", fault->gpu, kinds[fault->kind], r->model);
}

void gpu_report_add(struct gpu_report *r, const struct gpu_fault *fault)
{
	size_t at = 0;
	enum gpu_blame blame = gpu_fault_blame(fault);
	if (blame == GPU_BLAMES_NOBODY)
		return;
	while (at < r->fault_count && gpu_fault_blame(&r->faults[at]) >= blame)
		at++;
	bool is_full = r->fault_count == GPU_FAULTS;
	r->more = (uint16_t)(r->more + is_full);
	if (at == GPU_FAULTS)
		return;
	memmove(&r->faults[at + 1], &r->faults[at], (r->fault_count - at - is_full) * sizeof(*r->faults));
	r->faults[at] = *fault;
	r->fault_count = (uint16_t)(r->fault_count + !is_full);
}

void gpu_report_add_model(struct gpu_report *r, const char *name)
{
	char word[GPU_MODEL_TEXT];
	size_t len = 0, has = strlen(r->model);
	for (const char *c = name; *c && len < sizeof(word) - 1; c++)
		word[len++] = (*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
					      strchr("._:-", *c) ?
				      *c :
				      '-';
	word[len] = '\0';
	for (const char *at = r->model, *part; (part = node_word_cut(&at, ',', &has));)
		if (has == len && memcmp(part, word, len) == 0)
			return;
	has = strlen(r->model);
	if (!len || has + (has != 0) + len >= sizeof(r->model))
		return;
	if (has)
		r->model[has++] = ',';
	memcpy(r->model + has, word, len + 1);
}

void gpu_report_text(const struct gpu_report *r, char *ret, size_t size)
{
	char works[8] = "-";
	*ret = '\0';
	if (!r->is_known)
		return;
	if (r->is_measured)
		snprintf(works, sizeof(works), "%u", r->works);
	size_t len = (size_t)snprintf(ret, size, "%s/%u %s %s", works, r->count, *r->driver ? r->driver : "-",
				      *r->model ? r->model : "-");
	for (size_t i = 0; i < r->fault_count && len < size; i++) {
		const struct gpu_fault *f = &r->faults[i];
		len += (size_t)snprintf(ret + len, size - len, " %s=%s", f->gpu, kinds[f->kind]);
		if (f->kind == GPU_FAULT_XID && len < size)
			len += (size_t)snprintf(ret + len, size - len, "%ux%u", f->xid, f->times);
	}
	if (r->more && len < size)
		snprintf(ret + len, size - len, " +%u", r->more);
}

static bool parse_number(const char *text, size_t len, uint16_t *ret)
{
	uint64_t number;
	auto_str char *word = str_ndup(text, len);
	if (!str_u64(word, 10, &number) || number > UINT16_MAX)
		return false;
	*ret = (uint16_t)number;
	return true;
}

static bool copy_plain(char *to, size_t size, const char *from, size_t len)
{
	static const char plain[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._:,-";
	if (len >= size || strspn(from, plain) < len)
		return false;
	memcpy(to, from, len);
	to[len] = '\0';
	return true;
}

static bool parse_fault(const char *word, size_t len, struct gpu_fault *ret)
{
	size_t address = strcspn(word, "= ");
	*ret = (struct gpu_fault){ 0 };
	if (!address || address >= len || strspn(word, "0123456789abcdef:.") != address ||
	    !copy_plain(ret->gpu, sizeof(ret->gpu), word, address))
		return false;
	const char *what = word + address + 1;
	size_t left = len - address - 1, prefix = strlen(kinds[GPU_FAULT_XID]);
	for (enum gpu_fault_kind k = GPU_FAULT_START; k < GPU_FAULT_KINDS; k++)
		if (strlen(kinds[k]) == left && memcmp(kinds[k], what, left) == 0) {
			ret->kind = k;
			return true;
		}
	if (left <= prefix || memcmp(what, kinds[GPU_FAULT_XID], prefix) != 0)
		return false;
	size_t digits = strspn(what + prefix, "0123456789"), rest = prefix + digits + 1;
	return rest < left && what[rest - 1] == 'x' && parse_number(what + prefix, digits, &ret->xid) &&
	       parse_number(what + rest, left - rest, &ret->times);
}

bool gpu_report_parse(const char *text, struct gpu_report *ret)
{
	struct gpu_report r = { .is_known = true };
	struct gpu_fault fault;
	size_t len;
	const char *at = text, *part = node_word_cut(&at, ' ', &len);
	const char *slash = part ? memchr(part, '/', len) : NULL;
	if (!slash || !parse_number(slash + 1, len - (size_t)(slash + 1 - part), &r.count))
		return false;
	r.is_measured = parse_number(part, (size_t)(slash - part), &r.works);
	if (!r.is_measured && (slash != part + 1 || *part != '-'))
		return false;
	if (!(part = node_word_cut(&at, ' ', &len)) || !copy_plain(r.driver, sizeof(r.driver), part, len) ||
	    !(part = node_word_cut(&at, ' ', &len)) || !copy_plain(r.model, sizeof(r.model), part, len))
		return false;
	while ((part = node_word_cut(&at, ' ', &len))) {
		if (parse_fault(part, len, &fault))
			gpu_report_add(&r, &fault);
		else if (len > 1 && *part == '+')
			parse_number(part + 1, len - 1, &r.more);
	}
	*ret = r;
	return true;
}
