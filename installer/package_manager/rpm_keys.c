// SPDX-License-Identifier: Apache-2.0
// Repositories of .rpm packages: their keys, and whether one of these signed what was downloaded; rpmkeys(8).
#include "kmod/sandbox/sandbox.h"
#include "package_manager/package_manager_internal.h"

static const char KEYS[] = "keys"; // in work: a database that has nothing but keys

bool rpm_keys_has_repositories(const struct root *root, const char *dir)
{
	auto_strv struct strv names = { 0 };
	struct err ignored;
	root_list(root, dir, &names, &ignored);
	for (size_t i = 0; i < names.count; i++)
		if (str_ends(names.items[i], ".repo"))
			return true;
	return false;
}

static bool is_set(const char *line, const char *key, const char *value)
{
	size_t len = strlen(key);
	if (!str_starts(line, key))
		return false;
	line += len + strspn(line + len, " \t");
	return *line == '=' && str_eq(line + 1 + strspn(line + 1, " \t"), value);
}

// The key files that the enabled repositories of a .repo file name: gpgkey=file:///..., one or several, also on lines
// that go on.
static void add_keys_of(const char *text, struct strv *keys)
{
	static const char FILE_URL[] = "file://", KEY[] = "gpgkey";
	auto_strv struct strv lines = { 0 }, section = { 0 };
	bool is_enabled = true, is_key = false;
	strv_split(&lines, text, "\n");
	for (size_t i = 0; i <= lines.count; i++) {
		const char *line = i < lines.count ? lines.items[i] : "[";
		if (*line == '[') {
			for (size_t k = 0; k < section.count && is_enabled; k++)
				if (!strv_has(keys, section.items[k]))
					strv_add(keys, str_dup(section.items[k]));
			strv_done(&section);
			is_enabled = true;
			is_key = false;
			continue;
		}
		if (is_set(line, "enabled", "0") || is_set(line, "enabled", "False") ||
		    is_set(line, "enabled", "false"))
			is_enabled = false;
		is_key = str_starts(line, KEY) || (is_key && (*line == ' ' || *line == '\t'));
		auto_strv struct strv words = { 0 };
		strv_split(&words, is_key ? line : "", " \t,=");
		for (size_t k = 0; k < words.count; k++)
			if (str_starts(words.items[k], FILE_URL))
				strv_add(&section, str_dup(words.items[k] + strlen(FILE_URL)));
	}
}

int rpm_keys_list(const struct package_job *job, const char *dir, struct strv *keys, struct err *err)
{
	const struct root *root = job->is_archive ? job->work : job->pm->host;
	dir = job->is_archive ? "sources" : dir;
	auto_strv struct strv names = { 0 };
	if (root_list(root, dir, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *path = str_fmt("%s/%s", dir, names.items[i]), *text = NULL;
		if (!str_ends(path, ".repo"))
			continue;
		if (root_read_entry(root, path, SIZE_MAX, &text, NULL, err) < 0)
			return -1;
		add_keys_of(text ? text : "", keys);
	}
	return 0;
}

static int run_rpmkeys(const struct package_job *job, const char *verb, const char *word, struct package_output *ret,
		       struct err *err)
{
	auto_strv struct strv argv = { 0 };
	const char *const words[] = { "/usr/bin/rpmkeys", "--dbpath", RPM_KEYS_DATABASE, verb, word };
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		strv_add(&argv, str_dup(words[i]));
	return package_manager_run(job, &argv, PM_ASK_S, ret, err);
}

// rpmkeys --checksig succeeds without a signature, too: only its words tell, "PACKAGE: digests signatures OK".
static int check_signature(const struct package_job *job, const char *file, const char *whose, struct err *err)
{
	auto_package_output struct package_output said = { 0 };
	auto_str char *path = str_fmt(SANDBOX_WORK "/%s", file), *good = str_fmt("%s: digests signatures OK", path);
	if (run_rpmkeys(job, "--checksig", path, &said, err) < 0)
		return -1;
	if (said.status == 0 && strv_has(&said.lines, good))
		return 0;
	const char *line = said.lines.count ? said.lines.items[said.lines.count - 1] : "nothing was said";
	return err_set(err, E_UNTRUSTED, "no key %s signed this package: rpmkeys --checksig: %s", whose,
		       str_starts(line, SANDBOX_WORK "/new/") ? line + strlen(SANDBOX_WORK "/new/") : line);
}

int rpm_keys_import(const struct package_job *job, const struct strv *keys, struct err *err)
{
	if (root_mkdirs(job->work, KEYS, 0755, err) < 0)
		return -1;
	for (size_t i = 0; i < keys->count; i++) {
		auto_package_output struct package_output said = { 0 }; // a file that does not exist is one key less
		if (run_rpmkeys(job, "--import", keys->items[i], &said, err) < 0)
			return -1;
	}
	return 0;
}

int rpm_keys_check(const struct package_job *job, const char *whose, struct err *err)
{
	for (size_t i = 0; i < job->files.count; i++)
		if (check_signature(job, job->files.items[i], whose, err) < 0)
			return -1;
	return 0;
}
