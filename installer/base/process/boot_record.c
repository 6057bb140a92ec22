// SPDX-License-Identifier: Apache-2.0
#include "base/process/boot_record.h"

#include "base/process/state_file.h"

char *boot_record_id(const struct root *kern)
{
	struct err ignored;
	char *id = NULL;
	root_line(kern, "proc/sys/kernel/random/boot_id", &id, &ignored);
	return id;
}

bool boot_record_is_of(const json_t *record, const char *boot_id)
{
	const json_t *id = json_object_get(record, "boot_id");
	return str_eq(json_string_value(id ? id : json_object_get(record, "boot")), boot_id);
}

int boot_record_read(const struct root *root, const char *path, const char *boot_id, json_t **ret, struct err *err)
{
	auto_json json_t *record = NULL;
	int r = state_file_load(root, path, &record, err);
	if (r <= 0 || !boot_record_is_of(record, boot_id))
		return r < 0 ? -1 : 0;
	*ret = TAKE(record);
	return 1;
}

int boot_record_write(const struct root *root, const char *path, const char *boot_id, json_t *record, struct err *err)
{
	auto_str char *dir = str_ndup(path, (size_t)(strrchr(path, '/') - path));
	json_object_set_new(record, "boot_id", json_text(boot_id));
	state_file_mend(root, path);
	return root_mkdirs(root, dir, 0755, err) < 0 ? -1 : json_put(root, path, record, err);
}
