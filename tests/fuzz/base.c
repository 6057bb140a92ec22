// SPDX-License-Identifier: Apache-2.0
// Archives, keys, signatures, YAML, event streams, libraries, dates and addresses.
#include "base/archive/archive.h"
#include "base/core/date.h"
#include "base/crypto/base64.h"
#include "base/crypto/key.h"
#include "base/formats/json_stream.h"
#include "base/formats/yaml.h"
#include "base/http/http.h"
#include "base/linker/ldcache.h"
#include "base/linker/soname.h"
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>

FUZZ_TARGET(yaml)
{
	struct err err;
	auto_json json_t *json = NULL;
	return FUZZ(yaml_read(data, len, "fuzz", false, &json, &err));
}

FUZZ_TARGET(archive) // tar, ar (.deb), cpio and rpm
{
	struct err err;
	const struct archive_options limits = { .bytes = 1 << 20, .entries = 64 };
	const struct root *root = fuzz_file("archive", data, len);
	auto_root struct root dest = ROOT_NONE;
	if (root_mkdirs(root, "a/b", 0755, &err) < 0 || root_sub(root, "a/b", &dest, &err) < 0)
		abort();
	auto_fd int fd = root_open(root, "archive", O_RDONLY, &err);
	int taken = FUZZ(archive_unpack(fd, "archive", 0, &dest, &limits, &err));
	auto_strv struct strv names = { 0 }, outside = { 0 };
	if (root_list(root, ".", &names, &err) < 0 || root_list(root, "a", &outside, &err) < 0 || names.count != 2 ||
	    outside.count != 1)
		abort(); // something was written outside of the directory
	return taken;
}

struct walk {
	int fd;
	uint64_t sum;
};

static int visit(void *ctx, const struct archive_member *m, struct err *err)
{
	struct walk *w = ctx;
	char buf[512];
	auto_archive_member struct archive_member_reader *r = NULL;
	w->sum += strlen(m->name) + m->size;
	if (!m->is_file)
		return 0;
	if (archive_member_open(w->fd, "tar", m->at, &r, err) < 0)
		return -1;
	for (ssize_t n = 1; n > 0;)
		if ((n = archive_member_read(r, buf, sizeof(buf), err)) < 0)
			return -1;
	return 0;
}

FUZZ_TARGET(tar) // of a bundle: walked without being unpacked
{
	struct err err;
	const struct root *root = fuzz_file("tar", data, len);
	auto_fd int fd = root_open(root, "tar", O_RDONLY, &err);
	struct walk w = { .fd = fd };
	return FUZZ(archive_walk(fd, "tar", 100, visit, &w, &err));
}

FUZZ_TARGET(inflate)
{
	struct err err;
	auto_str char *out = NULL;
	size_t out_len = 0;
	return FUZZ(archive_inflate(data, len, 1 << 20, &out, &out_len, &err));
}

FUZZ_TARGET(key) // a public one
{
	struct err err;
	auto_str char *text = str_ndup(data, len);
	auto_key struct key *key = NULL, *again = NULL;
	if (!FUZZ(key_parse(text, "fuzz", &key, &err)))
		return 0;
	auto_str char *pem = key_pem(key);
	if (key_parse(pem, "again", &again, &err) < 0 || !str_eq(key->id, again->id) || !key->algorithm)
		abort();
	key_verify(key, "x", 1, data, len < 256 ? len : 256);
	return 1;
}

FUZZ_TARGET(private_key)
{
	struct err err;
	const struct root *root = fuzz_file("key.pem", data, len);
	auto_str char *path = root_path(root, "key.pem");
	auto_key struct key *key = NULL;
	return FUZZ(key_open(path, "password", &key, &err));
}

FUZZ_TARGET(signature) // parts: key, signature; of the text "signed\n"
{
	struct err err;
	size_t key_len, signature_len;
	auto_str char *pem = fuzz_part(data, len, "key", false, &key_len),
		      *signature = fuzz_part(data, len, "signature", true, &signature_len);
	auto_key struct key *key = NULL;
	return FUZZ(key_parse(pem, "fuzz", &key, &err)) && key_verify(key, "signed\n", 7, signature, signature_len);
}

FUZZ_TARGET(date)
{
	auto_str char *text = str_ndup(data, len);
	time_t t, again;
	if (date_parse(text, &t)) {
		auto_str char *back = date_text(t);
		if (!date_parse(back, &again) || t != again)
			abort();
		return 1;
	}
	return date_http_parse(text, &t);
}

FUZZ_TARGET(base64)
{
	auto_str char *text = str_ndup(data, len), *out = NULL, *loose = NULL;
	size_t out_len = 0, loose_len = 0;
	bool is_loose = base64_parse_loose(text, &loose, &loose_len);
	if (!base64_parse(text, &out, &out_len))
		return 0;
	auto_str char *back = base64_text(out, out_len);
	if (!str_eq(back, text) || !is_loose || loose_len != out_len || memcmp(loose, out, out_len) != 0)
		abort();
	return 1;
}

FUZZ_TARGET(ldconf)
{
	static const char *const paths[] = { "etc/ld.so.conf", "etc/ld.so.conf.d/", NULL };
	struct err err;
	auto_strv struct strv dirs = { 0 };
	return FUZZ(ldcache_conf_dirs(fuzz_tree(data, len, paths), &dirs, &err)) && dirs.count;
}

FUZZ_TARGET(library)
{
	struct err err;
	auto_strv struct strv dirs = { 0 };
	const struct root *root = fuzz_file("usr/lib/libfuzz.so.1.0", data, len);
	auto_soname struct soname s = { 0 };
	auto_fd int fd = root_open(root, "usr/lib/libfuzz.so.1.0", O_RDONLY, &err);
	strv_add(&dirs, str_dup("usr/lib"));
	int taken = FUZZ(soname_read(fd, "libfuzz.so.1.0", &s, &err)) && s.machine;
	auto_needs struct needs needs = { 0 };
	FUZZ(linker_needs_read(fd, "libfuzz.so.1.0", &needs, &err));
	if (root_mkdirs(root, "etc", 0755, &err) < 0)
		abort();
	FUZZ(ldcache_links(root, &dirs, &err));
	FUZZ(ldcache_write(root, &dirs, &err));
	return taken;
}

static int take(void *ctx, json_t *record, struct err *err)
{
	(void)err;
	*(size_t *)ctx += json_object_size(record);
	return 0;
}

static int json_stream(const struct json_stream_table *table, const char *data, size_t len, size_t piece)
{
	struct err err = { 0 };
	size_t sum = 0;
	auto_json json_t *rest = NULL;
	auto_json_stream struct json_stream *s = json_stream_new(table, take, &sum);
	for (size_t at = 0; at < len; at += piece)
		if (!FUZZ(json_stream_feed(s, data + at, len - at < piece ? len - at : piece, &err)))
			return 0;
	return FUZZ(json_stream_end(s, &rest, &err));
}

// In which pieces it arrives must not matter.
static int sifted(const struct json_stream_table *table, const char *data, size_t len)
{
	int whole = json_stream(table, data, len, len ? len : 1), bytes = json_stream(table, data, len, 1);
	if (whole != bytes)
		abort();
	return whole;
}

static const char *const rest[] = { "metadata resourceVersion", "metadata continue", NULL };

FUZZ_TARGET(events) // of a watch
{
	static const char *const record[] = { "type",
					      "object kind",
					      "object metadata name",
					      "object metadata labels a*",
					      "object status conditions type",
					      NULL };
	return sifted(&(struct json_stream_table){ .record = record }, data, len);
}

FUZZ_TARGET(list) // a page of a collection
{
	static const char *const record[] = { "metadata name", "metadata annotations", "status conditions status",
					      NULL };
	return sifted(&(struct json_stream_table){ .list = "items", .record = record, .rest = rest }, data, len);
}

FUZZ_TARGET(url) // parts: base, reference: what a Location or Link leads to
{
	size_t base_len, reference_len;
	auto_str char *base = fuzz_part(data, len, "base", false, &base_len),
		      *reference = fuzz_part(data, len, "reference", true, &reference_len);
	auto_str char *joined = http_join(*base ? str_trim(base) : "https://a.example/v2/x", str_trim(reference));
	auto_str char *shown = http_url_shown(reference), *escaped = http_escape(reference);
	if (!shown || !escaped)
		abort();
	if (joined)
		http_is_same_origin(joined, base);
	return joined != NULL;
}
