// SPDX-License-Identifier: Apache-2.0
// dnf 4 or 5, with its caches in a directory of ours; dnf(8), dnf5(8), dnf.conf(5), rpmkeys(8). The host's database of
// packages is not looked at, so what dnf reads from it is taken from os-release.
#include "base/core/date.h"
#include "base/crypto/key.h"
#include "host/kernel.h"
#include "kmod/sandbox/sandbox.h"
#include "package_manager/package_manager_internal.h"

static const char DIR[] = "new"; // in work
static const char *const dnf_programs[] = { "usr/bin/dnf|usr/bin/dnf5", "usr/bin/rpmkeys", NULL };
static const char *const dnf_sources[] = { "etc/yum.repos.d", NULL };

// Each kind of kernel has headers of its own: kernel-devel, kernel-rt-devel, kernel-64k-devel, kernel-uek-devel. They
// provide their release under the first name, or under their own.
static const char *const provides[] = { "kernel-devel-uname-r", "kernel-rt-devel-uname-r", "kernel-64k-devel-uname-r",
					"kernel-uek-devel-uname-r" };

static char *dnf_wanted(const struct package_job *job)
{
	return str_fmt("%s = %s", provides[0], job->release);
}

// $releasever: 9 of the platform "platform:el9", else the version.
static void add_release(const struct root *host, struct strv *argv)
{
	auto_str char *platform = host_os_release(host, "PLATFORM_ID"), *version = host_os_release(host, "VERSION_ID");
	static const char EL[] = "platform:el";
	const char *release = platform && str_starts(platform, EL) ? platform + strlen(EL) : version;
	if (release && *release && !root_exists(host, "etc/dnf/vars/releasever") &&
	    !root_exists(host, "etc/yum/vars/releasever"))
		strv_add(argv, str_fmt("--releasever=%s", release));
	if (platform && *platform)
		strv_add(argv, str_fmt("--setopt=module_platform_id=%s", platform));
}

// Fedora's dnf is a link to dnf5.
static bool is_dnf5(const struct root *host)
{
	auto_str char *target = NULL;
	struct err ignored;
	return !root_exists(host, "usr/bin/dnf") ||
	       (root_readlink(host, "usr/bin/dnf", &target, &ignored) >= 0 && target && str_ends(target, "dnf5"));
}

static void add_options(const struct package_job *job, struct strv *argv)
{
	static const char *const options[] = {
		"-y",
		"--setopt=cachedir=" SANDBOX_WORK "/cache",
		"--setopt=persistdir=" SANDBOX_WORK "/persist",
		"--setopt=logdir=" SANDBOX_WORK "/log",
		"--setopt=install_weak_deps=False",
		"--setopt=skip_if_unavailable=True", // another repository may have it
		"--setopt=retries=2",
		"--setopt=minrate=1000",
	};
	// They write to the host, and Debian's dnf has one that adds a repository of its own.
	static const char PLUGINS[] = "--disableplugin=subscription-manager,product-id,local,versionlock";
	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		strv_add(argv, str_dup(options[i]));
	strv_add(argv, package_manager_seconds(job, "--setopt=timeout="));
	// Nodes that keep their kernel exclude kernel* from installations, and nothing is installed here.
	if (is_dnf5(job->pm->host)) {
		strv_add(argv, str_dup("--setopt=disable_excludes=*"));
	} else {
		strv_add(argv, str_dup("--disableexcludes=all"));
		strv_add(argv, str_dup(PLUGINS));
	}
	if (job->pm->arch)
		strv_add(argv, str_fmt("--forcearch=%s", job->pm->arch));
	if (job->is_archive)
		strv_add(argv, str_dup("--setopt=reposdir=" SANDBOX_WORK "/sources"));
	add_release(job->pm->host, argv);
}

static int run_dnf(const struct package_job *job, const char *const *words, int timeout_s, struct package_output *ret,
		   struct err *err)
{
	auto_strv struct strv argv = { 0 };
	strv_add(&argv, str_dup(root_exists(job->pm->host, "usr/bin/dnf") ? "/usr/bin/dnf" : "/usr/bin/dnf5"));
	add_options(job, &argv);
	for (size_t i = 0; words[i]; i++)
		strv_add(&argv, str_dup(words[i]));
	return package_manager_run(job, &argv, timeout_s, ret, err);
}

// Returns why the host's entitlement certificate would be refused; NULL = no problem is seen.
static char *bad_entitlement(const struct root *host, const char *line)
{
	const char *path = strchr(line, '/');
	auto_str char *text = NULL;
	struct err ignored;
	time_t end;
	if (!str_starts(line, "sslclient") || !path)
		return NULL;
	if (root_read(host, path, &text, NULL, &ignored) <= 0)
		return str_fmt("the host has no '%s'", path);
	if (!key_certificate_end(text, &end) || end >= time(NULL))
		return NULL;
	auto_str char *date = date_text(end);
	return str_fmt("'%s' ended on %s", path, date);
}

static char *find_in_repositories(const struct root *host, const char *text)
{
	auto_strv struct strv lines = { 0 };
	auto_str char *why = NULL;
	strv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count; i++) {
		const char *line = lines.items[i];
		bool is_disabled = str_starts(line, "enabled") &&
				   (str_ends(line, "0") || str_ends(line, "False") || str_ends(line, "false"));
		if (*line == '[' && why)
			return TAKE(why);
		if (!why)
			why = bad_entitlement(host, line);
		if (!is_disabled)
			continue;
		free(TAKE(why));
		while (i + 1 < lines.count && *lines.items[i + 1] != '[')
			i++;
	}
	return TAKE(why);
}

// What dnf says of them differs with its TLS library, and from one try to the next, and does not name the file.
static char *find_bad_entitlement(const struct package_job *job)
{
	const char *dir = job->is_archive ? "sources" : dnf_sources[0];
	const struct root *root = job->is_archive ? job->work : job->pm->host;
	auto_strv struct strv names = { 0 };
	struct err ignored;
	root_list(root, dir, &names, &ignored);
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *path = str_fmt("%s/%s", dir, names.items[i]), *text = NULL;
		if (!str_ends(path, ".repo") || root_read(root, path, &text, NULL, &ignored) <= 0)
			continue;
		char *why = find_in_repositories(job->pm->host, text);
		if (why)
			return why;
	}
	return NULL;
}

static int say_refused(const struct package_job *job, const struct package_output *said, struct err *err)
{
	package_manager_fail(said, "dnf download", err);
	bool may_be_refused = err->code == E_AUTH || err->code == E_TLS || err->code == E_SERVER;
	auto_str char *why = may_be_refused ? find_bad_entitlement(job) : NULL;
	if (why) {
		err_code(err, E_AUTH);
		err_wrap(err, "a repository's entitlement: %s", why);
	}
	return -1;
}

static int say_not_offered(const struct package_job *job, const struct package_output *said, struct err *err)
{
	static const char *const query[] = { "repoquery", "--queryformat",
					     "kernel-devel-%{version}-%{release}.%{arch}\\n", "kernel-devel", NULL };
	auto_package_output struct package_output names = { 0 };
	auto_strv struct strv told = { 0 };
	auto_str char *wanted = dnf_wanted(job), *nearest = NULL;
	if (package_manager_symptom(said, &told) != 0)
		return say_refused(job, said, err);
	if (run_dnf(job, query, PM_UPDATE_S, &names, err) < 0)
		return -1;
	nearest = package_manager_nearest(&names.lines, "kernel-devel-", job->release);
	return err_set(err, E_HEADERS_NOT_FOUND, "no repository has %s%s%s", wanted, nearest ? "; they have " : "",
		       nearest ? nearest : " or kernel-devel of another kernel of its kind");
}

static int check_signatures(const struct package_job *job, struct err *err)
{
	auto_strv struct strv keys = { 0 };
	if (rpm_keys_list(job, dnf_sources[0], &keys, err) < 0)
		return -1;
	if (!keys.count)
		return err_set(err, E_UNTRUSTED,
			       "no enabled repository names a key file (gpgkey=file:///...) to check the package with");
	return rpm_keys_import(job, &keys, err) < 0 ? -1 : rpm_keys_check(job, "of the enabled repositories", err);
}

static int dnf_fetch(struct package_job *job, struct err *err)
{
	auto_package_output struct package_output said = { 0 };
	auto_strv struct strv names = { 0 };
	if (root_mkdirs(job->work, DIR, 0755, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(provides) && !names.count; i++) {
		auto_str char *what = str_fmt("%s = %s", provides[i], job->release);
		const char *const words[] = { "download", "--destdir", (SANDBOX_WORK "/new"), what, NULL };
		auto_package_output struct package_output this = { 0 };
		if (run_dnf(job, words, PM_DOWNLOAD_S, &this, err) < 0 || root_list(job->work, DIR, &names, err) < 0)
			return -1;
		if (this.status != 0)
			strv_done(&names); // a package may be there, but not whole
		if (i == 0) {
			said = this;
			this = (struct package_output){ 0 };
		}
		if (said.is_timed_out)
			return package_manager_fail(&said, "dnf download", err);
	}
	for (size_t i = 0; i < names.count; i++)
		if (str_ends(names.items[i], ".rpm"))
			strv_add(&job->files, str_fmt("%s/%s", DIR, names.items[i]));
	return job->files.count ? check_signatures(job, err) : say_not_offered(job, &said, err);
}

const struct package_client PACKAGE_MANAGER_DNF = { .name = "dnf",
						    .programs = dnf_programs,
						    .has_sources = rpm_keys_has_repositories,
						    .source_dirs = dnf_sources,
						    .wanted = dnf_wanted,
						    .fetch = dnf_fetch };
