// SPDX-License-Identifier: Apache-2.0
#include "precompiled/package/candidate.h"

void candidate_done(struct package_candidate *o)
{
	package_done(&o->package);
	free(o->manifest);
	free(o->config);
	*o = CANDIDATE_NONE;
}

static void move_candidate(struct package_candidate *from, struct package_candidate *to)
{
	candidate_done(to);
	*to = *from;
	*from = CANDIDATE_NONE;
}

int candidate_read(struct repository *r, const char *ref, struct package_candidate *ret, struct err *err)
{
	auto_candidate struct package_candidate o = CANDIDATE_NONE;
	auto_oci_manifest struct oci_manifest m = { 0 };
	auto_oci_descriptor struct oci_descriptor d = { .media_type = str_dup(OCI_MANIFEST),
							.artifact_type = str_dup(PACKAGE_TYPE) };
	auto_str char *name = str_fmt("%s in %s", ref, repository_name(r));
	int done = repository_manifest(r, ref, &o.manifest, &o.manifest_len, d.digest, err);
	if (done <= 0)
		return done;
	if (oci_manifest_parse(o.manifest, o.manifest_len, name, &m, err) < 0)
		return -1;
	if (!str_eq(m.artifact_type, PACKAGE_TYPE))
		return 0;
	d.size = o.manifest_len;
	done = repository_document(r, &m.config, &o.config, &o.config_len, err);
	if (done <= 0)
		return done < 0 ? -1 :
				  err_set(err, E_MANIFEST, "%s: configuration sha256:%s is missing", name,
					  m.config.digest);
	if (package_parse(&m, &d, o.config, o.config_len, &o.package, err) <= 0)
		return -1;
	o.package.place = str_dup(repository_name(r));
	move_candidate(&o, ret);
	return 1;
}

// 1 = it fits and was moved to ret; 0 = it does not, with the reason.
static int take_if_fits(struct package_candidate *o, const char *tag, const struct package_want *want,
			struct package_candidate *ret, char **ret_why)
{
	auto_str char *why = NULL;
	if (package_fits(&o->package, want, &why) == 0) {
		*ret_why = str_fmt("its %s does not fit: %s", tag, why);
		return 0;
	}
	move_candidate(o, ret);
	return 1;
}

static int find_by_tag(struct repository *r, const char *tag, const struct package_want *want,
		       struct package_candidate *ret, char **ret_why, struct err *err)
{
	auto_candidate struct package_candidate o = CANDIDATE_NONE;
	int done = candidate_read(r, tag, &o, err);
	if (done == 0)
		*ret_why = str_fmt("it has no %s", tag);
	return done > 0 ? take_if_fits(&o, tag, want, ret, ret_why) : done;
}

// A damaged entry, not a failing source: one bad entry must not hide the good ones.
static bool is_damaged_package(int code)
{
	return code == E_MANIFEST || code == E_DIGEST || code == E_TOO_LARGE;
}

// Tags end with release and architecture as oci_tag writes them, unless the tag was shortened.
static bool is_candidate_tag(const char *tag, const struct package_want *want)
{
	auto_str char *tail = str_fmt("%s%s%s", want->release ? want->release : "", want->arch ? "-" : "",
				      want->arch ? want->arch : ""),
		      *spelled = oci_tag(tail);
	return !want->release || str_ends(tag, spelled) || strlen(tag) == 128;
}

static int find_among_tags(struct repository *r, const struct package_want *want, struct package_candidate *ret,
			   char **ret_why, struct err *err)
{
	auto_strv struct strv tags = { 0 };
	auto_candidate struct package_candidate best = CANDIDATE_NONE;
	auto_str char *why = NULL;
	struct err damage = { 0 };
	if (repository_tags(r, &tags, err) < 0)
		return -1;
	for (size_t i = 0; i < tags.count; i++) {
		auto_candidate struct package_candidate o = CANDIDATE_NONE, fitting = CANDIDATE_NONE;
		auto_str char *reason = NULL;
		// Local repositories are searched completely, so that the answer can say what does not fit.
		if (str_starts(tags.items[i], "sha256-") || // signatures
		    (repository_is_remote(repository_name(r)) && !is_candidate_tag(tags.items[i], want)))
			continue;
		int done = candidate_read(r, tags.items[i], &o, err);
		if (done < 0 && !is_damaged_package(err->code))
			return -1;
		if (done < 0)
			damage = *err;
		if (done <= 0)
			continue;
		if (take_if_fits(&o, tags.items[i], want, &fitting, &reason) == 0) {
			free(why);
			why = TAKE(reason);
		} else if (!best.package.count ||
			   str_version_cmp(fitting.package.key.driver, best.package.key.driver) > 0) {
			move_candidate(&fitting, &best);
		}
	}
	*ret_why = why ? TAKE(why) : str_fmt("it has no package for kernel %s", want->release ? want->release : "any");
	if (best.package.count)
		move_candidate(&best, ret);
	else if (damage.code)
		*err = damage;
	return ret->package.count > 0 ? 1 : damage.code ? -1 : 0;
}

int candidate_find(struct repository *r, const struct package_want *want, struct package_candidate *ret, char **ret_why,
		   struct err *err)
{
	auto_candidate struct package_candidate o = CANDIDATE_NONE;
	auto_str char *why = NULL;
	int done;
	if (want->driver && want->flavour && want->release && want->arch) {
		auto_str char *name = str_fmt("%s-%s-%s-%s", want->driver, want->flavour, want->release, want->arch),
			      *tag = oci_tag(name);
		done = find_by_tag(r, tag, want, &o, &why, err);
	} else {
		done = find_among_tags(r, want, &o, &why, err);
	}
	if (done > 0)
		move_candidate(&o, ret);
	if (done == 0)
		*ret_why = TAKE(why);
	return done;
}
