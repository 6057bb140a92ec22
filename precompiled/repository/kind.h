// SPDX-License-Identifier: Apache-2.0
// The kinds of repository. A name begins as for skopeo and curl, and that says its kind. This table feeds help and
// messages, what opens a repository, and what tells whether one answers.
#pragma once
#include <stdbool.h>

// X(kind, prefix, as lists of names show it, scheme, probe, open)
// scheme: of its HTTP requests; NULL = it is on this machine, and is opened by what follows the prefix.
// probe: what is asked to see whether it answers: a file below the name, or with / a path of the host.
// clang-format off
#define REPOSITORY_KINDS(X) \
	/* an OCI layout directory */ \
	X(LAYOUT, "oci:", "oci:DIR", NULL, NULL, repository_open_layout) \
	/* a bundle: the same layout as a tar; read-only */ \
	X(BUNDLE, "oci-archive:", ", oci-archive:FILE.tar", NULL, NULL, repository_open_bundle) \
	/* a static web server with the same files; read-only */ \
	X(WEB, "https://", ", https://HOST/PATH", "https", "index.json", repository_open_web) \
	X(PLAIN_WEB, "http://", "", "http", "index.json", repository_open_web) \
	/* a registry, through the distribution API */ \
	X(REGISTRY, "docker://", " or docker://HOST/NAME", "https", "/v2/", repository_open_registry) \
	X(PLAIN_REGISTRY, "docker+http://", "", "http", "/v2/", repository_open_registry)
// clang-format on

#define REPOSITORY_SHOWN(kind, prefix, shown, ...) shown
#define REPOSITORY_NAMES REPOSITORY_KINDS(REPOSITORY_SHOWN) // "oci:DIR, ... or docker://HOST/NAME"

enum repository_kind {
#define X(kind, ...) REPOSITORY_##kind,
	REPOSITORY_KINDS(X)
#undef X
		REPOSITORY_UNKNOWN
};
enum repository_kind repository_kind(const char *name);
bool repository_is_remote(const char *name);  // by its name
char *repository_probe_url(const char *name); // the URL to probe a remote one; NULL = local
// Returns the part of a name behind the prefix of this kind; NULL = the name is of another kind.
const char *repository_path(const char *name, enum repository_kind kind);
char *repository_name(enum repository_kind kind, const char *path); // the inverse; caller frees
