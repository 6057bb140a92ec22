// SPDX-License-Identifier: Apache-2.0
#include "base/file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

int file_fail(const char *what, const char *name, struct err *err)
{
	int code = errno == EDQUOT ? ENOSPC : errno;
	err_set(err, code, "%s '%s'", what, name);
	return code == ENOSPC ? err_code(err, E_NO_SPACE) : -1;
}

int file_read(int fd, const char *name, char **ret, size_t *ret_len, struct err *err)
{
	return file_read_most(fd, name, SIZE_MAX, ret, ret_len, err);
}

int file_read_most(int fd, const char *name, size_t most, char **ret, size_t *ret_len, struct err *err)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return file_fail("read", name, err);
	if (st.st_size > 0 && (uintmax_t)st.st_size > most)
		return err_set(err, E_TOO_LARGE, "'%s' has more than %zu bytes", name, most);
	size_t room = st.st_size > 0 ? (size_t)st.st_size + 1 : 4096, len = 0;
	auto_str char *data = mem_grow(NULL, room, 1); // never full: there is room for the NUL
	for (;;) {
		ssize_t n = read(fd, data + len, room - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return file_fail("read", name, err);
		if (n == 0)
			break;
		len += (size_t)n;
		if (len > most)
			return err_set(err, E_TOO_LARGE, "'%s' has more than %zu bytes", name, most);
		if (len == room)
			data = mem_grow(data, room *= 2, 1);
	}
	data[len] = '\0';
	if (ret_len)
		*ret_len = len;
	*ret = TAKE(data);
	return 0;
}

int file_write(int fd, const char *name, const void *data, size_t len, struct err *err)
{
	for (const char *p = data; len;) {
		ssize_t n = write(fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return file_fail("write", name, err);
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int file_map(int fd, const char *name, const void **ret, size_t *ret_len, struct err *err)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return file_fail("read", name, err);
	if (!S_ISREG(st.st_mode))
		return err_set(err, EINVAL, "'%s' is not a regular file", name);
	void *map = NULL;
	if (st.st_size > 0) {
		map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (map == MAP_FAILED)
			return file_fail("map", name, err);
	}
	*ret = map;
	*ret_len = (size_t)st.st_size;
	return 0;
}

void file_unmap(const void *map, size_t len)
{
	if (map)
		munmap((void *)(uintptr_t)map, len);
}

int file_copy(int from, int to, const char *name, struct err *err)
{
	char buf[1 << 16];
	for (;;) {
		ssize_t n = read(from, buf, sizeof(buf));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return file_fail("read", name, err);
		if (n == 0)
			return 0;
		if (file_write(to, name, buf, (size_t)n, err) < 0)
			return -1;
	}
}

int file_open_arg(const char *path, int flags, struct err *err)
{
	int fd = open(path, flags | O_CLOEXEC, 0666);
	return fd < 0 ? file_fail("open", path, err) : fd;
}

void file_add_stamp(char **text, const char *path)
{
	struct err ignored;
	struct stat st;
	auto_fd int fd = file_open_arg(path, O_RDONLY | O_NONBLOCK, &ignored);
	str_add(text, " %s", path);
	if (fd >= 0 && fstat(fd, &st) == 0)
		str_add(text, " %ju %ju.%09ld", (uintmax_t)st.st_size, (uintmax_t)st.st_mtim.tv_sec,
			st.st_mtim.tv_nsec);
}
