// SPDX-License-Identifier: Apache-2.0
// The keys this machine trusts: a directory, by default etc/kmodsmith/trust of the host, with
//
//   NAME.pem      one public key each; what is no file is no key
//   policy.json   which keys are valid for which source (optional):
//                 {"sources": [{"prefix": "docker://reg.example/drivers", "keys": ["NAME or ID"], "threshold": 1,
//                               "unsigned": "refuse", "catalog": "optional", "provenance": "optional",
//                               "driver-sources": ["sha256:HEX"]}]}
//
// The entry with the longest prefix of a source's name applies. Only "prefix" is required; an entry without "keys"
// accepts every key that no entry names. "unsigned" is "refuse" or "accept", "catalog" "optional" or "required"
// (absent: required once one was seen). "provenance" "required": of a package, as many keys must have signed the
// statement of how it was built (statement.h). "driver-sources": a package must be built from one of these files. A
// source without an entry needs one signature by any key that no entry names: a key trusted for one source is not
// trusted for all.
#pragma once
#include "base/crypto/key.h"
#include "base/formats/json.h"

struct trust_key {
	char *name; // of the file, without ".pem"
	struct key *key;
	struct strv prefixes; // of the entries that name it
};

// Whether a source needs a catalogue. By default once this machine has seen one: a mirror must not bring back dropped
// packages by removing the catalogue's tag.
enum trust_catalog { TRUST_CATALOG_SEEN, TRUST_CATALOG_OPTIONAL, TRUST_CATALOG_REQUIRED };
const char *trust_catalog_name(enum trust_catalog c); // "once seen", "optional", "required"

struct trust_source { // an entry of policy.json
	char *prefix;
	bool has_keys;
	struct strv keys; // names
	unsigned threshold;
	bool is_unsigned_accepted;
	enum trust_catalog catalog;
	bool is_statement_required;
	struct strv sources; // SHA-256 of driver sources; empty = any
};

struct trust {
	char *place; // for messages
	struct trust_key *keys;
	size_t count;
	struct trust_source *sources;
	size_t source_count;
	struct strv
		skipped; // what counts for nothing, a sentence each: keys that are no files, members of other versions
};
// The directory that a user named (NULL = none), else the host's. 1 = there, 0 = absent.
int trust_dir(const struct root *host, const char *named, struct root *ret, struct err *err);
int trust_dir_make(const struct root *host, const char *named, struct root *ret, struct err *err); // and its parents
// dir may be ROOT_NONE: no key is trusted. E_CONFIG: policy.json; E_KEY: an invalid key file; E_RIGHTS: we are root,
// and other users can write the directory or a file in it.
int trust_open(const struct root *dir, struct trust *ret, struct err *err);
void trust_done(struct trust *t);
#define auto_trust __attribute__((cleanup(trust_done)))

// For packages of the store: an unreadable directory is only an error for those that need it.
struct trust_now {
	struct trust trust;
	struct err unread; // .code 0 = it was read
	bool is_absent;    // there is none: no key is trusted, and none was removed
};
void trust_now(const struct root *host, const char *named, struct trust_now *ret); // as trust_dir()
static inline void trust_now_done(struct trust_now *t)
{
	trust_done(&t->trust);
	*t = (struct trust_now){ 0 };
}
#define auto_trust_now __attribute__((cleanup(trust_now_done)))

struct trust_rule {                    // the requirements for a source's packages
	const struct trust_key **keys; // the keys are borrowed from struct trust
	size_t count;
	unsigned threshold;
	bool is_unsigned_accepted;
	enum trust_catalog catalog;
	bool is_statement_required;
	const struct strv *sources; // of drivers, as SHA-256; borrowed; NULL or empty = any
	const char *prefix;         // of the entry; NULL = no entry
	const char *place;
	bool is_kept; // for packages of a store (provenance.h)
};
// repository: the name of a struct repository.
void trust_rule(const struct trust *t, const char *repository, struct trust_rule *ret);
static inline void trust_rule_done(struct trust_rule *rule)
{
	free(rule->keys);
	*rule = (struct trust_rule){ 0 };
}
#define auto_trust_rule __attribute__((cleanup(trust_rule_done)))

// Changes by an administrator; a kill half way leaves a directory that trusts less, never more. 1 = changed, 0 = no
// change. name: NULL = the first 16 digits of the id. prefix: the key is valid for these sources only; NULL = for those
// without an entry.
int trust_add(const struct root *dir, const char *name, const char *pem, const char *prefix,
	      char ret_id[DIGEST_HEX + 1], struct err *err);
int trust_remove(const struct root *dir, const char *name_or_id, struct err *err);
