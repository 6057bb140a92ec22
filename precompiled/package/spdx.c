// SPDX-License-Identifier: Apache-2.0
// Modules are packages with one file each, and not "files", which SPDX 2.3 wants SHA-1 of.
#include "precompiled/package/spdx.h"

#include "base/core/date.h"

static const char NVIDIA[] = "LicenseRef-NVIDIA", UNKNOWN[] = "NOASSERTION";

// Documentation/process/license-rules.rst of Linux says what the texts mean.
static const char *spdx_license(const char *module_license)
{
	static const char *const rows[][2] = {
		{ "Dual MIT/GPL", "GPL-2.0-only OR MIT" },
		{ "GPL v2", "GPL-2.0-only" },
		{ "NVIDIA", NVIDIA },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (str_eq(module_license, rows[i][0]))
			return rows[i][1];
	return UNKNOWN;
}

static void add_part(json_t *doc, const char *id, const char *name, const char *version, const char *sha256,
		     const char *purpose, const char *license)
{
	json_t *part =
		json_pack("{s:s, s:s, s:s*, s:s, s:b, s:s, s:s, s:s, s:s}", "SPDXID", id, "name", name, "versionInfo",
			  version, "downloadLocation", UNKNOWN, "filesAnalyzed", 0, "primaryPackagePurpose", purpose,
			  "licenseDeclared", license, "licenseConcluded", UNKNOWN, "copyrightText", UNKNOWN);
	if (sha256)
		json_object_set_new(part, "checksums",
				    json_pack("[{s:s, s:s}]", "algorithm", "SHA256", "checksumValue", sha256));
	json_array_append_new(json_object_get(doc, "packages"), part);
}

static void relate(json_t *doc, const char *from, const char *type, const char *to)
{
	json_array_append_new(json_object_get(doc, "relationships"),
			      json_pack("{s:s, s:s, s:s}", "spdxElementId", from, "relationshipType", type,
					"relatedSpdxElement", to));
}

static void add_modules(json_t *doc, const struct package *p, const char *const *licenses)
{
	bool is_nvidia_named = false;
	for (size_t i = 0; i < p->count; i++) {
		auto_str char *id = str_fmt("SPDXRef-Module-%zu", i + 1);
		const char *license = spdx_license(licenses[i]);
		add_part(doc, id, p->files[i].name, p->key.driver, p->files[i].sha256, "FILE", license);
		is_nvidia_named |= str_eq(license, NVIDIA);
		relate(doc, "SPDXRef-Package", "CONTAINS", id);
		if (p->key.source)
			relate(doc, id, "GENERATED_FROM", "SPDXRef-Source");
		for (size_t k = 0; k < p->key.patches.count; k++) {
			auto_str char *patch = str_fmt("SPDXRef-Patch-%zu", k + 1);
			relate(doc, id, "GENERATED_FROM", patch);
		}
	}
	if (is_nvidia_named)
		json_object_set_new(doc, "hasExtractedLicensingInfos",
				    json_pack("[{s:s, s:s, s:s}]", "licenseId", NVIDIA, "name",
					      "NVIDIA's driver licence", "extractedText",
					      "The file LICENSE of NVIDIA's driver package."));
}

static json_t *spdx_json(const struct package *p, const char *const *licenses)
{
	uint64_t seconds = 0; // as in the configuration, see package_publish()
	str_u64(getenv("SOURCE_DATE_EPOCH"), 10, &seconds);
	auto_str char *tag = package_tag(&p->key), *when = date_text((time_t)seconds),
		      *space = str_fmt("https://kmodsmith.io/spdx/sha256/%s", p->manifest.digest);
	json_t *doc = json_pack("{s:s, s:s, s:s, s:s, s:s, s:{s:s, s:[s]}, s:[], s:[]}", "spdxVersion", "SPDX-2.3",
				"dataLicense", "CC0-1.0", "SPDXID", "SPDXRef-DOCUMENT", "name", tag,
				"documentNamespace", space, "creationInfo", "created", when, "creators",
				"Tool: kmodsmith-" KMODSMITH_VERSION, "packages", "relationships");
	add_part(doc, "SPDXRef-Package", tag, p->key.driver, p->manifest.digest, "CONTAINER", UNKNOWN);
	relate(doc, "SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Package");
	if (p->key.source)
		add_part(doc, "SPDXRef-Source", "nvidia-driver-source", p->key.driver, p->key.source, "SOURCE",
			 UNKNOWN);
	for (size_t i = 0; i < p->key.patches.count; i++) {
		auto_str char *id = str_fmt("SPDXRef-Patch-%zu", i + 1), *text = str_dup(p->key.patches.items[i]);
		char *sha256 = strrchr(text, ' ');
		if (sha256)
			*sha256++ = '\0';
		add_part(doc, id, text, NULL, sha256, "SOURCE", UNKNOWN);
	}
	add_modules(doc, p, licenses);
	return doc;
}

int spdx_put(const struct layout *l, const struct package *p, const char *const *licenses, struct err *err)
{
	auto_json json_t *doc = spdx_json(p, licenses);
	auto_str char *text = json_dumps(doc, JSON_COMPACT | JSON_SORT_KEYS);
	return signature_attach(l, &p->manifest, SPDX_TYPE, NULL, text, err) < 0 ?
		       err_wrap(err, "list what sha256:%s contains", p->manifest.digest) :
		       0;
}
