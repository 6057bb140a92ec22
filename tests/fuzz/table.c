// SPDX-License-Identifier: Apache-2.0
// The table of targets, and what targets share: inputs of several parts, and a folder that holds them as files.
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <unistd.h>

#define MARK "@@ "

static struct fuzz_target *first;

void fuzz_add(struct fuzz_target *target)
{
	struct fuzz_target **at = &first;
	while (*at && strcmp((*at)->name, target->name) < 0)
		at = &(*at)->next;
	target->next = *at;
	*at = target;
}

const struct fuzz_target *fuzz_targets(void)
{
	return first;
}

int fuzz_run(const struct fuzz_target *target, const void *data, size_t len)
{
	auto_str char *copy = malloc(len ? len : 1);
	if (!copy)
		abort();
	memcpy(copy, data ? data : "", len);
	return target->run(copy, len);
}

int fuzz_refused(const struct err *err)
{
	if (err->code == 0 || !*err->text || strnlen(err->text, sizeof(err->text)) == sizeof(err->text))
		abort();
	return 0;
}

// Moves *at behind the next part. False = there is none.
static bool next_part(const char *data, size_t len, size_t *at, char **ret_name, const char **ret, size_t *ret_len)
{
	const size_t mark = strlen(MARK);
	if (len - *at < mark || memcmp(data + *at, MARK, mark) != 0)
		return false;
	const char *name = data + *at + mark, *end = memchr(name, '\n', (size_t)(data + len - name));
	if (!end)
		return false;
	const char *body = end + 1;
	size_t room = (size_t)(data + len - body);
	const char *next = memmem(body, room, "\n" MARK, mark + 1);
	bool is_empty = room >= mark && memcmp(body, MARK, mark) == 0;
	*ret_name = str_ndup(name, (size_t)(end - name));
	*ret = body;
	*ret_len = is_empty ? 0 : next ? (size_t)(next - body) + 1 : room;
	*at = (size_t)(body - data) + *ret_len;
	return true;
}

char *fuzz_part(const char *data, size_t len, const char *name, bool is_first, size_t *ret_len)
{
	size_t at = 0, body_len = 0;
	const char *body = data;
	char *found = NULL;
	*ret_len = 0;
	if (len < strlen(MARK) || memcmp(data, MARK, strlen(MARK)) != 0) {
		*ret_len = is_first ? len : 0;
		return str_ndup(data, *ret_len);
	}
	while (next_part(data, len, &at, &found, &body, &body_len)) {
		auto_str char *here = TAKE(found);
		if (!str_eq(here, name))
			continue;
		*ret_len = body_len;
		char *part = mem_grow(NULL, body_len + 1, 1);
		memcpy(part, body, body_len);
		part[body_len] = '\0';
		return part;
	}
	return str_dup("");
}

static char *folder;
static struct root parent = ROOT_NONE, tree = ROOT_NONE;

static void folder_done(void)
{
	struct err err;
	root_done(&tree);
	root_rmtree(&parent, "tree", &err);
	root_done(&parent);
	rmdir(folder);
	free(TAKE(folder));
}

static const struct root *empty_tree(void)
{
	struct err err;
	if (!folder) {
		const char *dir = getenv("TMPDIR");
		folder = str_fmt("%s/kmodsmith-fuzz-XXXXXX", dir ? dir : "/tmp");
		if (!mkdtemp(folder) || root_init(&parent, folder, &err) < 0 || atexit(folder_done) != 0)
			abort();
	}
	root_done(&tree);
	if (root_rmtree(&parent, "tree", &err) < 0 || root_mkdirs(&parent, "tree", 0755, &err) < 0 ||
	    root_sub(&parent, "tree", &tree, &err) < 0)
		abort();
	return &tree;
}

static void put(const char *path, const char *data, size_t len)
{
	struct err err;
	const char *slash = strrchr(path, '/');
	auto_str char *dir = slash ? str_ndup(path, (size_t)(slash - path)) : NULL;
	if (dir && root_mkdirs(&tree, dir, 0755, &err) < 0)
		abort();
	auto_fd int fd = root_create(&tree, path, &err);
	if (fd < 0 || write(fd, data, len) != (ssize_t)len)
		abort();
}

static bool is_allowed(const char *path, const char *const *paths)
{
	for (; *paths; paths++) {
		size_t n = strlen(*paths);
		const char *name = path + n;
		if (str_eq(path, *paths))
			return (*paths)[n - 1] != '/';
		if ((*paths)[n - 1] == '/' && strncmp(path, *paths, n) == 0 && *name != '.' && strlen(name) < 200 &&
		    name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+-")] == '\0')
			return true;
	}
	return false;
}

const struct root *fuzz_tree(const char *data, size_t len, const char *const *paths)
{
	size_t at = 0, body_len;
	const char *body;
	char *found;
	empty_tree();
	if (len < strlen(MARK) || memcmp(data, MARK, strlen(MARK)) != 0)
		put(paths[0], data, len);
	while (next_part(data, len, &at, &found, &body, &body_len)) {
		auto_str char *path = TAKE(found);
		if (is_allowed(path, paths))
			put(path, body, body_len);
	}
	return &tree;
}

const struct root *fuzz_file(const char *path, const char *data, size_t len)
{
	empty_tree();
	put(path, data, len);
	return &tree;
}
