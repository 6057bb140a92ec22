// SPDX-License-Identifier: Apache-2.0
#include "status/gpu_labels.h"

#include <ctype.h>

static const char OURS[] = GPU_LABELS_DIR "/kmodsmith", GFD[] = GPU_LABELS_DIR "/gfd",
		  GPUS[] = "proc/driver/nvidia/gpus";

// A label's value: letters, digits, "-", "_" and ".", at most 63, the first and last a letter or digit. A blank is a
// "-", as GFD has it. NULL = nothing is left.
static char *label_value(const char *text)
{
	enum { MOST = 63 };
	while (*text && !isalnum((unsigned char)*text))
		text++;
	char *value = str_ndup(text, MOST);
	for (char *c = value; *c; c++)
		*c = isalnum((unsigned char)*c) || *c == '_' || *c == '.' ? *c : '-';
	for (size_t len = strlen(value); len && !isalnum((unsigned char)value[len - 1]); len--)
		value[len - 1] = '\0';
	if (!*value)
		free(TAKE(value));
	return value;
}

// Of all GPUs; NULL = they differ, or the driver does not say.
static char *product(const struct root *kern)
{
	static const char MODEL[] = "Model:";
	struct err ignored;
	auto_strv struct strv names = { 0 };
	auto_str char *all = NULL;
	root_list(kern, GPUS, &names, &ignored);
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *path = str_fmt("%s/%s/information", GPUS, names.items[i]), *text = NULL;
		char *line = root_read(kern, path, &text, NULL, &ignored) > 0 ? strstr(text, MODEL) : NULL;
		if (!line)
			return NULL;
		line += sizeof(MODEL) - 1;
		line[strcspn(line, "\n")] = '\0';
		auto_str char *one = label_value(str_trim(line));
		if (!one || (all && !str_eq(all, one)))
			return NULL;
		str_set(&all, one);
	}
	return TAKE(all);
}

// Of all GPUs, in lower case; NULL = they differ. *ret_count: how many there are.
static char *family(const json_t *gpus, size_t *ret_count)
{
	size_t i;
	const json_t *gpu;
	auto_str char *all = NULL;
	bool is_mixed = false;
	*ret_count = 0;
	json_array_foreach(gpus, i, gpu)
	{
		const char *name = json_string_value(json_object_get(gpu, "architecture"));
		if (!str_eq(json_string_value(json_object_get(gpu, "kind")), "gpu"))
			continue;
		++*ret_count;
		is_mixed |= !name || (all && !str_eq(all, name));
		str_set(&all, name);
	}
	if (is_mixed || !all)
		return NULL;
	if (str_eq(all, "Ada"))
		return str_dup("ada-lovelace");
	for (char *c = all; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	return TAKE(all);
}

char *gpu_labels_text(const json_t *status, const struct root *kern)
{
	size_t count;
	auto_strv struct strv parts = { 0 };
	const char *version = json_string_value(json_object_get(json_object_get(status, "driver"), "version"));
	if (!str_eq(json_string_value(json_object_get(status, "state")), "READY") || !version)
		return NULL;
	auto_str char *model = product(kern), *name = family(json_object_get(status, "gpus"), &count);
	strv_split(&parts, version, ".");
	char *text = str_fmt("nvidia.com/gpu.present=true\nnvidia.com/gpu.count=%zu\n", count);
	if (model)
		str_add(&text, "nvidia.com/gpu.product=%s\n", model);
	if (name)
		str_add(&text, "nvidia.com/gpu.family=%s\n", name);
	str_add(&text, "nvidia.com/cuda.driver-version.full=%s\n", version);
	static const char *const names[] = { "major", "minor", "revision" };
	for (size_t i = 0; i < ARRAY_SIZE(names) && i < parts.count; i++)
		str_add(&text, "nvidia.com/cuda.driver-version.%s=%s\n", names[i], parts.items[i]);
	return text;
}

int gpu_labels_write(const struct root *host, const char *text, struct err *err)
{
	auto_str char *old = NULL;
	if (root_read(host, OURS, &old, NULL, err) < 0)
		return -1;
	if (root_exists(host, GFD))
		text = NULL;
	if (!text)
		return old ? root_unlink(host, OURS, err) : 0;
	if (str_eq(old, text))
		return 0;
	return root_mkdirs(host, GPU_LABELS_DIR, 0755, err) < 0 ||
			       root_put(host, OURS, text, strlen(text), 0644, err) < 0 ?
		       -1 :
		       1;
}
