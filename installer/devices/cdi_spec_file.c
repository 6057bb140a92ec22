// SPDX-License-Identifier: Apache-2.0
#include "devices/cdi_spec_file.h"

#include "base/process/boot_record.h"
#include "base/process/log.h"
#include "base/process/state_file.h"

static const char RECORD[] = BOOT_RECORD_DIR "/cdi.json"; // without a boot id: it holds a path, not a state

static const char *path_in_host(const char *file)
{
	return file + strspn(file, "/");
}

static char *spec_dir(const char *file)
{
	const char *slash = strrchr(file, '/');
	return str_ndup(file, slash ? (size_t)(slash - file) : 0);
}

int cdi_spec_file_check(const char *file, struct err *err)
{
	auto_str char *folder = spec_dir(file);
	if (str_eq(file, "none") || (*file == '/' && *path_in_host(folder) && str_ends(file, ".json")))
		return 0;
	return err_set(err, E_USAGE, "--cdi '%s' is neither an absolute path of a *.json file nor 'none'", file);
}

// 1 = the path where the specification is kept.
static int recorded_file(const struct root *host, char **ret, struct err *err)
{
	auto_json json_t *json = NULL;
	int r = state_file_load(host, RECORD, &json, err);
	const char *file = r > 0 ? json_string_value(json_object_get(json, "file")) : NULL;
	if (r < 0)
		return -1;
	if (!file || cdi_spec_file_check(file, err) < 0)
		return 0;
	*ret = str_dup(file);
	return 1;
}

// Beside it, because a file has devices of one kind: gpus.json, gpus-imex.json.
static char *imex_file(const char *file)
{
	return str_fmt("%.*s-imex.json", (int)(strlen(file) - strlen(".json")), file);
}

static int remove_files(const struct root *host, const char *file, struct err *err)
{
	auto_str char *imex = imex_file(file);
	int r = root_unlink(host, path_in_host(file), err);
	return r < 0 || root_unlink(host, path_in_host(imex), err) < 0 ? -1 : r;
}

int cdi_spec_file_withdraw(const struct root *host, struct err *err)
{
	auto_str char *file = NULL;
	int r = recorded_file(host, &file, err);
	return r <= 0 ? r : remove_files(host, file, err);
}

// The kind of a specification: a member of the JSON object, or a YAML line that is not indented. NULL = none.
static char *spec_kind(const char *text, size_t len)
{
	static const char key[] = "kind:", quotes[] = "\"' \t";
	auto_json json_t *json = json_loadb(text, len, 0, NULL);
	auto_strv struct strv lines = { 0 };
	if (json)
		return json_text_dup(json, "kind");
	strv_split(&lines, text, "\r\n");
	for (size_t i = 0; i < lines.count; i++) {
		if (!str_starts(lines.items[i], key))
			continue;
		char *value = lines.items[i] + strlen(key);
		value += strspn(value, quotes);
		return str_ndup(value, strcspn(value, "\"' \t#"));
	}
	return NULL;
}

// A file that we cannot read conflicts with nothing, and neither does the file itself under another name.
static bool is_conflicting(const struct root *host, const char *path, const char *file, const char *of)
{
	struct err ignored;
	struct stat st, own;
	auto_str char *text = NULL;
	size_t len = 0;
	if (root_stat(host, path, &st, &ignored) <= 0 || S_ISDIR(st.st_mode) ||
	    (root_stat(host, path_in_host(file), &own, &ignored) > 0 && st.st_dev == own.st_dev &&
	     st.st_ino == own.st_ino) ||
	    root_read(host, path, &text, &len, &ignored) <= 0)
		return false;
	auto_str char *kind = spec_kind(text, len);
	return str_eq(kind, of);
}

// The directories that runtimes look in by default (pkg/cdi/spec-dirs.go), and the one that was named.
int cdi_spec_file_conflict(const struct root *host, const char *file, const char *kind, char **ret, struct err *err)
{
	auto_str char *named = spec_dir(file);
	const char *const dirs[] = { "etc/cdi", "var/run/cdi", path_in_host(named) };
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		auto_strv struct strv names = { 0 };
		if (*dirs[i] && root_list(host, dirs[i], &names, err) < 0)
			return -1;
		for (size_t j = 0; j < names.count; j++) {
			auto_str char *path = str_fmt("%s/%s", dirs[i], names.items[j]);
			bool is_spec = str_ends(path, ".json") || str_ends(path, ".yaml");
			if (is_spec && is_conflicting(host, path, file, kind)) {
				*ret = str_fmt("/%s", path);
				return 1;
			}
		}
	}
	return 0;
}

static int write_record(const struct root *host, const char *file, struct err *err)
{
	auto_json json_t *json = json_pack("{s:s}", "file", file);
	auto_str char *before = NULL;
	int r = recorded_file(host, &before, err);
	if (r < 0)
		return -1;
	if (str_eq(before, file))
		return 0;
	if (before && remove_files(host, before, err) < 0)
		return -1;
	return root_mkdirs(host, BOOT_RECORD_DIR, 0755, err) < 0 ? -1 : json_put(host, RECORD, json, err);
}

// 1 = written, 0 = it says all of it already.
static int put_spec(const struct root *host, const char *file, json_t *spec, struct err *err)
{
	const char *path = path_in_host(file);
	auto_str char *dir = spec_dir(path);
	auto_json json_t *before = NULL;
	if (json_read(host, path, &before, err) < 0 && err->code != E_CONFIG)
		return -1;
	if (before && json_equal(before, spec))
		return 0;
	return root_mkdirs(host, dir, 0755, err) < 0 || json_put(host, path, spec, err) < 0 ? -1 : 1;
}

// Where another one names channels, ours steps back, and the GPUs' stays.
static int write_imex_file(const struct node *node, const char *file, struct err *err)
{
	auto_str char *rival = NULL;
	auto_json json_t *json = NULL;
	int r = cdi_imex_spec(node, &json, err);
	int has_rival = r > 0 ? cdi_spec_file_conflict(node->host, file, CDI_IMEX_KIND, &rival, err) : 0;
	if (r < 0 || has_rival < 0)
		return -1;
	if (rival)
		log_warn("IMEX channels are named by '%s' alone: it is of the same kind", rival);
	return r && !rival ? put_spec(node->host, file, json, err) : root_unlink(node->host, path_in_host(file), err);
}

static int write_spec_files(const struct node *node, const char *file, struct err *err)
{
	auto_str char *rival = NULL, *imex = imex_file(file);
	auto_json json_t *json = NULL;
	int r = cdi_spec_file_conflict(node->host, file, CDI_KIND, &rival, err);
	if (r > 0)
		return err_set(err, E_CDI_RIVAL, "'%s' is also of kind %s", rival, CDI_KIND);
	if (r < 0 || cdi_spec(node, NULL, &json, err) < 0)
		return -1;
	int channels = write_imex_file(node, imex, err),
	    gpus = channels < 0 ? -1 : put_spec(node->host, file, json, err);
	return gpus < 0 ? -1 : gpus || channels;
}

int cdi_spec_file_update(const struct node *node, const char *request, bool is_ready, struct err *err)
{
	struct err ignored;
	auto_str char *file = NULL;
	if (str_eq(request, "none"))
		return cdi_spec_file_withdraw(node->host, err) < 0 || root_unlink(node->host, RECORD, err) < 0 ? -1 : 0;
	int r = recorded_file(node->host, &file, err);
	const char *place = request ? request : file;
	if (r < 0 || !place)
		return r < 0 ? -1 : 0;
	if (!is_ready) {
		r = cdi_spec_file_withdraw(node->host, err);
		return r < 0 || remove_files(node->host, place, err) < 0 ? -1 : 0;
	}
	if (write_record(node->host, place, err) < 0)
		return -1;
	r = write_spec_files(node, place, err);
	if (r < 0)
		cdi_spec_file_withdraw(node->host, &ignored);
	return r;
}
