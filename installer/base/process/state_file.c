// SPDX-License-Identifier: Apache-2.0
#include "base/process/state_file.h"

#include "base/process/log.h"

#include <errno.h>

static bool is_damage(int code)
{
	static const int codes[] = { E_CONFIG, EISDIR, EINVAL, ELOOP, ENXIO };
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (code == codes[i])
			return true;
	return false;
}

int state_file_read(const struct root *root, const char *path, json_t **ret, struct err *err)
{
	auto_json json_t *json = NULL;
	struct stat st;
	int r = json_read(root, path, &json, err);
	if (r < 0)
		return is_damage(err->code) ? err_code(err, E_CONFIG) : -1;
	if (r == 0 && root_stat(root, path, &st, err) <= 0)
		return 0;
	if (r == 0 && !S_ISLNK(st.st_mode)) // written just now
		return state_file_read(root, path, ret, err);
	if (!json_is_object(json))
		return err_set(err, E_CONFIG, "'%s/%s' %s", root->name, path,
			       r == 0 ? "is a link that leads nowhere" : "is not a JSON object");
	*ret = TAKE(json);
	return 1;
}

void state_file_set_aside(const struct root *root, const char *path, const char *why)
{
	struct err err;
	auto_str char *aside = str_fmt("%s.damaged", path);
	if (root_rmtree(root, aside, &err) < 0 || root_rename(root, path, aside, &err) < 0)
		log_warn("%s; what it said is lost, and it stays there: %s", why, err.text);
	else
		log_warn("%s; what it said is lost, and it is kept as '%s/%s'", why, root->name, aside);
}

void state_file_mend(const struct root *root, const char *path)
{
	struct err err;
	auto_json json_t *ignored = NULL;
	if (state_file_read(root, path, &ignored, &err) < 0 && err.code == E_CONFIG)
		state_file_set_aside(root, path, err.text);
}

int state_file_absent(const struct err *err)
{
	static struct strv said;
	if (err->code != E_CONFIG && err->code != EIO)
		return -1;
	if (strv_has(&said, err->text))
		return 0;
	strv_add(&said, str_dup(err->text));
	log_warn("%s; what it says is unknown, and it stays there", err->text);
	return 0;
}

int state_file_load(const struct root *root, const char *path, json_t **ret, struct err *err)
{
	int r = state_file_read(root, path, ret, err);
	return r < 0 ? state_file_absent(err) : r;
}
