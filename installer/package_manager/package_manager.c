// SPDX-License-Identifier: Apache-2.0
#include "package_manager/package_manager.h"

#include "base/file/file.h"
#include "base/file/lockfile.h"
#include "base/file/scratch.h"
#include "kmod/kernel_tree/headers.h"
#include "kmod/sandbox/sandbox.h"
#include "package_manager/package_manager_internal.h"

#include <ctype.h>
#include <sys/file.h>

static const struct package_client *const clients[] = { &PACKAGE_MANAGER_APT, &PACKAGE_MANAGER_DNF,
							&PACKAGE_MANAGER_ZYPPER };
static const char SOURCES[] = "sources"; // in work: those of an archive

void package_manager_output_done(struct package_output *o)
{
	strv_done(&o->lines);
	*o = (struct package_output){ 0 };
}

struct listener {
	const struct package_manager *pm;
	struct package_output *output;
};

static void keep_line(void *ctx, const char *line)
{
	enum { MOST = 20000 };
	const struct listener *l = ctx;
	if (l->output->lines.count < MOST)
		strv_add(&l->output->lines, str_dup(line));
	progress_tick(l->pm->progress);
}

// The environment of whoever started us says which proxy, where the host's own configuration does not.
static void add_proxies(struct strv *env)
{
	static const char *const names[] = { "http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy",
					     "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY" };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *value = getenv(names[i]);
		if (value && *value)
			strv_add(env, str_fmt("%s=%s", names[i], value));
	}
}

unsigned package_manager_stall_s(const struct package_job *job)
{
	enum { DEFAULT_S = 15 };
	unsigned asked = job->pm->options.stall_s;
	return asked ? asked : DEFAULT_S;
}

char *package_manager_seconds(const struct package_job *job, const char *option)
{
	return str_fmt("%s%u", option, package_manager_stall_s(job));
}

int package_manager_run(const struct package_job *job, const struct strv *argv, int timeout_s,
			struct package_output *ret, struct err *err)
{
	auto_strv struct strv env = { 0 };
	struct package_output o = { 0 };
	struct proc_end end;
	const struct root *host = job->pm->host;
	struct listener listener = { .pm = job->pm, .output = &o };
	strv_add(&env, str_dup("PATH=/usr/sbin:/usr/bin:/sbin:/bin"));
	strv_add(&env, str_dup("LC_ALL=C"));
	strv_add(&env, str_dup("HOME=" SANDBOX_WORK));
	strv_add(&env, str_dup("TMPDIR=/tmp"));
	add_proxies(&env);
	const struct sandbox inside = { .base = str_eq(host->name, "/") ? NULL : host,
					.work = job->work,
					.argv = (const char *const *)argv->items,
					.env = (const char *const *)env.items,
					.timeout_ms = timeout_s * 1000,
					.is_networked = true,
					.resolver = root_exists(job->work, "resolv.conf") ? "resolv.conf" : NULL,
					.line = keep_line,
					.ctx = &listener };
	if (sandbox_run(&inside, &end, err) < 0) {
		package_manager_output_done(&o);
		return -1;
	}
	o.status = end.status;
	o.is_timed_out = end.is_timed_out;
	*ret = o;
	return 0;
}

static bool has_word(const char *line, const char *lower)
{
	size_t len = strlen(lower);
	for (; *line; line++)
		if (strncasecmp(line, lower, len) == 0)
			return true;
	return false;
}

// What apt, dnf and zypper (librepo, libcurl, gpgv, sqv) say, with LC_ALL=C. The first that a line has decides: a
// repository whose lists could not be fetched "is not signed", too.
static const struct {
	const char *text; // lower case
	int code;
} symptoms[] = {
	{ "no_pubkey", E_UNTRUSTED },
	{ "badsig", E_UNTRUSTED },
	{ "expkeysig", E_UNTRUSTED },
	{ "revkeysig", E_UNTRUSTED },
	{ "signature verification failed", E_UNTRUSTED },
	{ "signatures couldn't be verified", E_UNTRUSTED },
	{ "signatures were invalid", E_UNTRUSTED },
	{ "gpg signature verification error", E_UNTRUSTED },
	{ "gpg check failed", E_UNTRUSTED },
	{ "is expired", E_EXPIRED },
	{ "is not valid yet", E_EXPIRED },
	{ "hash sum mismatch", E_DIGEST },
	{ "digest verification failed", E_DIGEST },
	{ "checksum doesn't match", E_DIGEST },
	{ "unauthorized", E_AUTH },
	{ "forbidden", E_AUTH },
	{ "login failed", E_AUTH },
	{ "permission to access", E_AUTH },
	{ "proxy authentication required", E_AUTH },
	{ "status code: 401", E_AUTH },
	{ "status code: 403", E_AUTH },
	{ "status code: 407", E_AUTH },
	{ "code 407", E_AUTH },
	{ "response 407", E_AUTH },
	{ "certificate", E_TLS },
	{ "ssl connect error", E_TLS },
	{ "ssl peer", E_TLS },
	{ "no space left", E_NO_SPACE },
	{ "timed out", E_TIMEOUT },
	{ "timeout was reached", E_TIMEOUT },
	{ "too slow", E_TIMEOUT },
	{ "could not resolve", E_NETWORK },
	{ "couldn't resolve", E_NETWORK },
	{ "temporary failure", E_NETWORK },
	{ "could not connect", E_NETWORK },
	{ "couldn't connect", E_NETWORK },
	{ "connection refused", E_NETWORK },
	{ "connection failed", E_NETWORK },
	{ "network is unreachable", E_NETWORK },
	{ "no route to host", E_NETWORK },
	{ "is not signed", E_UNTRUSTED },
	{ "status code: ", E_SERVER },
	{ "http response: ", E_SERVER },
	{ "metadata not found", E_SERVER },
	{ "failed to retrieve new repository metadata", E_SERVER },
	{ "failed to fetch", E_SERVER },
	{ "failed to download", E_SERVER },
};

enum { LINES_SHOWN = 3 };

int package_manager_symptom(const struct package_output *o, struct strv *told)
{
	if (o->is_timed_out)
		return E_TIMEOUT;
	for (size_t k = 0; k < ARRAY_SIZE(symptoms); k++) {
		for (size_t i = 0; i < o->lines.count && told->count < LINES_SHOWN; i++) {
			const char *line = str_trim(o->lines.items[i]);
			if (has_word(line, symptoms[k].text) && !strv_has(told, line))
				strv_add(told, str_dup(line));
		}
		if (told->count)
			return symptoms[k].code;
	}
	return 0;
}

int package_manager_fail(const struct package_output *o, const char *what, struct err *err)
{
	auto_strv struct strv told = { 0 };
	int code = package_manager_symptom(o, &told);
	for (size_t i = o->lines.count > LINES_SHOWN ? o->lines.count - LINES_SHOWN : 0; i < o->lines.count && !code;
	     i++)
		strv_add(&told, str_dup(str_trim(o->lines.items[i])));
	auto_str char *text = strv_join(&told, "; ");
	return err_set(err, code ? code : E_HEADERS_NOT_FOUND, "%s %s%s%.300s", what,
		       o->is_timed_out ? "did not end before its deadline" : "failed", *text ? ": " : "", text);
}

const char *package_manager_kernel_kind(const char *release)
{
	for (const char *p = release; (p = strchr(p, '-')); p++)
		if (isalpha((unsigned char)p[1]))
			return p;
	return "";
}

static int compare_newest_first(const void *a, const void *b)
{
	return -str_version_cmp(*(char *const *)a, *(char *const *)b);
}

char *package_manager_nearest(const struct strv *names, const char *prefix, const char *release)
{
	enum { SHOWN = 3 };
	const char *kind = package_manager_kernel_kind(release);
	auto_strv struct strv alike = { 0 };
	for (size_t i = 0; i < names->count; i++) {
		const char *name = str_trim(names->items[i]);
		if (!str_starts(name, prefix))
			continue;
		const char *of = name + strlen(prefix);
		if (isdigit((unsigned char)*of) && str_eq(package_manager_kernel_kind(of), kind) &&
		    !strv_has(&alike, of))
			strv_add(&alike, str_dup(of));
	}
	if (!alike.count)
		return NULL;
	qsort(alike.items, alike.count, sizeof(*alike.items), compare_newest_first);
	for (; alike.count > SHOWN; alike.count--)
		free(TAKE(alike.items[alike.count - 1]));
	return strv_join(&alike, ", ");
}

static bool has_program(const struct root *host, const char *alternatives)
{
	auto_strv struct strv names = { 0 };
	strv_split(&names, alternatives, "|");
	for (size_t i = 0; i < names.count; i++)
		if (root_exists(host, names.items[i]))
			return true;
	return false;
}

// archive: a directory of sources that take the place of the host's own; NULL = these.
static bool is_usable(const struct package_client *c, const struct root *host, const char *archive, struct strv *whys)
{
	auto_root struct root sources = ROOT_NONE;
	struct err unread;
	for (size_t i = 0; c->programs[i]; i++)
		if (!has_program(host, c->programs[i])) {
			strv_add(whys, str_fmt("no /%.*s", (int)strcspn(c->programs[i], "|"), c->programs[i]));
			return false;
		}
	if (archive)
		return root_init(&sources, archive, &unread) == 0 && c->has_sources(&sources, ".");
	for (size_t i = 0; c->source_dirs[i]; i++)
		if (c->has_sources(host, c->source_dirs[i]))
			return true;
	strv_add(whys, str_fmt("%s has no repositories", c->name));
	return false;
}

// Files of a directory that a user named become the only sources.
static int copy_archive_sources(const char *archive, const struct root *work, struct err *err)
{
	auto_root struct root from = ROOT_NONE;
	auto_strv struct strv names = { 0 };
	if (root_init(&from, archive, err) < 0 || root_list(&from, ".", &names, err) < 0 ||
	    root_mkdirs(work, SOURCES, 0755, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *text = NULL, *to = str_fmt("%s/%s", SOURCES, names.items[i]);
		size_t len = 0;
		if (!str_ends(to, ".list") && !str_ends(to, ".sources") && !str_ends(to, ".repo"))
			continue;
		if (root_read(&from, names.items[i], &text, &len, err) < 0 ||
		    root_put(work, to, text, len, 0644, err) < 0)
			return -1;
	}
	return 0;
}

// Ours, since the host's may be of another network namespace: in a pod, 127.0.0.53 is not the host's resolver.
static int copy_resolver(const struct root *work, struct err *err)
{
	auto_root struct root self = ROOT_NONE;
	auto_str char *text = NULL;
	size_t len = 0;
	if (root_init(&self, "/", err) < 0)
		return -1;
	int r = root_read(&self, "etc/resolv.conf", &text, &len, err);
	return r > 0 ? root_put(work, "resolv.conf", text, len, 0644, err) : r;
}

static int import_files(const struct package_job *job, const struct root *store, char ret_digest[DIGEST_HEX + 1],
			struct err *err)
{
	auto_strv struct strv paths = { 0 };
	for (size_t i = 0; i < job->files.count; i++)
		strv_add(&paths, root_path(job->work, job->files.items[i]));
	return headers_import(&paths, store, ret_digest, err) < 0 ? -1 : 0;
}

// With one client and one set of sources, in a directory that is gone afterwards.
static int ask_client(const struct package_manager *pm, const struct package_client *c, const char *release,
		      const char *archive, const struct root *store, char ret_digest[DIGEST_HEX + 1], struct err *err)
{
	auto_scratch struct scratch work = SCRATCH_NONE;
	if (scratch_make(pm->state, c->name, &work, err) < 0 || copy_resolver(&work.root, err) < 0 ||
	    (archive && copy_archive_sources(archive, &work.root, err) < 0))
		return -1;
	struct package_job job = { .pm = pm, .release = release, .work = &work.root, .is_archive = archive };
	auto_str char *wanted = c->wanted(&job);
	progress_note(pm->progress, "asking %s for %s, in %s", c->name, wanted,
		      archive ? archive : "the repositories of the host");
	int r = c->fetch(&job, err);
	if (r == 0)
		r = import_files(&job, store, ret_digest, err);
	if (r == 0) {
		auto_str char *names = strv_join(&job.files, ", ");
		progress_note(pm->progress, "%s fetched %s", c->name, names);
	}
	strv_done(&job.files);
	// E_SANDBOX is final. That this container may not run a package manager is not: headers may be packed later.
	if (r < 0 && err->code == E_SANDBOX)
		err_code(err, E_HEADERS_NOT_FOUND);
	return r < 0 ? err_wrap(err, "%s", archive ? archive : c->name) : 0;
}

// The most telling of several failures: one that is not "does not have it".
static void take_worse(struct err *all, const struct err *one)
{
	if (!all->code) {
		*all = *one;
		return;
	}
	struct err both = *all;
	err_set(&both, all->code == E_HEADERS_NOT_FOUND ? one->code : all->code, "%s; %s", all->text, one->text);
	*all = both;
}

// Directories of sources in the order in which they are asked; "" = the host's own.
static void list_places(const struct package_manager_options *options, struct strv *ret)
{
	for (size_t i = 0; options->added && i < options->added->count; i++)
		strv_add(ret, str_dup(options->added->items[i]));
	strv_add(ret, str_dup(""));
	if (options->archive)
		strv_add(ret, str_dup(options->archive));
}

// Who added sources wants to know that nobody reads them.
static void note_unread(const struct package_manager *pm, const char *place)
{
	auto_strv struct strv ignored = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(clients); i++)
		if (!*place || is_usable(clients[i], pm->host, place, &ignored))
			return;
	progress_note(pm->progress, "no package manager of this host reads the repositories in %s", place);
}

int package_manager_headers(void *package_manager, const char *release, const struct root *store,
			    char ret_digest[DIGEST_HEX + 1], struct err *err)
{
	const struct package_manager *pm = package_manager;
	auto_strv struct strv whys = { 0 };
	struct err all = { 0 };
	if (pm->options.why_not)
		return err_set(err, E_NOT_FOUND, "%s", pm->options.why_not);
	// The host's programs run in the host's mount namespace, which has to have the directory that they write to.
	if (sandbox_is_foreign(pm->host) != sandbox_is_foreign(pm->state))
		return err_set(err, E_NOT_FOUND, "'%s' is not on the host, whose package manager would write there",
			       pm->state->name);
	auto_fd int lock = -1;
	auto_strv struct strv places = { 0 };
	list_places(&pm->options, &places);
	for (size_t k = 0; k < places.count; k++) {
		const char *place = *places.items[k] ? places.items[k] : NULL;
		note_unread(pm, places.items[k]);
		for (size_t i = 0; i < ARRAY_SIZE(clients); i++) {
			struct err one = { 0 };
			if (!is_usable(clients[i], pm->host, place, &whys))
				continue;
			if (lock < 0)
				lock = lockfile_take(pm->state, "package-manager", LOCK_EX, LOCKFILE_WAIT_MS, err);
			if (lock < 0)
				return -1;
			if (ask_client(pm, clients[i], release, place, store, ret_digest, &one) == 0)
				return 0;
			take_worse(&all, &one);
		}
	}
	auto_str char *why = strv_join(&whys, ", ");
	if (!all.code)
		return err_set(err, E_NOT_FOUND, "this host has no package manager to ask (%s)", why);
	*err = all;
	return -1;
}

char *package_manager_plan(const struct package_manager *pm, const char *release, char **ret_why)
{
	auto_strv struct strv whys = { 0 }, places = { 0 };
	auto_str char *text = NULL;
	const struct package_job job = { .pm = pm, .release = release };
	list_places(&pm->options, &places);
	for (size_t k = 0; k < places.count && !pm->options.why_not; k++) {
		const char *place = *places.items[k] ? places.items[k] : NULL;
		const struct package_client *c = NULL;
		for (size_t i = 0; i < ARRAY_SIZE(clients) && !c; i++)
			if (is_usable(clients[i], pm->host, place, &whys))
				c = clients[i];
		auto_str char *wanted = c && !text ? c->wanted(&job) : NULL;
		if (wanted)
			str_add(&text, "%s for %s, from ", c->name, wanted);
		else if (c)
			str_add(&text, ", then ");
		if (c)
			str_add(&text, "%s", place ? place : "the host's repositories");
	}
	if (text)
		return TAKE(text);
	auto_str char *why = strv_join(&whys, ", ");
	*ret_why = pm->options.why_not ? str_dup(pm->options.why_not) :
					 str_fmt("this host has no package manager to ask (%s)", why);
	return NULL;
}
