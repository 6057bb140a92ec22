// SPDX-License-Identifier: Apache-2.0
// What registries, mirrors and bundles say: OCI documents, packages, catalogues, signatures, NVIDIA's manifest.
#include "precompiled/bundle/bundle_manifest.h"
#include "precompiled/package/package.h"
#include "precompiled/payload/image_dir.h"
#include "precompiled/payload/runfile.h"
#include "precompiled/repository/credentials.h"
#include "precompiled/repository/registry.c" // NOLINT(bugprone-suspicious-include): its parse_challenges()
#include "precompiled/trust/catalog.h"
#include "precompiled/trust/signature_internal.h"
#include "precompiled/trust/trust.h"
#include "tests/fuzz/fuzz.h"

FUZZ_TARGET(manifest)
{
	struct err err;
	auto_oci_manifest struct oci_manifest m = { 0 }, again = { 0 };
	if (!FUZZ(oci_manifest_parse(data, len, "fuzz", &m, &err)))
		return 0;
	auto_str char *text = oci_manifest_text(&m);
	if (oci_manifest_parse(text, strlen(text), "again", &again, &err) < 0)
		abort();
	auto_str char *same = oci_manifest_text(&again);
	if (!str_eq(text, same))
		abort();
	signature_is_bundle(&m);
	return 1;
}

FUZZ_TARGET(index)
{
	struct err err;
	auto_oci_index struct oci_index x = { 0 }, again = { 0 };
	if (!FUZZ(oci_index_parse(data, len, "fuzz", &x, &err)))
		return 0;
	oci_index_find(&x, "tag");
	if (x.count)
		oci_index_put(&x, &x.items[0], "tag");
	auto_str char *text = oci_index_text(&x);
	if (oci_index_parse(text, strlen(text), "again", &again, &err) < 0 || again.count != x.count)
		abort();
	return 1;
}

FUZZ_TARGET(catalog)
{
	struct err err;
	auto_catalog struct catalog c = { 0 }, again = { 0 };
	if (!FUZZ(catalog_parse(data, len, "fuzz", &c, &err)))
		return 0;
	auto_json json_t *json = catalog_json(&c);
	auto_str char *text = json_dumps(json, JSON_COMPACT);
	if (!text || catalog_parse(text, strlen(text), "again", &again, &err) < 0 || again.number != c.number)
		abort();
	catalog_digest(&c, "tag");
	return 1;
}

FUZZ_TARGET(promises)
{
	struct err err;
	auto_bundle_manifest struct bundle_manifest p = { 0 };
	if (!FUZZ(bundle_manifest_parse(data, len, "fuzz", &p, &err)))
		return 0;
	for (size_t i = 0; i < p.count; i++) {
		auto_str char *text = bundle_entry_text(&p.items[i]);
		if (!text)
			abort();
	}
	return 1;
}

FUZZ_TARGET(package) // parts: manifest, config
{
	struct err err;
	size_t manifest_len, config_len;
	auto_str char *manifest = fuzz_part(data, len, "manifest", false, &manifest_len),
		      *config = fuzz_part(data, len, "config", true, &config_len);
	auto_oci_manifest struct oci_manifest m = { 0 };
	auto_package struct package p = PACKAGE_NONE;
	if (!FUZZ(oci_manifest_parse(manifest, manifest_len, "fuzz", &m, &err)))
		return 0;
	struct oci_descriptor d = { .size = manifest_len };
	memset(d.digest, 'a', DIGEST_HEX);
	err = (struct err){ 0 };
	int r = package_parse(&m, &d, config, config_len, &p, &err);
	if (r <= 0)
		return r < 0 ? fuzz_refused(&err) : 0;
	auto_str char *tag = package_tag(&p.key), *dir = package_dir(&p.key);
	if (!tag || !dir || strlen(tag) > 128)
		abort();
	return 1;
}

FUZZ_TARGET(docker_config)
{
	struct err err = { 0 };
	const struct root *root = fuzz_file("config.json", data, len);
	auto_str char *path = root_path(root, "config.json");
	auto_credentials struct credentials c = { 0 };
	int r = credentials_find(path, "reg.example:5000", "team/nvidia", &c, &err);
	return r < 0 ? fuzz_refused(&err) : r;
}

FUZZ_TARGET(run_manifest) // NVIDIA's .manifest
{
	struct err err;
	auto_str char *text = str_ndup(data, len);
	auto_runfile struct runfile r = { 0 };
	if (!FUZZ(runfile_parse(text, "fuzz", "x86_64-linux-gnu", &r, &err)))
		return 0;
	for (size_t i = 0; i < r.count; i++) {
		const char *place = r.items[i].place;
		if (!place || *place == '/' || str_starts(place, "../") || strstr(place, "/../"))
			abort();
	}
	return 1;
}

FUZZ_TARGET(cosign) // cosign's older form; parts: signature (of the annotation), payload
{
	struct err err;
	size_t signature_len, payload_len;
	auto_str char *signature = fuzz_part(data, len, "signature", false, &signature_len),
		      *payload = fuzz_part(data, len, "payload", true, &payload_len);
	auto_oci_descriptor struct oci_descriptor d = { .size = payload_len };
	d.annotations = json_object();
	json_object_set_new(d.annotations, "dev.cosignproject.cosign/signature", json_text(str_trim(signature)));
	auto_signature_claim struct signature_claim c = { 0 };
	return FUZZ(signature_cosign_claim(&d, payload, payload_len, &c, &err));
}

FUZZ_TARGET(sigstore_bundle)
{
	struct err err = { 0 };
	auto_signature_claim struct signature_claim c = { 0 };
	int r = signature_bundle_claim(data, len, "fuzz", &c, &err);
	return r < 0 ? fuzz_refused(&err) : r;
}

FUZZ_TARGET(challenge) // WWW-Authenticate of a registry
{
	auto_str char *text = str_ndup(data, len);
	auto_challenge struct challenge c = { 0 };
	parse_challenges(text, &c);
	if (c.way == WAY_TOKEN && !*c.realm)
		abort();
	return c.way != WAY_UNKNOWN;
}

FUZZ_TARGET(trust)
{
	static const char *const paths[] = { "policy.json", "alice.pem", "bob.pem", "ca.pem", NULL };
	struct err err;
	struct trust t = { 0 };
	struct trust_rule rule = { 0 };
	int taken = FUZZ(trust_open(fuzz_tree(data, len, paths), &t, &err));
	if (taken)
		trust_rule(&t, "docker://reg.example/drivers/x", &rule);
	trust_rule_done(&rule);
	trust_done(&t);
	return taken;
}

FUZZ_TARGET(carried)
{
	struct err err = { 0 };
	auto_image_dir struct image_dir c = { 0 };
	int r = image_dir_read(fuzz_file("payload.json", data, len), "payload.json", &c, &err);
	return r < 0 ? fuzz_refused(&err) : r;
}

FUZZ_TARGET(bundle) // a tar with an OCI layout
{
	struct err err;
	const struct root *root = fuzz_file("bundle.tar", data, len);
	auto_str char *path = root_path(root, "bundle.tar"), *name = str_fmt("oci-archive:%s", path), *text = NULL;
	struct repository_options options = { 0 };
	auto_repository struct repository *r = NULL;
	auto_strv struct strv tags = { 0 };
	char digest[DIGEST_HEX + 1];
	size_t text_len;
	if (!FUZZ(repository_open(name, &options, &r, &err)) || !FUZZ(repository_tags(r, &tags, &err)))
		return 0;
	return FUZZ(repository_manifest(r, tags.count ? tags.items[0] : "tag", &text, &text_len, digest, &err));
}
