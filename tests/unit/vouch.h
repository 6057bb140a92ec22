// SPDX-License-Identifier: Apache-2.0
// A layout with two packages to be signed, keys, and the layout as a repository to be checked.
#pragma once
#include "precompiled/trust/signature.h"
#include "tests/unit/sign.h"
#include "tests/unit/tempdir.h"

#define VOUCH_NOW ((time_t)1800000000)

struct vouch {
	struct folder folder;
	struct layout l;
	struct oci_descriptor package, other; // tags "package" and "other"
	struct repository *r;
	struct trust_key keys[3]; // "alice", "bob" (P-256), "carol" (Ed25519)
	const struct trust_key *listed[3];
};

static inline struct key *vouch_key(const struct folder *folder, const char *type)
{
	struct err err;
	struct key *key = NULL;
	EVP_PKEY *pkey =
		str_eq(type, "EC") ? EVP_PKEY_Q_keygen(NULL, NULL, type, "P-256") : EVP_PKEY_Q_keygen(NULL, NULL, type);
	auto_str char *pem = signer_key(pkey), *path = str_fmt("%s/.key.pem", folder->path);
	folder_file(folder, ".key.pem", pem);
	EVP_PKEY_free(pkey);
	assert_int_equal(key_open(path, NULL, &key, &err), 0);
	return key;
}

static inline struct oci_descriptor vouch_package(const struct layout *l, const char *tag)
{
	struct err err;
	char hex[DIGEST_HEX + 1];
	assert_int_equal(layout_blob_put(l, "{}", 2, hex, &err), 0);
	auto_oci_manifest struct oci_manifest m = { .artifact_type =
							    str_dup("application/vnd.kmodsmith.kmod.package.v1") };
	m.config = (struct oci_descriptor){ .media_type = str_dup(OCI_EMPTY), .size = 2 };
	memcpy(m.config.digest, hex, sizeof(hex));
	m.annotations = json_pack("{s:s}", OCI_VERSION, tag);
	auto_str char *text = oci_manifest_text(&m);
	struct oci_descriptor d = { .media_type = str_dup(OCI_MANIFEST), .size = strlen(text) };
	assert_int_equal(layout_blob_put(l, text, strlen(text), d.digest, &err), 0);
	assert_int_equal(layout_publish(l, &d, tag, &err), 0);
	return d;
}

static inline void vouch_make(struct vouch *v)
{
	static const char *const names[] = { "alice", "bob", "carol" };
	struct err err;
	*v = (struct vouch){ .l = LAYOUT_NONE };
	folder_make(&v->folder);
	auto_str char *dir = str_fmt("%s/layout", v->folder.path);
	folder_dir(&v->folder, "layout");
	auto_root struct root root = ROOT_NONE;
	assert_int_equal(root_init(&root, dir, &err), 0);
	assert_int_equal(layout_make(&root, &v->l, &err), 0);
	v->package = vouch_package(&v->l, "package");
	v->other = vouch_package(&v->l, "other");
	assert_int_equal(repository_open_layout(dir, NULL, &v->r, &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		v->keys[i].name = str_dup(names[i]);
		v->keys[i].key = vouch_key(&v->folder, i == 2 ? "ED25519" : "EC");
		v->listed[i] = &v->keys[i];
	}
}

static inline void vouch_done(struct vouch *v)
{
	repository_free(v->r);
	layout_done(&v->l);
	oci_descriptor_done(&v->package);
	oci_descriptor_done(&v->other);
	for (size_t i = 0; i < ARRAY_SIZE(v->keys); i++) {
		free(v->keys[i].name);
		key_free(v->keys[i].key);
	}
	folder_done(&v->folder);
}
#define auto_vouch __attribute__((cleanup(vouch_done)))

// The first count keys count, threshold of them must have signed.
static inline struct trust_rule vouch_rule(struct vouch *v, size_t count, unsigned threshold)
{
	return (struct trust_rule){ .keys = v->listed, .count = count, .threshold = threshold, .place = "trust" };
}

static inline struct signature_maker vouch_maker(const struct vouch *v, size_t key)
{
	return (struct signature_maker){ .key = v->keys[key].key,
					 .reference = "reg.example/drivers",
					 .now = VOUCH_NOW };
}

static inline int vouch_sign(const struct vouch *v, const struct oci_descriptor *d, size_t key)
{
	struct err err = { 0 };
	struct signature_maker maker = vouch_maker(v, key);
	int r = signature_make(&v->l, d, &maker, &err);
	assert_string_equal(err.text, "");
	return r;
}

// 0, or the code of the error.
static inline int vouch_check(const struct vouch *v, const struct trust_rule *rule, char **ret_text)
{
	struct err err = { 0 };
	auto_signature_verdict struct signature_verdict verdict = { 0 };
	int r = signature_check(v->r, v->package.digest, rule, &verdict, &err);
	if (ret_text) {
		free(*ret_text);
		*ret_text = str_dup(err.text);
	}
	return r < 0 ? err.code : 0;
}
