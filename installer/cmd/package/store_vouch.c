// SPDX-License-Identifier: Apache-2.0
// Who vouches for what lies in the store.
#include "cmd/package/store.h"

void package_trust_done(struct package_trust *v)
{
	provenance_done(&v->provenance);
}

void package_trust_read(const struct store_session *d, const struct trust_now *trust, const char *hex,
			struct package_trust *ret)
{
	*ret = (struct package_trust){ 0 };
	if (provenance_check(&d->store.layout, hex, trust, &ret->provenance, &ret->why) == 0)
		ret->why.code = 0;
}

char *package_trust_text(const struct package_trust *v)
{
	return v->why.code ? str_fmt("no longer trusted (%s)", err_info(v->why.code)->name) :
			     provenance_text(&v->provenance);
}

json_t *package_trust_json(const struct package_trust *v)
{
	json_t *json = provenance_json(&v->provenance);
	json_object_set_new(json, "trusted", json_boolean(!v->why.code));
	json_object_set_new(json, "code", json_text(v->why.code ? err_info(v->why.code)->name : NULL));
	json_object_set_new(json, "why", json_text(v->why.code ? v->why.text : NULL));
	return json;
}
