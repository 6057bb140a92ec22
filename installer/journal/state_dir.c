// SPDX-License-Identifier: Apache-2.0
#include "journal/state_dir.h"

#include "kmod/build/jobs.h"

#include <errno.h>
#include <sys/statvfs.h>

enum { JOURNAL_BYTES = 64 << 10 }; // one replacement with the reasons of its failure

static const char DIR_NAME[] = "run/kmodsmith";

void state_dir_done(struct state_dir *m)
{
	root_done(&m->root);
	*m = STATE_DIR_NONE;
}

void state_dir_init(struct state_dir *m, const struct node *node, bool is_allowed)
{
	m->node = node;
	m->is_allowed = is_allowed;
}

bool state_dir_is_disk_error(const struct err *err)
{
	static const int codes[] = { EROFS, ENOSPC, EDQUOT, EIO, E_NO_SPACE, E_STORE_FULL, E_READ_ONLY };
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (err->code == codes[i])
			return true;
	return false;
}

static int open_memory_dir(const struct root *host, struct root *ret, struct err *err)
{
	return root_mkdirs(host, DIR_NAME, 0755, err) < 0 ? -1 : root_sub(host, DIR_NAME, ret, err);
}

uint64_t state_dir_package_bytes(const struct package *p)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < p->count; i++)
		bytes += p->files[i].size;
	return bytes;
}

// While a module is being loaded, its file is in memory twice: unpacked here, and in the kernel.
int state_dir_memory_room(const struct state_dir *m, uint64_t bytes, struct err *err)
{
	enum { COPIES = 2 };
	auto_root struct root dir = ROOT_NONE;
	struct jobs_facts memory;
	struct statvfs fs;
	if (open_memory_dir(m->node->host, &dir, err) < 0)
		return -1;
	if (fstatvfs(dir.fd, &fs) < 0)
		return err_set(err, errno, "check the free space of '%s'", dir.name);
	uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize;
	jobs_read(m->node->kern, &memory);
	if (room < bytes)
		return err_set(err, E_NO_SPACE, "'%s' has %llu bytes free, %llu are needed", dir.name,
			       (unsigned long long)room, (unsigned long long)bytes);
	if (memory.memory_bytes && memory.memory_bytes / COPIES < bytes)
		return err_set(err, E_NO_SPACE, "%llu bytes of memory are free, %llu are needed",
			       (unsigned long long)memory.memory_bytes, (unsigned long long)bytes * COPIES);
	return 0;
}

int state_dir_stage(struct state_dir *m, const struct layout *from, const struct root *state, struct package *p,
		    struct err *err)
{
	int done = unpack_package(from, state, p, err);
	if (done == 0 || !m->is_allowed || !state_dir_is_disk_error(err))
		return done;
	struct err why = *err;
	if (state_dir_memory_room(m, state_dir_package_bytes(p), err) < 0 ||
	    (m->root.fd < 0 && open_memory_dir(m->node->host, &m->root, err) < 0) ||
	    unpack_package(from, &m->root, p, err) < 0)
		return err_wrap(err, "'%s' cannot be written (%s), and unpacking in memory failed", state->name,
				why.text);
	progress_note(m->node->progress,
		      "'%s' cannot be written (%s): driver %s is unpacked in memory; next: " STATE_DIR_NEXT,
		      state->name, why.text, p->key.driver);
	return 0;
}

int state_dir_space(const struct root *state, uint64_t bytes, struct err *err)
{
	struct statvfs fs;
	if (fstatvfs(state->fd, &fs) < 0)
		return err_set(err, errno, "check the free space of '%s'", state->name);
	if (fs.f_flag & ST_RDONLY)
		return err_set(err, E_READ_ONLY, "'%s' is on a read-only file system", state->name);
	uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize, wanted = bytes + JOURNAL_BYTES;
	if (free_bytes < wanted)
		return err_set(err, E_NO_SPACE, "'%s' has %llu bytes free, %llu are needed", state->name,
			       (unsigned long long)free_bytes, (unsigned long long)wanted);
	return 0;
}
