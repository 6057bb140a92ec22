// SPDX-License-Identifier: Apache-2.0
#include "cmd/common/origin.h"

#include "cmd/common/job.h"

#include <time.h>

#define OPT(name, letter, arg, env, type, member, help)                                    \
	{                                                                                  \
		name, letter, arg, env, type, offsetof(struct origin_values, member), help \
	}

const struct opt package_opts[] = {
	OPT("package", 'p', "NAME", "KMODSMITH_PACKAGE", OPT_STR, package,
	    "a package named by hand: oci:DIR or oci-archive:FILE of `kmodsmith build`; signatures are not asked for"),
	{ 0 },
};

const struct opt origin_opts[] = {
	OPT("bundle", 0, "FILE", "KMODSMITH_BUNDLE", OPT_STR, bundle,
	    "a signed bundle, asked before --from; implies --offline"),
	OPT("from", 0, "NAME,...", "KMODSMITH_FROM", OPT_SECRETS, from,
	    "repositories to ask in this order: oci:DIR, oci-archive:FILE, https://HOST/PATH, docker://HOST/NAME"),
	OPT("trust-dir", 0, "DIR", "KMODSMITH_TRUST_DIR", OPT_STR, trust_dir,
	    "keys that are trusted and what is asked of each repository; default etc/kmodsmith/trust of the host"),
	OPT("insecure-skip-verify", 0, NULL, NULL, OPT_FLAG, is_unverified,
	    "accept packages of these repositories without verifying signatures"),
	{ 0 },
};

char *origin_name(const char *name)
{
	if (strchr(name, ':'))
		return str_dup(name);
	return str_fmt("%s:%s", str_ends(name, ".tar") ? "oci-archive" : "oci", name);
}

static void list_repositories(const struct origin_values *v, struct strv *ret)
{
	if (v->package) {
		strv_add(ret, origin_name(v->package));
		return;
	}
	if (v->bundle)
		strv_add(ret, strchr(v->bundle, ':') ? str_dup(v->bundle) : str_fmt("oci-archive:%s", v->bundle));
	for (size_t i = 0; i < v->from.count; i++)
		strv_add(ret, str_dup(v->from.items[i]));
}

static bool is_any_remote(const struct strv *from)
{
	for (size_t i = 0; i < from->count; i++)
		if (repository_is_remote(from->items[i]))
			return true;
	return false;
}

// A bundle has everything that is needed: nothing else is asked (R-A3). Without remote repositories no client is
// needed.
static int open_remote(const struct origin_values *v, struct origin *o, struct err *err)
{
	struct remote_values values = v->remote;
	values.is_offline |= v->bundle || !is_any_remote(&o->from);
	return remote_access_open(&values, &o->remote, err);
}

// A package on this machine that was named by hand is trusted; everything else must be signed. The store's packages
// are checked when one of them is used.
static int open_origin_trust(const struct origin_values *v, const struct root *host, struct origin *o, struct err *err)
{
	o->is_believing = !o->from.count || v->is_unverified || (v->package && !is_any_remote(&o->from));
	o->is_unverified = v->is_unverified;
	if (v->is_unverified)
		log_warn("--insecure-skip-verify: packages are accepted without verifying signatures");
	if (!o->is_unverified)
		trust_now(host, v->trust_dir, &o->trust);
	if (o->is_believing || !o->trust.unread.code)
		return 0;
	*err = o->trust.unread;
	return -1;
}

int origin_open(const struct origin_values *values, const struct root *host, struct origin *ret, struct err *err)
{
	auto_origin struct origin o = { 0 };
	list_repositories(values, &o.from);
	o.down = mem_alloc((o.from.count + 1) * sizeof(*o.down));
	if (open_remote(values, &o, err) < 0 || open_origin_trust(values, host, &o, err) < 0)
		return -1;
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

void origin_fetch(const struct origin *o, const struct root *state, struct fetch *ret)
{
	*ret = (struct fetch){ .from = &o->from,
			       .options = &o->remote.options,
			       .trust = o->is_believing ? NULL : &o->trust.trust,
			       .now_trusted = o->is_unverified ? NULL : &o->trust,
			       .is_unverified = o->is_unverified,
			       .down = o->down,
			       .state = state,
			       .now = time(NULL),
			       .note = show_note,
			       .progress = show_bytes };
}
