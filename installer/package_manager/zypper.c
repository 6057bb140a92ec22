// SPDX-License-Identifier: Apache-2.0
// zypper, with its caches in a directory of ours; zypper(8), rpm(8).
//
// The last number of a SUSE package's release counts its rebuilds and is not in `uname -r`, but the packages provide
// their names without it (kernel-source's rpm/kernel-spec-macros and kernel-binary.spec.in: source_rel). The headers of
// 6.4.0-150600.23.7-default are in what provides `kernel-default-devel = 6.4.0-150600.23.7`, and in the package of
// sources that it requires: kernel-devel, or kernel-devel-VARIANT, of the same version.
#include "kmod/sandbox/sandbox.h"
#include "package_manager/package_manager_internal.h"

#include <fcntl.h>
#include <sys/stat.h>

static const char DIR[] = "new", HOST_KEYS[] = "host-keys.asc"; // in work
static const char *const zypper_programs[] = { "usr/bin/zypper", "usr/bin/rpm", "usr/bin/rpmkeys", NULL };
static const char *const zypper_sources[] = { "etc/zypp/repos.d", NULL };

static const char *flavour_of(const char *release)
{
	const char *last = strrchr(release, '-');
	return last && last != strchr(release, '-') ? last + 1 : NULL;
}

static char *devel_package(const struct package_job *job)
{
	const char *flavour = flavour_of(job->release);
	return flavour ? str_fmt("kernel-%s-devel", flavour) : str_dup("kernel-devel");
}

static char *zypper_wanted(const struct package_job *job)
{
	const char *flavour = flavour_of(job->release);
	auto_str char *name = devel_package(job);
	return str_fmt("%s = %.*s", name, (int)(flavour ? flavour - 1 - job->release : (long)strlen(job->release)),
		       job->release);
}

// zypper waits forever for a server that has accepted the connection and says nothing, whatever zypp.conf has as
// download.transfer_timeout (tried with 1.14.42 and 1.14.89).
static int deadline_s(const struct package_job *job, int most)
{
	enum { STALLS = 20 };
	unsigned s = STALLS * package_manager_stall_s(job);
	return s < (unsigned)most ? (int)s : most;
}

static int run_zypper(const struct package_job *job, const char *const *words, int most_s, struct package_output *ret,
		      struct err *err)
{
	static const char *const options[] = { "/usr/bin/zypper",
					       "--non-interactive", // what it would ask is answered no
					       "--no-cd",
					       "--disable-system-resolvables",
					       "--cache-dir=" SANDBOX_WORK "/cache",
					       "--pkg-cache-dir=" SANDBOX_WORK "/new" };
	auto_strv struct strv argv = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		strv_add(&argv, str_dup(options[i]));
	if (job->is_archive)
		strv_add(&argv, str_dup("--reposd-dir=" SANDBOX_WORK "/sources"));
	for (size_t i = 0; words[i]; i++)
		strv_add(&argv, str_dup(words[i]));
	return package_manager_run(job, &argv, deadline_s(job, most_s), ret, err);
}

static int run_rpm(const struct package_job *job, const char *const *words, struct package_output *ret, struct err *err)
{
	auto_strv struct strv argv = { 0 };
	strv_add(&argv, str_dup("/usr/bin/rpm"));
	for (size_t i = 0; words[i]; i++)
		strv_add(&argv, str_dup(words[i]));
	return package_manager_run(job, &argv, PM_ASK_S, ret, err);
}

// Exports the keys in the host's rpm database. The sandbox sees it at SUSE's path.
static int export_host_keys(const struct package_job *job, struct strv *keys, struct err *err)
{
	static const char *const query[] = { "--dbpath", "/usr/lib/sysimage/rpm", "-q", "gpg-pubkey",
					     "--qf",     "%{DESCRIPTION}\\n",     NULL };
	auto_package_output struct package_output said = { 0 };
	if (!root_exists(job->pm->host, "usr/lib/sysimage/rpm"))
		return 0;
	if (run_rpm(job, query, &said, err) < 0)
		return -1;
	auto_str char *text = strv_join(&said.lines, "\n"), *lines = str_fmt("%s\n", text);
	if (said.status != 0 || !strstr(lines, "-----BEGIN PGP"))
		return 0;
	strv_add(keys, str_fmt(SANDBOX_WORK "/%s", HOST_KEYS));
	return root_put(job->work, HOST_KEYS, lines, strlen(lines), 0644, err);
}

// Those that SUSE's packages of keys install for rpm to import.
static int list_distribution_keys(const struct package_job *job, struct strv *keys, struct err *err)
{
	static const char KEY_DIR[] = "usr/lib/rpm/gnupg/keys";
	auto_strv struct strv names = { 0 };
	if (root_list(job->pm->host, KEY_DIR, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++)
		if (str_ends(names.items[i], ".asc"))
			strv_add(keys, str_fmt("/%s/%s", KEY_DIR, names.items[i]));
	return 0;
}

// rpm reads .rpmmacros in HOME: what zypper takes for the database of the machine, and of the keys to trust, is ours.
static int prepare(const struct package_job *job, struct err *err)
{
	static const char MACROS[] = "%_dbpath " RPM_KEYS_DATABASE "\n";
	auto_strv struct strv keys = { 0 };
	if (root_put(job->work, ".rpmmacros", MACROS, strlen(MACROS), 0644, err) < 0 ||
	    export_host_keys(job, &keys, err) < 0 || list_distribution_keys(job, &keys, err) < 0 ||
	    rpm_keys_list(job, zypper_sources[0], &keys, err) < 0)
		return -1;
	if (!keys.count)
		return err_set(err, E_UNTRUSTED,
			       "the host's rpm has no key, and no enabled repository names a key file "
			       "(gpgkey=file:///...) to check the packages with");
	return rpm_keys_import(job, &keys, err);
}

// Packages lie below the directory as on their medium: ALIAS/x86_64/NAME.rpm.
static int list_files(struct package_job *job, struct err *err)
{
	auto_strv struct strv dirs = { 0 };
	strv_done(&job->files);
	strv_add(&dirs, str_dup(DIR));
	for (size_t i = 0; i < dirs.count; i++) {
		auto_strv struct strv names = { 0 };
		if (root_list(job->work, dirs.items[i], &names, err) < 0)
			return -1;
		for (size_t k = 0; k < names.count; k++) {
			struct stat st;
			auto_str char *path = str_fmt("%s/%s", dirs.items[i], names.items[k]);
			if (root_stat(job->work, path, &st, err) < 0)
				return -1;
			if (S_ISDIR(st.st_mode))
				strv_add(&dirs, TAKE(path));
			else if (str_ends(path, ".rpm"))
				strv_add(&job->files, TAKE(path));
		}
	}
	return 0;
}

static int download(struct package_job *job, const char *what, struct package_output *ret, struct err *err)
{
	const char *const words[] = { "--no-refresh", "download", what, NULL };
	if (run_zypper(job, words, PM_DOWNLOAD_S, ret, err) < 0)
		return -1;
	return ret->is_timed_out ? package_manager_fail(ret, "zypper download", err) : list_files(job, err);
}

// Lines "S | NAME | package | VERSION | ARCH | REPOSITORY", as the release of each.
static void add_releases(const struct package_output *found, const char *name, const char *flavour, struct strv *ret)
{
	for (size_t i = 0; i < found->lines.count; i++) {
		auto_strv struct strv fields = { 0 };
		strv_split(&fields, found->lines.items[i], "|");
		if (fields.count < 4 || !str_eq(str_trim(fields.items[1]), name))
			continue;
		char *version = str_trim(fields.items[3]), *rebuild = strrchr(version, '.');
		if (rebuild)
			*rebuild = '\0';
		strv_add(ret, str_fmt("%s-%s-%s", name, version, flavour));
	}
}

static int say_not_offered(const struct package_job *job, const struct package_output *refresh,
			   const struct package_output *said, struct err *err)
{
	auto_str char *wanted = zypper_wanted(job), *name = devel_package(job), *prefix = str_fmt("%s-", name);
	const char *const search[] = { "--no-refresh", "search", "-s", "--match-exact", "-t", "package", name, NULL };
	auto_package_output struct package_output found = { 0 };
	auto_strv struct strv told = { 0 }, releases = { 0 };
	const char *flavour = flavour_of(job->release);
	if (package_manager_symptom(refresh, &told) != 0)
		return package_manager_fail(refresh, "zypper refresh", err);
	if (package_manager_symptom(said, &told) != 0)
		return package_manager_fail(said, "zypper download", err);
	if (run_zypper(job, search, PM_ASK_S, &found, err) < 0)
		return -1;
	add_releases(&found, name, flavour ? flavour : "", &releases);
	auto_str char *nearest = package_manager_nearest(&releases, prefix, job->release);
	return err_set(err, E_HEADERS_NOT_FOUND, "no repository has %s%s%s", wanted,
		       nearest ? "; they have those of " : "", nearest ? nearest : " or of another kernel of its kind");
}

// What the first package requires of the sources: "kernel-devel = 6.4.0-150600.23.7".
static int download_sources(struct package_job *job, struct err *err)
{
	auto_str char *path = str_fmt(SANDBOX_WORK "/%s", job->files.items[0]);
	const char *const query[] = { "-qp", "--requires", path, NULL };
	auto_package_output struct package_output needs = { 0 };
	if (run_rpm(job, query, &needs, err) < 0)
		return -1;
	for (size_t i = 0; i < needs.lines.count; i++) {
		auto_package_output struct package_output said = { 0 };
		size_t before = job->files.count;
		if (!str_starts(needs.lines.items[i], "kernel-devel"))
			continue;
		if (download(job, needs.lines.items[i], &said, err) < 0)
			return -1;
		if (job->files.count == before)
			return package_manager_fail(&said, "zypper download", err);
	}
	return 0;
}

static int zypper_fetch(struct package_job *job, struct err *err)
{
	static const char *const refresh[] = { "refresh", NULL };
	static const char WHOSE[] = "of the host";
	auto_package_output struct package_output refreshed = { 0 }, said = { 0 };
	auto_str char *wanted = zypper_wanted(job);
	// One repository that fails is not a reason to fail, if another one has the package.
	if (root_mkdirs(job->work, DIR, 0755, err) < 0 || prepare(job, err) < 0 ||
	    run_zypper(job, refresh, PM_UPDATE_S, &refreshed, err) < 0)
		return -1;
	if (refreshed.is_timed_out)
		return package_manager_fail(&refreshed, "zypper refresh", err);
	if (download(job, wanted, &said, err) < 0)
		return -1;
	if (!job->files.count)
		return say_not_offered(job, &refreshed, &said, err);
	if (rpm_keys_check(job, WHOSE, err) < 0 || download_sources(job, err) < 0)
		return -1;
	return rpm_keys_check(job, WHOSE, err);
}

const struct package_client PACKAGE_MANAGER_ZYPPER = { .name = "zypper",
						       .programs = zypper_programs,
						       .has_sources = rpm_keys_has_repositories,
						       .source_dirs = zypper_sources,
						       .wanted = zypper_wanted,
						       .fetch = zypper_fetch };
