// SPDX-License-Identifier: Apache-2.0
// The side that has the driver. Whatever goes wrong here, `init` still has its own ways, so it is told and left.
#include "cmd/container/dtk.h"

#include "base/core/date.h"
#include "base/file/copy.h"
#include "base/file/file.h"
#include "cmd/common/entry.h"
#include "cmd/common/job.h"
#include "driver_toolkit/dtk_take.h"

#include <fcntl.h>
#include <time.h>

enum { PATIENCE_S = 600, COMPILE_S = 3600, PREPARES_MOST = 3 };
static const char PROGRAM[] = "/usr/libexec/kmodsmith";

extern const struct cmd cmd_init;

struct dtk_handover {
	const struct dtk_values *v;
	struct job *job;
	struct root shared;
	struct dtk_request request;
	char *source, *text, id[DIGEST_HEX + 1];
	struct dtk_inputs inputs;
	unsigned prepares;
	struct dtk_progress last;
	bool is_started;          // the other side was seen to have begun
	time_t begun, last_alive; // seconds of the monotonic clock
};

static void dtk_handover_done(struct dtk_handover *s)
{
	free(s->text);
	free(s->source);
	dtk_request_done(&s->request);
	root_done(&s->shared);
}
#define auto_dtk_handover __attribute__((cleanup(dtk_handover_done)))

static int file_digest_text(const char *path, char **ret, struct err *err)
{
	char hex[DIGEST_HEX + 1];
	auto_fd int fd = file_open_arg(path, O_RDONLY, err);
	if (fd < 0 || digest_file(fd, path, hex, err) < 0)
		return -1;
	*ret = str_dup(hex);
	return 0;
}

static char *last_name(const char *path)
{
	auto_str char *full = str_dup(path);
	for (size_t len = strlen(full); len > 1 && full[len - 1] == '/';)
		full[--len] = '\0';
	const char *slash = strrchr(full, '/');
	return str_dup(slash ? slash + 1 : full);
}

static int fill_request(struct dtk_handover *s, struct err *err)
{
	const struct job *j = s->job;
	const struct job_values *v = j->values;
	struct dtk_request *r = &s->request;
	char patches[DIGEST_HEX + 1];
	s->source = session_source_path(&j->session);
	if (!s->source)
		return err_set(err, E_NOT_FOUND, "there is no source of the driver");
	s->inputs = (struct dtk_inputs){ .program = s->v->program ? s->v->program : PROGRAM,
					 .source = s->source,
					 .patches = v->patches };
	if (v->patches && copy_digest(&j->patches, patches, err) < 0)
		return -1;
	*r = (struct dtk_request){ .driver = str_dup(j->session.plan.driver),
				   .flavour = str_dup(flavour_name(j->session.plan.flavour)),
				   .kernel = str_dup(j->session.facts.host.release),
				   .source = last_name(s->source),
				   .source_sha256 = str_dup(j->session.source.digest),
				   .patches = v->patches ? str_dup(patches) : NULL,
				   .jobs = v->jobs,
				   .timeout_s = v->timeout_s,
				   .is_rt_allowed = v->is_rt_allowed,
				   .attempt = 1 };
	for (size_t i = 0; i < j->modules.count; i++)
		strv_add(&r->modules, str_dup(j->modules.items[i]));
	return file_digest_text(s->inputs.program, &r->program, err);
}

// What an earlier start of ours asked for goes on, unless it failed in a way that may pass.
static int continue_request(struct dtk_handover *s, struct err *err)
{
	auto_dtk_request struct dtk_request old = { 0 };
	struct dtk_flags flags;
	char id[DIGEST_HEX + 1];
	struct err ignored, why;
	if (dtk_flags_read(&s->shared, &flags, err) < 0)
		return -1;
	if (dtk_request_read(&s->shared, &old, id, &ignored) > 0 && dtk_request_equal(&old, &s->request)) {
		s->request.attempt = old.attempt;
		dtk_reason_read(&s->shared, &why);
		if (dtk_next(&flags, id) == DTK_LEAVE && err_info(why.code)->retryable)
			s->request.attempt++;
	}
	s->text = dtk_request_text(&s->request);
	dtk_request_id(s->text, s->id);
	auto_dtk_request struct dtk_request parsed = { 0 }; // the other side must be able to read it
	return dtk_request_parse(s->text, strlen(s->text), &parsed, err);
}

static int prepare_shared_dir(struct dtk_handover *s, struct err *err)
{
	if (s->prepares++ >= PREPARES_MOST)
		return err_set(err, E_CONFLICT, "somebody else changes '%s'", s->shared.name);
	if (dtk_prepare(&s->shared, &s->inputs, s->text, err) < 0)
		return -1;
	s->begun = s->last_alive = clock_ms() / 1000;
	s->is_started = false;
	progress_note(&s->job->session.progress, "asked the driver toolkit for %s %s for kernel %s, in '%s'",
		      s->request.driver, s->request.flavour, s->request.kernel, s->shared.name);
	return 0;
}

static void read_progress(struct dtk_handover *s, const struct dtk_flags *flags)
{
	struct dtk_progress now = { 0 };
	if (!s->is_started && str_eq(flags->id[DTK_STARTED], s->id)) {
		s->is_started = true;
		s->last_alive = clock_ms() / 1000;
		progress_note(&s->job->session.progress, "the driver toolkit has begun");
	}
	if (!dtk_progress_read(&s->shared, &now) || now.beat == s->last.beat)
		return;
	s->last = now;
	s->last_alive = clock_ms() / 1000;
	if (now.total && str_eq(now.id, s->id)) // else it still ends what an earlier start asked for
		progress_count(&s->job->session.progress, "toolkit", now.done, now.total);
}

// 0 = go on waiting, or the signal that ends it.
static int wait_for_toolkit(struct dtk_handover *s, const struct dtk_flags *flags, struct err *err)
{
	unsigned patience = s->v->patience_s ? s->v->patience_s : PATIENCE_S;
	unsigned compile = s->request.timeout_s ? s->request.timeout_s : COMPILE_S;
	read_progress(s, flags);
	time_t now = clock_ms() / 1000;
	if (now - s->last_alive >= (time_t)patience)
		return err_set(err, E_TIMEOUT, "the toolkit's container %s within %u s",
			       s->is_started ? "showed no sign of life" : "did not start", patience);
	if (now - s->begun >= (time_t)patience + (time_t)compile)
		return err_set(err, E_BUILD_TIMEOUT, "the toolkit's container took longer than %u s", compile);
	return dtk_wait_second();
}

static int take_toolkit_package(struct dtk_handover *s, struct err *err)
{
	struct job *j = s->job;
	struct err ignored;
	auto_str char *tag = NULL;
	if (dtk_take(&j->session.acquire, &s->request, &s->shared, s->id, &j->machine.host, &j->machine.kern, &tag,
		     err) < 0) {
		dtk_flag_clear(&s->shared, DTK_PREPARED, &ignored); // the next start asks for it anew
		return err_wrap(err, "what the toolkit made");
	}
	progress_end(&j->session.progress, "toolkit", "%s, proven, is in the store", tag);
	return 0;
}

// 0 = the store has it; a signal; negative = the toolkit cannot.
static int hand_to_toolkit(struct dtk_handover *s, struct err *err)
{
	const char *dir = s->v->shared ? s->v->shared : DTK_SHARED;
	if (root_init(&s->shared, dir, err) < 0 || fill_request(s, err) < 0 || continue_request(s, err) < 0)
		return -1;
	s->begun = s->last_alive = clock_ms() / 1000;
	for (int r = 0; r == 0;) {
		struct dtk_flags flags;
		if (dtk_flags_read(&s->shared, &flags, err) < 0)
			return -1;
		switch (dtk_next(&flags, s->id)) {
		case DTK_PREPARE:
			r = prepare_shared_dir(s, err);
			break;
		case DTK_WAIT:
			r = wait_for_toolkit(s, &flags, err);
			break;
		case DTK_TAKE:
			return take_toolkit_package(s, err);
		case DTK_LEAVE:
			dtk_reason_read(&s->shared, err);
			return -1;
		}
		if (r != 0)
			return r;
	}
	return 0;
}

// 0, or the signal that ended the wait.
static int use_toolkit(const struct dtk_values *v, const struct job_values *init)
{
	auto_job struct job job = JOB_NONE;
	auto_dtk_handover struct dtk_handover dtk_handover = { .v = v, .job = &job, .shared = ROOT_NONE };
	struct err err;
	if (job_open(init, false, &job, &err) < 0 || !plan_has(&job.session.plan, STEP_COMPILE))
		return 0; // init says the same, and more
	progress_enter(&job.session.progress, "toolkit");
	dtk_block_signals();
	int r = hand_to_toolkit(&dtk_handover, &err);
	dtk_unblock_signals();
	if (r < 0) {
		progress_note(&job.session.progress, "going on without the driver toolkit: %s: %s",
			      err_info(err.code)->name, err.text);
		progress_fail(&job.session.progress);
	}
	return r > 0 ? r : 0;
}

static void command_line(const struct common *c, char **args, size_t count, struct strv *ret)
{
	strv_add(ret, str_dup("init"));
	if (c->root)
		strv_add(ret, str_fmt("--root=%s", c->root));
	if (c->host_root)
		strv_add(ret, str_fmt("--host-root=%s", c->host_root));
	if (c->log_format)
		strv_add(ret, str_fmt("--log-format=%s", c->log_format));
	if (c->is_json)
		strv_add(ret, str_dup("--json"));
	if (c->is_quiet)
		strv_add(ret, str_dup("--quiet"));
	if (c->is_verbose)
		strv_add(ret, str_dup("--verbose"));
	for (size_t i = 0; i < count; i++)
		strv_add(ret, str_dup(args[i]));
}

int dtk_run(const struct dtk_values *v, char **args, size_t count, struct err *err)
{
	auto_strv struct strv line = { 0 }, again = { 0 }; // getopt sorts what it is given
	command_line(&v->common, args, count, &line);
	command_line(&v->common, args, count, &again);
	void *values = mem_alloc(cmd_init.values_size);
	int signal = 0;
	(void)err;
	if (v->is_image_missing)
		log_info("the cluster has no driver toolkit for this node: going on without it");
	else if (entry_values(&cmd_init, (int)line.count, line.items, values) == 0)
		signal = use_toolkit(v, values);
	opt_done(&cmd_init, values);
	free(values);
	if (signal) {
		log_info("signal %d: leaving before the driver is there", signal);
		return 1;
	}
	return entry_run(&cmd_init, (int)again.count, again.items);
}
