// SPDX-License-Identifier: Apache-2.0
#include "cmd/common/share.h"

static const char BUILDER[] = "builder"; // --share-role
enum { LEASE_DURATION_MIN_S = 4 };

int share_check(const struct job_values *v, const struct origin *origin, struct err *err)
{
	if (!v->share && (v->share_keys.count || v->compile_lease || v->share_role))
		return err_set(err, E_USAGE,
			       "--share-role, --share-key and --compile-lease belong to --share REPOSITORY");
	if (v->share && !strv_has(&origin->from, v->share))
		return err_set(err, E_USAGE, "--share %s is not one of --from: no node would find what is pushed there",
			       v->share);
	if (v->lease_duration_s && v->lease_duration_s < LEASE_DURATION_MIN_S)
		return err_set(err, E_USAGE, "--lease-duration %u: at least %d seconds", v->lease_duration_s,
			       LEASE_DURATION_MIN_S);
	return 0;
}

static const struct trust_key *trusted_key(const struct trust *trust, const struct key *key)
{
	for (size_t i = 0; i < trust->count; i++)
		if (str_eq(trust->keys[i].key->id, key->id))
			return &trust->keys[i];
	return NULL;
}

// A key that this node trusts is usually trusted by all nodes.
static void warn_of_untrusted_keys(const struct job_values *v, const struct origin *origin)
{
	for (size_t i = 0; i < v->share_keys.count; i++) {
		struct err ignored;
		auto_key struct key *key = NULL;
		bool is_open = key_open(v->share_keys.items[i], getenv("KMODSMITH_KEY_PASSWORD"), &key, &ignored) == 0;
		const struct trust_key *known = is_open ? trusted_key(&origin->trust.trust, key) : NULL;
		if (known)
			log_warn("the private half of '%s', a key that this node trusts, can be read here although "
				 "this node is not a builder: root here could sign for every node that trusts it. "
				 "Remove --share-key, or set --share-role builder",
				 known->name);
		else
			log_warn("--share-key is ignored: this node is not a builder (--share-role)");
	}
}

int share_open(const struct job_values *values, const struct origin *origin, struct shared_build_request request,
	       struct shared_build *ret, struct err *err)
{
	if (share_check(values, origin, err) < 0)
		return -1;
	request.is_builder = str_eq(values->share_role, BUILDER);
	if (!request.is_builder)
		warn_of_untrusted_keys(values, origin);
	if (!values->share || !request.source->version)
		return 0;
	request.repository = values->share;
	request.keys = &values->share_keys;
	request.lease = values->compile_lease;
	request.kubeconfig = values->kubeconfig;
	request.lease_duration_s = values->lease_duration_s;
	request.timeout_s = values->request.options.timeout_s;
	request.remote = &origin->remote.options;
	return shared_build_open(&request, ret, err) < 0 ? -1 : 1;
}
