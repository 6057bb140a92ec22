// SPDX-License-Identifier: Apache-2.0
#include "precompiled/trust/statement.h"

#include "precompiled/trust/signature_internal.h"

static const json_t *build_definition(const json_t *statement)
{
	return json_object_get(json_object_get(statement, "predicate"), "buildDefinition");
}

const json_t *statement_external(const json_t *statement)
{
	return json_object_get(build_definition(statement), "externalParameters");
}

const json_t *statement_internal(const json_t *statement)
{
	return json_object_get(build_definition(statement), "internalParameters");
}

const json_t *statement_dependencies(const json_t *statement)
{
	return json_object_get(build_definition(statement), "resolvedDependencies");
}

void statement_set_time(const json_t *statement)
{
	const char *epoch = json_string_value(json_object_get(statement_internal(statement), "sourceDateEpoch"));
	if (epoch)
		setenv("SOURCE_DATE_EPOCH", epoch, 1);
	else
		unsetenv("SOURCE_DATE_EPOCH");
}

const char *statement_dependency_digest(const json_t *dependency)
{
	const char *hex = json_string_value(json_object_get(json_object_get(dependency, "digest"), "sha256"));
	return digest_is_hex(hex) ? hex : NULL;
}

bool statement_is_ours(const json_t *statement)
{
	const char *type = json_string_value(json_object_get(build_definition(statement), "buildType"));
	return str_eq(json_string_value(json_object_get(statement, "predicateType")), STATEMENT_PREDICATE) &&
	       str_eq(type, STATEMENT_BUILD_TYPE);
}

static bool is_about(const json_t *statement, const char *manifest_hex)
{
	const json_t *subjects = json_object_get(statement, "subject");
	for (size_t i = 0; i < json_array_size(subjects); i++)
		if (str_eq(statement_dependency_digest(json_array_get(subjects, i)), manifest_hex))
			return true;
	return false;
}

// As the label of a package has it. Caller frees; NULL = the statement does not have it.
static char *stated_source(const json_t *statement)
{
	const json_t *all = statement_dependencies(statement);
	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *one = json_array_get(all, i);
		const char *hex = statement_dependency_digest(one);
		if (hex && str_eq(json_string_value(json_object_get(one, "name")), STATEMENT_SOURCE))
			return str_dup(hex);
	}
	return NULL;
}

static char *stated_patches(const json_t *statement)
{
	const json_t *all = statement_dependencies(statement);
	char *ret = NULL;
	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *one = json_array_get(all, i);
		const char *name = json_string_value(json_object_get(one, "name")),
			   *hex = statement_dependency_digest(one);
		if (name && str_starts(name, STATEMENT_PATCH))
			str_add(&ret, "%s%s %s", ret ? "," : "", name + strlen(STATEMENT_PATCH), hex ? hex : "?");
	}
	return ret;
}

static char *stated_modules(const json_t *statement)
{
	const json_t *list = json_object_get(statement_external(statement), "modules");
	char *ret = NULL;
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *name = json_string_value(json_array_get(list, i));
		str_add(&ret, "%s%s", ret ? "," : "", name ? name : "?");
	}
	return ret;
}

char *statement_contradiction(const json_t *statement, const char *manifest_hex, const json_t *labels)
{
	const json_t *external = statement_external(statement), *internal = statement_internal(statement);
	const struct {
		const char *label, *what;
		char *says;
	} rows[] = {
		{ "io.kmodsmith.driver", "driver", json_text_dup(external, "driver") },
		{ "io.kmodsmith.flavour", "flavour", json_text_dup(external, "flavour") },
		{ "io.kmodsmith.kernel.release", "kernel release", json_text_dup(external, "kernel") },
		{ "io.kmodsmith.arch", "architecture", json_text_dup(external, "arch") },
		{ "io.kmodsmith.modules", "modules", stated_modules(statement) },
		{ "io.kmodsmith.kernel.build-id", "kernel build id", json_text_dup(internal, "kernelBuildId") },
		{ "io.kmodsmith.compiler", "compiler", json_text_dup(internal, "compiler") },
		{ "io.kmodsmith.signer", "signer of its modules", json_text_dup(internal, "moduleSigner") },
		{ "io.kmodsmith.source", "driver source", stated_source(statement) },
		{ "io.kmodsmith.patches", "patches", stated_patches(statement) },
	};
	char *ret = is_about(statement, manifest_hex) ? NULL : str_dup("it is about another manifest");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *label = json_string_value(json_object_get(labels, rows[i].label));
		if (!ret && (label || rows[i].says) && !str_eq(label, rows[i].says))
			ret = str_fmt("it says %s '%s', the package's label '%s'", rows[i].what,
				      rows[i].says ? rows[i].says : "", label ? label : "");
		free(rows[i].says);
	}
	return ret;
}

int statement_labels(struct repository *r, const char *manifest_hex, json_t **ret, struct err *err)
{
	auto_str char *ref = oci_digest_text(manifest_hex), *text = NULL, *config = NULL;
	auto_oci_manifest struct oci_manifest m = { 0 };
	auto_json json_t *json = NULL;
	char hex[DIGEST_HEX + 1];
	size_t len = 0, config_len = 0;
	int found = repository_manifest(r, ref, &text, &len, hex, err);
	if (found <= 0)
		return found < 0 ? -1 : err_set(err, E_NOT_FOUND, "%s has no %s", r->name, ref);
	if (oci_manifest_parse(text, len, ref, &m, err) < 0)
		return -1;
	if (!str_eq(m.artifact_type, PACKAGE_TYPE))
		return 0;
	found = repository_document(r, &m.config, &config, &config_len, err);
	if (found == 0)
		return err_set(err, E_INCOMPLETE, "%s: configuration sha256:%s is missing", ref, m.config.digest);
	if (found < 0 || oci_json(config, config_len, ref, &json, err) < 0)
		return -1;
	json_t *labels = json_object_get(json_object_get(json, "config"), "Labels");
	*ret = json_is_object(labels) ? json_incref(labels) : json_object();
	return 1;
}

// The document of a referrer that is a statement, or has one in its envelope. 1 = read.
static int read_stated(struct repository *r, const char *ref, json_t **ret, struct err *err)
{
	auto_str char *text = NULL, *data = NULL;
	auto_oci_manifest struct oci_manifest m = { 0 };
	auto_signature_claim struct signature_claim claim = { 0 };
	struct err ignored;
	char hex[DIGEST_HEX + 1];
	size_t len = 0;
	int found = repository_manifest(r, ref, &text, &len, hex, err);
	if (found <= 0)
		return found;
	if (oci_manifest_parse(text, len, ref, &m, &ignored) < 0 || m.count != 1 ||
	    m.layers[0].size > SIGNATURE_SIZE_MAX)
		return 0;
	bool is_plain = str_eq(m.layers[0].media_type, STATEMENT_TYPE);
	if (!is_plain && !str_eq(m.layers[0].media_type, SIGNATURE_BUNDLE))
		return 0;
	found = repository_document(r, &m.layers[0], &data, &len, err);
	if (found <= 0)
		return found;
	if (is_plain)
		return oci_json(data, len, ref, ret, &ignored) == 0;
	return signature_attestation_claim(data, len, ref, &claim, &ignored) > 0 &&
	       oci_json(claim.payload, claim.payload_len, ref, ret, &ignored) == 0;
}

int statement_read(struct repository *r, const char *manifest_hex, json_t **ret, struct err *err)
{
	auto_oci_index struct oci_index x = { 0 };
	if (repository_referrers(r, manifest_hex, &x, err) < 0)
		return -1;
	for (size_t i = 0; i < x.count && i < SIGNATURE_COUNT_MAX; i++) {
		auto_str char *ref = oci_digest_text(x.items[i].digest);
		auto_json json_t *json = NULL;
		int found = read_stated(r, ref, &json, err);
		if (found < 0)
			return -1;
		if (found == 0 || !statement_is_ours(json))
			continue;
		*ret = TAKE(json);
		return 1;
	}
	return 0;
}

int statement_put(const struct layout *l, const struct oci_descriptor *manifest, const char *tag,
		  const json_t *predicate, struct err *err)
{
	auto_json json_t *json =
		json_pack("{s:s, s:s, s:O, s:[{s:s, s:{s:s}}]}", "_type", "https://in-toto.io/Statement/v1",
			  "predicateType", STATEMENT_PREDICATE, "predicate", predicate, "subject", "name", tag,
			  "digest", "sha256", manifest->digest);
	auto_str char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
	auto_json json_t *notes = json_pack("{s:s}", "in-toto.io/predicate-type", STATEMENT_PREDICATE);
	return signature_attach(l, manifest, STATEMENT_TYPE, notes, text, err) < 0 ?
		       err_wrap(err, "record how sha256:%s was built", manifest->digest) :
		       0;
}
