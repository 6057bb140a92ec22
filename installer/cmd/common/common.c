// SPDX-License-Identifier: Apache-2.0
#include "cmd/common/common.h"

#include "base/file/file.h"

#include <fcntl.h>

const struct opt common_opts[] = {
	{ "root", 0, "DIR", "KMODSMITH_ROOT", OPT_STR, offsetof(struct common, root),
	  "work on a recorded machine: DIR holds its files, proc, sys and dev" },
	{ "host-root", 0, "DIR", "KMODSMITH_HOST_ROOT", OPT_STR, offsetof(struct common, host_root),
	  "where the host's files are; default /proc/1/root in a pod that has the host's process ids, else /" },
	{ "json", 0, NULL, NULL, OPT_FLAG, offsetof(struct common, is_json), "the result as JSON on standard output" },
	{ "log-format", 0, "text|json", "KMODSMITH_LOG_FORMAT", OPT_STR, offsetof(struct common, log_format),
	  "how events on standard error look" },
	{ "quiet", 'q', NULL, NULL, OPT_FLAG, offsetof(struct common, is_quiet),
	  "only errors and warnings: no table either, JSON as ever" },
	{ "verbose", 'v', NULL, NULL, OPT_FLAG, offsetof(struct common, is_verbose),
	  "also each program that is run, each request, and what was decided from what" },
	{ .help = "General" },
};

// A pod with the host's process ids reaches the host's root without any mount (contract 1.5).
static int open_host(const struct common *common, struct machine *m, struct err *err)
{
	if (common->host_root)
		return root_init(&m->host, common->host_root, err);
	int r = m->is_recorded ? 0 : root_outside(&m->host, err);
	return r == 0 ? root_sub(&m->kern, ".", &m->host, err) : r;
}

int machine_open(const struct common *common, struct machine *ret, struct err *err)
{
	struct machine m = MACHINE_NONE;
	m.is_recorded = common->root != NULL;
	if (root_init(&m.kern, common->root ? common->root : "/", err) < 0 || open_host(common, &m, err) < 0) {
		machine_done(&m);
		return -1;
	}
	m.sys = *sys_real();
	*ret = m;
	if (m.is_recorded)
		ret->sys = sys_recorder(&ret->kern);
	ret->node = (struct node){ .host = &ret->host, .kern = &ret->kern, .dev_root = &ret->host, .sys = &ret->sys };
	return 0;
}

int machine_open_dev(struct machine *m, const char *named, struct err *err)
{
	if (!named)
		return 0;
	m->node.dev_root = &m->dev_root;
	return root_init(&m->dev_root, named, err);
}

void machine_done(struct machine *m)
{
	root_done(&m->host);
	root_done(&m->kern);
	root_done(&m->dev_root);
}

// Written in place, because it is a mount point. A container without one has no such file. `kubectl describe` ends the
// last line itself.
void termlog_write(const struct common *common, const char *path, const struct err *err)
{
	const char *name = path ? path : "/dev/termination-log";
	const struct err_info *info = err_info(err->code);
	auto_machine struct machine m = MACHINE_NONE;
	struct err ignored;
	if (machine_open(common, &m, &ignored) < 0)
		return;
	auto_fd int fd = root_open(&m.kern, name, O_WRONLY | O_TRUNC | O_NONBLOCK, &ignored);
	auto_str char *text = str_fmt("%s (%s): %s\nnext: %s", info->name, info->reason, err->text, err_next_step(err));
	if (fd >= 0)
		file_write(fd, name, text, strlen(text), &ignored);
}
