// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "package_manager/package_manager.h"

// Of one search with one set of sources.
struct package_job {
	const struct package_manager *pm;
	const char *release;
	const struct root *work; // seen as /build
	bool is_archive;         // the sources are those in work/sources, not the host's
	struct strv files;       // in work: what was downloaded
};

struct package_output {
	struct strv lines; // the last of them, if there are very many
	int status;        // exit status; -1 = a signal
	bool is_timed_out;
};
void package_manager_output_done(struct package_output *o);
#define auto_package_output __attribute__((cleanup(package_manager_output_done)))

enum { PM_ASK_S = 60, PM_UPDATE_S = 600, PM_DOWNLOAD_S = 900 }; // deadlines of one call

unsigned package_manager_stall_s(const struct package_job *job);
char *package_manager_seconds(const struct package_job *job, const char *option); // OPTION and the seconds of a stall
// Runs a program of the host in the sandbox; argv[0] is absolute. Negative: it could not be started.
int package_manager_run(const struct package_job *job, const struct strv *argv, int timeout_s,
			struct package_output *ret, struct err *err);

// What went wrong by the output, as an error code, and the lines that say so; 0 = nothing is seen.
int package_manager_symptom(const struct package_output *o, struct strv *told);
// E_HEADERS_NOT_FOUND where nothing is seen. Always -1.
int package_manager_fail(const struct package_output *o, const char *what, struct err *err);
// Which of a repository's names is nearest to what was wanted: those of the same kind of kernel, the newest first; at
// most three. Caller frees; NULL = none.
char *package_manager_nearest(const struct strv *names, const char *prefix, const char *release);
// "-cloud-amd64" of "6.1.0-56-cloud-amd64"; "" = it has no such part.
const char *package_manager_kernel_kind(const char *release);

struct package_client {
	const char *name;            // for messages
	const char *const *programs; // that must exist, NULL-terminated; "A|B": one of them
	// Does this root have repositories of its kind?
	bool (*has_sources)(const struct root *root, const char *dir);
	const char *const *source_dirs;                 // of the host, NULL-terminated
	char *(*wanted)(const struct package_job *job); // the name of what is asked for, for messages; caller frees
	int (*fetch)(struct package_job *job, struct err *err);
};
extern const struct package_client PACKAGE_MANAGER_APT, PACKAGE_MANAGER_DNF, PACKAGE_MANAGER_ZYPPER;

#define RPM_KEYS_DATABASE "/build/keys" // in SANDBOX_WORK: rpm's, with the keys and nothing else
bool rpm_keys_has_repositories(const struct root *root, const char *dir); // has_sources
// Adds the key files that the enabled repositories below dir, or in the archive, name (gpgkey=file:///...).
int rpm_keys_list(const struct package_job *job, const char *dir, struct strv *keys, struct err *err);
// Into the database; they are read in the sandbox.
int rpm_keys_import(const struct package_job *job, const struct strv *keys, struct err *err);
// Did one of them sign each of job->files? Else E_UNTRUSTED; whose is for the message: "of the host".
int rpm_keys_check(const struct package_job *job, const char *whose, struct err *err);
