// SPDX-License-Identifier: Apache-2.0
// apt, with lists and packages in a directory of ours; apt.conf(5), apt-get(8), sources.list(5).
#include "kmod/sandbox/sandbox.h"
#include "package_manager/package_manager_internal.h"

// Debian's and Ubuntu's name, and Proxmox's.
static const char *const prefixes[] = { "linux-headers-", "proxmox-headers-", "pve-headers-" };

static bool has_apt_sources(const struct root *root, const char *dir)
{
	auto_strv struct strv names = { 0 };
	struct err ignored;
	if (str_ends(dir, "sources.list")) {
		auto_str char *text = NULL;
		return root_read(root, dir, &text, NULL, &ignored) > 0 &&
		       (str_starts(text, "deb ") || str_starts(text, "deb\t") || strstr(text, "\ndeb ") ||
			strstr(text, "\ndeb\t"));
	}
	root_list(root, dir, &names, &ignored);
	for (size_t i = 0; i < names.count; i++)
		if (str_ends(names.items[i], ".list") || str_ends(names.items[i], ".sources"))
			return true;
	return false;
}

static char *apt_wanted(const struct package_job *job)
{
	return str_fmt("%s%s", prefixes[0], job->release);
}

static const char *apt_arch(const char *machine)
{
	return str_eq(machine, "x86_64") ? "amd64" : str_eq(machine, "aarch64") ? "arm64" : machine;
}

// Overrides the host's apt configuration only for directories, trusted keys and indexes that are not needed. Its hooks
// run in the sandbox and can do nothing there.
static void add_options(const struct package_job *job, struct strv *argv)
{
	static const char *const options[] = {
		"-q",
		"-oDir::State=" SANDBOX_WORK "/state",
		"-oDir::State::status=" SANDBOX_WORK "/status",
		"-oDir::Cache=" SANDBOX_WORK "/cache",
		"-oDir::Log=" SANDBOX_WORK "/log",
		"-oAPT::Sandbox::User=root",
		"-oAPT::Get::AllowUnauthenticated=false",
		"-oAcquire::AllowInsecureRepositories=false",
		"-oAcquire::AllowWeakRepositories=false",
		"-oAcquire::AllowDowngradeToInsecureRepositories=false",
		"-oAcquire::Languages=none",
		"-oAcquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false",
		"-oAcquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
		"-oAcquire::IndexTargets::deb-src::Sources::DefaultEnabled=false",
		"-oAcquire::Retries=1",
	};
	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		strv_add(argv, str_dup(options[i]));
	strv_add(argv, package_manager_seconds(job, "-oAcquire::http::Timeout="));
	strv_add(argv, package_manager_seconds(job, "-oAcquire::https::Timeout="));
	if (job->pm->arch) {
		strv_add(argv, str_fmt("-oAPT::Architecture=%s", apt_arch(job->pm->arch)));
		strv_add(argv, str_fmt("-oAPT::Architectures=%s", apt_arch(job->pm->arch)));
	}
	if (job->is_archive) {
		strv_add(argv, str_dup("-oDir::Etc::SourceList=/dev/null"));
		strv_add(argv, str_dup("-oDir::Etc::SourceParts=" SANDBOX_WORK "/sources"));
	}
}

static int run_apt(const struct package_job *job, const char *program, const char *verb, const struct strv *words,
		   int timeout_s, struct package_output *ret, struct err *err)
{
	auto_strv struct strv argv = { 0 };
	strv_add(&argv, str_fmt("/usr/bin/%s", program));
	add_options(job, &argv);
	strv_add(&argv, str_dup(verb));
	for (size_t i = 0; words && i < words->count; i++)
		strv_add(&argv, str_dup(words->items[i]));
	return package_manager_run(job, &argv, timeout_s, ret, err);
}

static int ask_cache(const struct package_job *job, const char *verb, const char *word, struct package_output *ret,
		     struct err *err)
{
	auto_strv struct strv words = { 0 };
	strv_add(&words, str_dup(word));
	return run_apt(job, "apt-cache", verb, &words, PM_ASK_S, ret, err);
}

static bool is_in_banner(const char *banner, const char *version)
{
	const char *at = banner ? strstr(banner, version) : NULL;
	return at && !strchr("0123456789.~+-", at[strlen(version)]); // its end counts, too
}

// The build whose version is in the banner ("Debian 6.1.192-2"), else the one that apt would take. madison's lines:
// "NAME | VERSION | SOURCE".
static char *choose_version(const struct package_job *job, const struct package_output *madison)
{
	auto_str char *first = NULL;
	for (size_t i = 0; i < madison->lines.count; i++) {
		auto_strv struct strv fields = { 0 };
		strv_split(&fields, madison->lines.items[i], "|");
		if (fields.count < 2)
			continue;
		const char *version = str_trim(fields.items[1]);
		if (is_in_banner(job->pm->banner, version))
			return str_dup(version);
		if (!first)
			first = str_dup(version);
	}
	return TAKE(first);
}

static bool is_part_of_headers(const char *name)
{
	return str_starts(name, "linux-") && (strstr(name, "-headers-") || str_starts(name, "linux-kbuild-"));
}

// Of "Depends: a (>= 1), b (= 2) | c": those that belong to the headers, as "b=2" where the version is exact. Compilers
// and libraries do not: the compile chooses its own.
static void add_dependencies(const char *depends, struct strv *packages)
{
	auto_strv struct strv all = { 0 };
	strv_split(&all, depends, ",");
	for (size_t i = 0; i < all.count; i++) {
		char *one = str_trim(all.items[i]);
		one[strcspn(one, "|")] = '\0';
		const char *exact = strstr(one, "(= ");
		auto_str char *version = exact ? str_ndup(exact + 3, strcspn(exact + 3, ")")) : NULL;
		one[strcspn(one, " (:")] = '\0';
		auto_str char *name = version ? str_fmt("%s=%s", one, version) : str_dup(one);
		if (is_part_of_headers(one) && !strv_has(packages, name))
			strv_add(packages, TAKE(name));
	}
}

// Each package of the list, and what it depends on, added to the list.
static int add_closure(const struct package_job *job, struct strv *packages, struct err *err)
{
	enum { MOST = 16 };
	static const char DEPENDS[] = "Depends:";
	for (size_t i = 0; i < packages->count && i < MOST; i++) {
		auto_package_output struct package_output shown = { 0 };
		if (ask_cache(job, "show", packages->items[i], &shown, err) < 0)
			return -1;
		// Of several versions the first is the one that would be taken.
		for (size_t k = 0; k < shown.lines.count && (k == 0 || *shown.lines.items[k]); k++)
			if (str_starts(shown.lines.items[k], DEPENDS))
				add_dependencies(shown.lines.items[k] + strlen(DEPENDS), packages);
	}
	return 0;
}

static int say_not_offered(const struct package_job *job, const struct package_output *update, struct err *err)
{
	auto_package_output struct package_output names = { 0 };
	auto_strv struct strv told = { 0 };
	auto_str char *wanted = apt_wanted(job), *nearest = NULL;
	if (ask_cache(job, "pkgnames", prefixes[0], &names, err) < 0)
		return -1;
	nearest = package_manager_nearest(&names.lines, prefixes[0], job->release);
	if (package_manager_symptom(update, &told) != 0) {
		package_manager_fail(update, "apt-get update", err);
		return err_wrap(err, "no list of a repository has %s%s%s", wanted, nearest ? "; they have " : "",
				nearest ? nearest : "");
	}
	return err_set(err, E_HEADERS_NOT_FOUND, "no repository has %s%s%s", wanted, nearest ? "; they have " : "",
		       nearest ? nearest : " or headers of another kernel of its kind");
}

static int find_package_name(const struct package_job *job, char **ret, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
		auto_str char *name = str_fmt("%s%s", prefixes[i], job->release), *version = NULL;
		auto_package_output struct package_output madison = { 0 };
		if (ask_cache(job, "madison", name, &madison, err) < 0)
			return -1;
		version = choose_version(job, &madison);
		if (version) {
			*ret = str_fmt("%s=%s", name, version);
			return 1;
		}
	}
	return 0;
}

static int make_dirs(const struct root *work, struct err *err)
{
	static const char *const dirs[] = { "state/lists/partial", "cache/archives/partial", "log" };
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (root_mkdirs(work, dirs[i], 0755, err) < 0)
			return -1;
	return root_put(work, "status", "", 0, 0644, err); // nothing is installed: no package's state is in the way
}

// apt-get downloads into its working directory.
static int download_packages(struct package_job *job, const struct strv *packages, struct err *err)
{
	auto_package_output struct package_output said = { 0 };
	auto_strv struct strv words = { 0 }, names = { 0 };
	for (size_t i = 0; i < packages->count; i++)
		strv_add(&words, str_dup(packages->items[i]));
	if (run_apt(job, "apt-get", "download", &words, PM_DOWNLOAD_S, &said, err) < 0)
		return -1;
	if (said.status != 0)
		return package_manager_fail(&said, "apt-get download", err);
	if (root_list(job->work, ".", &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++)
		if (str_ends(names.items[i], ".deb"))
			strv_add(&job->files, str_dup(names.items[i]));
	return job->files.count >= packages->count ? 0 : package_manager_fail(&said, "apt-get download", err);
}

static int apt_fetch(struct package_job *job, struct err *err)
{
	auto_package_output struct package_output update = { 0 };
	auto_strv struct strv packages = { 0 };
	auto_str char *name = NULL;
	// One repository that fails is not a reason to fail, if another one has the package.
	if (make_dirs(job->work, err) < 0 || run_apt(job, "apt-get", "update", NULL, PM_UPDATE_S, &update, err) < 0)
		return -1;
	int r = find_package_name(job, &name, err);
	if (r <= 0)
		return r < 0 ? -1 : say_not_offered(job, &update, err);
	strv_add(&packages, TAKE(name));
	return add_closure(job, &packages, err) < 0 ? -1 : download_packages(job, &packages, err);
}

static const char *const apt_programs[] = { "usr/bin/apt-get", "usr/bin/apt-cache", NULL };
static const char *const apt_sources[] = { "etc/apt/sources.list", "etc/apt/sources.list.d", NULL };
const struct package_client PACKAGE_MANAGER_APT = { .name = "apt",
						    .programs = apt_programs,
						    .has_sources = has_apt_sources,
						    .source_dirs = apt_sources,
						    .wanted = apt_wanted,
						    .fetch = apt_fetch };
