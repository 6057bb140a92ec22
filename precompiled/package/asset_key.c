// SPDX-License-Identifier: Apache-2.0
#include "precompiled/package/asset_key.h"

const struct asset_kind ASSET_HEADERS = { "headers", "application/vnd.kmodsmith.kernel-headers.v1" };
const struct asset_kind ASSET_PAYLOAD = { "payload", "application/vnd.kmodsmith.payload.v1" };
const struct asset_kind ASSET_CORE = { "core", "application/vnd.kmodsmith.core.v1" };
const struct asset_kind ASSET_BUILDER = { "builder", "application/vnd.kmodsmith.builder.v1" };

const struct asset_field asset_fields[ASSET_FIELDS] = {
	{ "io.kmodsmith.driver", "driver version", offsetof(struct asset_key, driver), ASSET_EXACT },
	{ "io.kmodsmith.kernel.release", "kernel release", offsetof(struct asset_key, release), ASSET_EXACT },
	{ "io.kmodsmith.arch", "architecture", offsetof(struct asset_key, arch), ASSET_EXACT },
	{ "io.kmodsmith.modules", "module", offsetof(struct asset_key, module), ASSET_EXACT },
	{ "io.kmodsmith.core", "key of the core", offsetof(struct asset_key, core), ASSET_EXACT },
	{ "io.kmodsmith.compiler", "compiler", offsetof(struct asset_key, compiler), ASSET_IF_KNOWN },
	{ "io.kmodsmith.kernel.build-id", "kernel build id", offsetof(struct asset_key, build_id), ASSET_IF_KNOWN },
	{ "io.kmodsmith.distro", "distribution", offsetof(struct asset_key, distro), ASSET_NOTE },
};

char *asset_tag(const struct asset_key *key)
{
	enum { CORE_DIGITS = 16 };
	if (key->tag)
		return str_dup(key->tag);
	if (key->core) { // several of one driver version, by compiler and by content of the release
		auto_str char *name = str_fmt("%s-%s-%s-%.*s-%s", key->kind->name, key->driver, key->module,
					      CORE_DIGITS, key->core, key->arch);
		return oci_tag(name);
	}
	const char *of = key->driver ? key->driver : key->release ? key->release : key->compiler;
	auto_str char *name = str_fmt("%s%s%s%s-%s", key->kind->name, key->digest ? "-pinned" : "", of ? "-" : "",
				      of ? of : "", key->arch);
	return oci_tag(name);
}

const struct asset_kind *asset_kind_of(const char *type)
{
	static const struct asset_kind *const kinds[] = { &ASSET_HEADERS, &ASSET_PAYLOAD, &ASSET_BUILDER, &ASSET_CORE };
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (str_eq(type, kinds[i]->type))
			return kinds[i];
	return NULL;
}

char *asset_tag_of(const struct oci_manifest *m)
{
	struct asset_key key = { .kind = asset_kind_of(m->artifact_type) };
	if (!key.kind)
		return NULL;
	for (size_t k = 0; k < ASSET_FIELDS; k++)
		*(const char **)((char *)&key + asset_fields[k].offset) =
			json_string_value(json_object_get(m->annotations, asset_fields[k].label));
	bool is_whole = key.arch && (key.core ? key.driver && key.module : true);
	return is_whole ? asset_tag(&key) : NULL;
}

bool asset_parse_pin(const char *text, char **ret_name, char ret_hex[DIGEST_HEX + 1])
{
	const char *at = strrchr(text, '@');
	if (at == text || !oci_digest_parse(at ? at + 1 : text, ret_hex))
		return false;
	*ret_name = at ? str_ndup(text, (size_t)(at - text)) : NULL;
	return true;
}
