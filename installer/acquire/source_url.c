// SPDX-License-Identifier: Apache-2.0
#include "acquire/source_url.h"

#include "base/file/digest.h"
#include "base/file/file.h"
#include "base/file/lockfile.h"
#include "precompiled/repository/retry.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

static const char DIR[] = "sources", FILE_URL[] = "file://";
enum { SOURCES_KEPT = 4, CUTS = 5, MUCH = 64 << 10 };
static const uint64_t MOST_BYTES = (uint64_t)4 << 30; // NVIDIA's largest have some 400 MiB

bool source_url_is(const char *source)
{
	return source &&
	       (str_starts(source, "http://") || str_starts(source, "https://") || str_starts(source, FILE_URL));
}

int source_url_check(const char *what, const char *url, const char *sha256, struct err *err)
{
	const char *host = strstr(url, "://") + strlen("://");
	auto_str char *shown = http_url_shown(url);
	if (str_starts(url, FILE_URL) && *host != '/')
		return err_set(err, E_USAGE, "%s '%s' has no absolute path: expected file:///PATH", what, url);
	if (memchr(host, '@', strcspn(host, "/?#")))
		return err_set(err, E_USAGE, "%s '%s' has credentials in it, which would get into logs", what, shown);
	if (!sha256)
		return err_set(err, E_USAGE,
			       "%s '%s' is a URL without a digest: add the SHA-256 that its publisher states, or that "
			       "of a copy you trust, from `curl -fsSL '%s' | sha256sum`",
			       what, shown, shown);
	return 0;
}

char *source_url_driver(const char *url)
{
	char version[32] = "";
	auto_str char *path = str_ndup(url, strcspn(url, "?#"));
	sscanf(strrchr(path, '/'), "/NVIDIA-Linux-%*[^-]-%31[0-9.]", version);
	if (str_ends(version, "."))
		version[strlen(version) - 1] = '\0';
	return strchr(version, '.') ? str_dup(version) : NULL;
}

struct source_download {
	const struct source_url *request;
	const struct root *dir;
	char *part; // name in dir
	int fd;
	uint64_t have, total, shown; // bytes; total 0 = the server does not say
	bool is_first;               // no byte of this call has arrived yet
	bool is_resumed;             // what is there came in more than one call
};

static void source_download_done(struct source_download *d)
{
	close_fdp(&d->fd);
	free(d->part);
}
#define auto_source_download __attribute__((cleanup(source_download_done)))

static int restart_download(struct source_download *d, struct err *err)
{
	d->have = 0;
	d->is_resumed = false;
	return ftruncate(d->fd, 0) < 0 ? file_fail("empty", d->part, err) : 0;
}

// A server that ignores the range sends the file from its beginning, and may say so with 206 as well.
static int begin_reply(struct source_download *d, const struct http_call *call, struct err *err)
{
	static const char UNIT[] = "bytes ";
	const char *length = http_header(call, "Content-Length"), *range = http_header(call, "Content-Range");
	auto_str char *number = range && str_starts(range, UNIT) ?
					str_ndup(range + strlen(UNIT), strcspn(range + strlen(UNIT), "-")) :
					NULL;
	uint64_t bytes = 0, begin = 0;
	d->is_first = false;
	if (call->status == 206 && (!number || !str_u64(number, 10, &begin) || (begin && begin != d->have)))
		return err_set(err, E_NETWORK, "requested bytes from %llu, got Content-Range '%s'",
			       (unsigned long long)d->have, range ? range : "");
	if (begin == 0 && d->have && restart_download(d, err) < 0)
		return -1;
	d->total = length && str_u64(length, 10, &bytes) && bytes <= MOST_BYTES ? d->have + bytes : 0;
	return 0;
}

static int on_source_data(struct http_call *call, const void *data, size_t len, struct err *err)
{
	enum { MIB = 1 << 20 };
	struct source_download *d = call->ctx;
	if (d->is_first && begin_reply(d, call, err) < 0)
		return -1;
	if (len > MOST_BYTES - d->have)
		return err_set(err, E_TOO_LARGE, "more than 4 GiB");
	if (lseek(d->fd, (off_t)d->have, SEEK_SET) < 0 || file_write(d->fd, d->part, data, len, err) < 0)
		return -1;
	d->have += len;
	if (d->request->progress && d->have - d->shown >= MIB) {
		d->request->progress(d->request->ctx, d->have, d->total);
		d->shown = d->have;
	}
	return 0;
}

// Until the server has sent all, or sends no more: as often as there is progress, and a few times with little.
static int receive_source(struct source_download *d, struct err *err)
{
	struct remote_repository server = { .http = d->request->http };
	struct attempt attempt = { 0 };
	auto_str char *shown = http_url_shown(d->request->url);
	for (unsigned cuts = 0;;) {
		auto_http_call struct http_call call = {
			.url = d->request->url, .range_from = d->have, .sink = on_source_data, .ctx = d
		};
		uint64_t from = d->have;
		unsigned ms = 0;
		d->is_first = true;
		d->is_resumed |= from > 0;
		if (http_run(d->request->http, &call, err) < 0 && call.err.code == 0) // it was never sent
			return -1;
		uint64_t gain = d->have > from ? d->have - from : 0;
		bool is_cut = call.err.code == E_NETWORK || call.err.code == E_TIMEOUT;
		if (is_cut && gain && (gain >= MUCH || cuts++ < CUTS))
			continue;
		if (call.err.code == 0 && (call.status / 100 == 2 || (call.status == 416 && d->have)))
			return 0;
		int r = retry_is_due(&server, &call, &attempt, &ms, err);
		if (r > 0 && retry_wait(&server, ms, err) == 0)
			continue;
		if (call.err.code) {
			*err = call.err;
			return err_wrap(err, "%s", shown);
		}
		return http_status_error(&call, err);
	}
}

static int digest_named(const struct root *dir, const char *name, char ret[DIGEST_HEX + 1], struct err *err)
{
	auto_fd int fd = root_open(dir, name, O_RDONLY | O_NOFOLLOW, err);
	return fd < 0 ? -1 : digest_file(fd, name, ret, err);
}

// Downloads once more from the start when the digest is wrong: the part of an earlier run may be damaged, or of a file
// that the server replaced since.
static int download_source(struct source_download *d, struct err *err)
{
	char found[DIGEST_HEX + 1];
	struct stat st;
	struct err ignored;
	d->fd = lockfile_open(d->dir->fd, d->part, O_RDWR);
	if (d->fd < 0 || fstat(d->fd, &st) < 0)
		return file_fail("open", d->part, err);
	d->have = (uint64_t)st.st_size;
	for (bool is_again = false;; is_again = true) {
		if (receive_source(d, err) < 0)
			return -1;
		if (digest_named(d->dir, d->part, found, err) < 0)
			return -1;
		if (str_eq(found, d->request->sha256))
			break;
		if (d->is_resumed && !is_again) {
			if (restart_download(d, err) < 0)
				return -1;
			continue;
		}
		auto_str char *shown = http_url_shown(d->request->url);
		root_unlink(d->dir, d->part, &ignored);
		return err_set(err, E_DIGEST, "'%s' has SHA-256 %s, expected %s", shown, found, d->request->sha256);
	}
	if (fsync(d->fd) < 0)
		return file_fail("write", d->part, err);
	return root_rename(d->dir, d->part, d->request->sha256, err);
}

static void remove_oldest_sources(const struct root *dir)
{
	struct err ignored;
	for (;;) {
		auto_strv struct strv names = { 0 };
		struct timespec oldest = { 0 };
		const char *which = NULL;
		if (root_list(dir, ".", &names, &ignored) < 0 || names.count <= SOURCES_KEPT)
			return;
		for (size_t i = 0; i < names.count; i++) {
			struct stat st;
			if (root_stat(dir, names.items[i], &st, &ignored) > 0 &&
			    (!which || st.st_mtim.tv_sec < oldest.tv_sec)) {
				which = names.items[i];
				oldest = st.st_mtim;
			}
		}
		if (!which || root_unlink(dir, which, &ignored) <= 0)
			return;
	}
}

// 1 = there, with its digest.
static int find_kept_source(const struct root *dir, const char *hex, struct err *err)
{
	char found[DIGEST_HEX + 1];
	if (!root_exists(dir, hex))
		return 0;
	if (digest_named(dir, hex, found, err) < 0)
		return -1;
	if (!str_eq(found, hex))
		return root_unlink(dir, hex, err) < 0 ? -1 : 0;
	utimensat(dir->fd, hex, NULL, AT_SYMLINK_NOFOLLOW); // the last use
	return 1;
}

int source_url_fetch(const struct source_url *request, char **ret_path, struct err *err)
{
	auto_root struct root dir = ROOT_NONE;
	if (str_starts(request->url, FILE_URL)) {
		*ret_path = str_dup(request->url + strlen(FILE_URL));
		return 0;
	}
	if (root_mkdirs(request->state, DIR, 0755, err) < 0 || root_sub(request->state, DIR, &dir, err) < 0)
		return -1;
	auto_fd int lock = lockfile_take(request->state, DIR, LOCK_EX, LOCKFILE_WAIT_MS, err);
	int r = lock < 0 ? -1 : find_kept_source(&dir, request->sha256, err);
	if (r < 0)
		return -1;
	if (r == 0) {
		auto_source_download struct source_download d = {
			.request = request, .dir = &dir, .part = str_fmt(".%s.part", request->sha256), .fd = -1
		};
		auto_str char *shown = http_url_shown(request->url);
		if (!request->http)
			return err_set(err, E_OFFLINE, "'%s' is not kept in '%s'", shown, dir.name);
		if (download_source(&d, err) < 0)
			return -1;
		remove_oldest_sources(&dir);
	}
	*ret_path = root_path(&dir, request->sha256);
	return r == 0;
}
