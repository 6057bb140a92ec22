// SPDX-License-Identifier: Apache-2.0
#include "cmd/common/origin.h"

#include "cmd/common/job.h"
#include "precompiled/package/asset.h"

#include <time.h>

#define OPT(name, letter, arg, env, type, member, help)                                    \
	{                                                                                  \
		name, letter, arg, env, type, offsetof(struct origin_values, member), help \
	}

const struct opt package_opts[] = {
	OPT("package", 'p', "NAME", "KMODSMITH_PACKAGE", OPT_STR, package,
	    "a package named by hand: oci:DIR or oci-archive:FILE of `kmodsmith build`; signatures are not asked for"),
	{ .help = "Packages and trust" },
};

const struct opt origin_opts[] = {
	OPT("bundle", 0, "FILE", "KMODSMITH_BUNDLE", OPT_STR, bundle,
	    "a signed bundle, asked before --from; implies --offline"),
	OPT("from", 0, "NAME,...", "KMODSMITH_FROM", OPT_SECRETS, from,
	    "repositories to ask in this order: " REPOSITORY_NAMES),
	OPT("trust-dir", 0, "DIR", "KMODSMITH_TRUST_DIR", OPT_STR, trust_dir,
	    "keys that are trusted and what is asked of each repository; default etc/kmodsmith/trust of the host"),
	OPT("insecure-skip-verify", 0, NULL, NULL, OPT_FLAG, is_unverified,
	    "accept packages of these repositories without verifying signatures"),
	{ .help = "Packages and trust" },
};

char *origin_name(const char *name)
{
	if (strchr(name, ':'))
		return str_dup(name);
	return repository_name(str_ends(name, ".tar") ? REPOSITORY_BUNDLE : REPOSITORY_LAYOUT, name);
}

static bool is_any_remote(const struct strv *from)
{
	for (size_t i = 0; i < from->count; i++)
		if (repository_is_remote(from->items[i]))
			return true;
	return false;
}

int origin_open(const struct origin_values *v, const struct root *host, struct origin *ret, struct err *err)
{
	auto_origin struct origin o = { 0 };
	struct remote_values remote = v->remote;
	if (v->package)
		strv_add(&o.from, origin_name(v->package));
	else if (v->bundle)
		strv_add(&o.from,
			 strchr(v->bundle, ':') ? str_dup(v->bundle) : repository_name(REPOSITORY_BUNDLE, v->bundle));
	for (size_t i = 0; !v->package && i < v->from.count; i++)
		strv_add(&o.from, str_dup(v->from.items[i]));
	o.down = mem_alloc((o.from.count + 1) * sizeof(*o.down));
	bool has_remote_builder = false;
	for (size_t i = 0; i < v->builders.count; i++) {
		auto_str char *name = NULL;
		char hex[DIGEST_HEX + 1];
		if (!asset_parse_pin(v->builders.items[i], &name, hex))
			return err_set(err, E_USAGE, "--builder '%s' is not NAME@sha256:HEX or sha256:HEX",
				       v->builders.items[i]);
		has_remote_builder |= name && repository_is_remote(name);
	}
	// A bundle has everything that is needed: nothing else is asked (R-A3). Without remote repositories no client
	// is needed.
	bool is_remote = is_any_remote(&o.from);
	remote.is_offline |= v->bundle || (!is_remote && !has_remote_builder);
	if (remote_access_open(&remote, &o.remote, err) < 0)
		return -1;
	// A package on this machine that was named by hand is trusted; everything else must be signed. The store's
	// packages are checked when one of them is used.
	o.is_believing = !o.from.count || v->is_unverified || (v->package && !is_remote);
	o.is_unverified = v->is_unverified;
	o.builders = &v->builders;
	if (v->is_unverified)
		log_warn("--insecure-skip-verify: packages are accepted without verifying signatures");
	else
		trust_now(host, v->trust_dir, &o.trust);
	for (size_t i = 0; i < o.trust.trust.skipped.count; i++)
		log_warn("%s", o.trust.trust.skipped.items[i]);
	if (!o.is_believing && o.trust.unread.code) {
		*err = o.trust.unread;
		return -1;
	}
	*ret = o;
	o = (struct origin){ 0 };
	return 0;
}

void origin_done(struct origin *o)
{
	trust_now_done(&o->trust);
	remote_access_done(&o->remote);
	strv_done(&o->from);
	free(o->down);
	*o = (struct origin){ 0 };
}

void origin_show_bytes(void *ctx, uint64_t done, uint64_t total)
{
	(void)ctx;
	show_bytes("fetched", done, total);
}

void origin_fetch(const struct origin *o, const struct root *state, struct fetch *ret)
{
	*ret = (struct fetch){ .from = &o->from,
			       .builders = o->builders,
			       .options = &o->remote.options,
			       .trust = o->is_believing ? NULL : &o->trust.trust,
			       .now_trusted = o->is_unverified ? NULL : &o->trust,
			       .is_unverified = o->is_unverified,
			       .down = o->down,
			       .state = state,
			       .now = time(NULL),
			       .note = show_note,
			       .progress = origin_show_bytes };
}
