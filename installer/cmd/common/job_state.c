// SPDX-License-Identifier: Apache-2.0
// Where a machine keeps its packages: of the host for root, of the user for others.
#include "cmd/common/job.h"

#include <errno.h>
#include <sys/random.h>
#include <sys/stat.h>

int job_state(const struct job_values *values, const struct machine *m, struct root *ret, struct err *err)
{
	static const char USER_PATH[] = ".local/state/kmodsmith";
	const char *home = getenv("HOME");
	auto_root struct root base = ROOT_NONE;
	if (values->state_dir) {
		if (root_make(values->state_dir, ret, err) < 0)
			return err_wrap(err, "--state-dir");
		return 0;
	}
	if (m->is_recorded || geteuid() == 0 || !home)
		return root_mkdirs(&m->host, JOB_STATE, 0755, err) < 0 ? -1 : root_sub(&m->host, JOB_STATE, ret, err);
	if (root_init(&base, home, err) < 0 || root_mkdirs(&base, USER_PATH, 0755, err) < 0)
		return -1;
	return root_sub(&base, USER_PATH, ret, err);
}

int job_state_existing(const char *state_dir, const struct machine *m, struct root *ret, struct err *err)
{
	if (state_dir)
		return root_init(ret, state_dir, err);
	return root_exists(&m->host, JOB_STATE) ? root_sub(&m->host, JOB_STATE, ret, err) : 0;
}

// A name that nobody can take beforehand, in a directory that everybody writes to.
static int make_temp_state(struct job_temp_state *ret, struct err *err)
{
	const char *named = getenv("TMPDIR");
	uint64_t random;
	if (root_init(&ret->parent, named && *named ? named : "/tmp", err) < 0)
		return -1;
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return err_set(err, errno, "random bytes");
	auto_str char *name = str_fmt("kmodsmith-%016llx", (unsigned long long)random);
	if (mkdirat(ret->parent.fd, name, 0700) < 0)
		return err_set(err, errno, "make the directory '%s' in '%s'", name, ret->parent.name);
	ret->name = TAKE(name);
	return 0;
}

int job_state_for_reading(const struct job_values *values, const struct machine *m, struct job_temp_state *spare,
			  struct root *ret, struct err *err)
{
	if (job_state(values, m, ret, err) == 0)
		return 0;
	if (values->state_dir || m->is_recorded || geteuid() == 0)
		return -1;
	const struct err why = *err;
	if (make_temp_state(spare, err) < 0)
		return -1;
	log_warn("kept packages are not visible, because there is no state directory: %s; name one with --state-dir",
		 why.text);
	return root_sub(&spare->parent, spare->name, ret, err);
}

void job_temp_state_done(struct job_temp_state *s)
{
	struct err ignored;
	if (s->name)
		root_rmtree(&s->parent, s->name, &ignored);
	free(s->name);
	root_done(&s->parent);
	*s = JOB_TEMP_STATE_NONE;
}

int job_parse_store_limit(const char *text, uint64_t *ret, struct err *err)
{
	*ret = 0;
	if (text && !store_size_parse(text, ret))
		return err_set(err, E_USAGE, "store-limit: '%s' is not a size such as 500M or 2G", text);
	return 0;
}
