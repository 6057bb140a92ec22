// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/local.h"

#include "base/archive/pack.h"

#include <archive.h>
#include <archive_entry.h>

#define INDEX "{\"manifests\":[],\"schemaVersion\":2}"
#define MARK "{\"imageLayoutVersion\":\"1.0.0\"}"
#define HEX "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"

static void pack_blob(struct pack *p, const struct sample *s, const char *prefix, const struct oci_descriptor *d)
{
	struct err err;
	auto_str char *path = layout_blob_path(d->digest), *name = str_fmt("%s%s", prefix, path);
	auto_fd int fd = layout_blob_open(&s->layout, d->digest, &err);
	assert_int_equal(pack_file(p, name, fd, d->size, &err), 0);
}

static struct repository *bundle(const struct sample *s, const char *prefix)
{
	struct err err;
	auto_pack struct pack *p = NULL;
	auto_str char *index = NULL;
	char *names[] = { str_fmt("%soci-layout", prefix), str_fmt("%sindex.json", prefix) };
	size_t len;
	auto_str char *file = str_fmt("%s/b.tar", s->folder.path);
	auto_fd int fd = root_create(&s->folder.root, "b.tar", &err);
	assert_int_equal(pack_new(fd, "b", PACK_PLAIN, &p, &err), 0);
	assert_int_equal(root_read(&s->layout.root, "index.json", &index, &len, &err), 1);
	assert_int_equal(pack_dir(p, "./", &err), 0);
	assert_int_equal(pack_data(p, names[0], MARK, strlen(MARK), &err), 0);
	assert_int_equal(pack_data(p, names[1], index, len, &err), 0);
	pack_blob(p, s, prefix, &s->layer);
	pack_blob(p, s, prefix, &s->config);
	pack_blob(p, s, prefix, &s->manifest);
	pack_blob(p, s, prefix, &s->signature);
	assert_int_equal(pack_close(p, NULL, NULL, NULL, &err), 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		free(names[i]);
	struct repository *r = NULL;
	assert_int_equal(repository_open_bundle(file, NULL, &r, &err), 0);
	return r;
}

static void the_content_of_a_bundle_is_served(void **state)
{
	(void)state;
	static const char *const prefixes[] = { "", "./" };
	static const size_t rows[] = { 0, 1, 300000, LAYER_SIZE - 1, LAYER_SIZE };
	for (size_t k = 0; k < ARRAY_SIZE(prefixes); k++) {
		auto_sample struct sample s;
		sample_make(&s);
		struct repository *r = bundle(&s, prefixes[k]);
		sample_check_documents(&s, r);
		for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
			sample_check_transfer(&s, r, rows[i]);
		struct err err;
		assert_int_equal(r->ops->put_blob(r, &s.layout, &s.layer, &err), -1);
		assert_int_equal(err.code, E_USAGE);
		assert_int_equal(r->ops->put_manifest(r, "", 0, OCI_MANIFEST, "x", &err), -1);
		assert_int_equal(err.code, E_USAGE);
		r->ops->free(r);
	}
}

struct member {
	const char *name;
	unsigned type; // 0 = a hard link
	const char *link, *data;
};

static int open_code(const struct folder *f, const void *data, size_t len)
{
	struct err err = { 0 };
	struct repository *r = NULL;
	tempdir_data(f, "b.tar", data, len);
	auto_str char *file = str_fmt("%s/b.tar", f->path);
	if (repository_open_bundle(file, NULL, &r, &err) < 0)
		return err.code;
	r->ops->free(r);
	return 0;
}

static void put(struct archive *a, const struct member *m, size_t size)
{
	struct archive_entry *e = archive_entry_new();
	archive_entry_set_pathname(e, m->name);
	archive_entry_set_perm(e, 0644);
	if (m->type)
		archive_entry_set_filetype(e, m->type);
	if (m->type == AE_IFLNK)
		archive_entry_set_symlink(e, m->link);
	else if (m->link)
		archive_entry_set_hardlink(e, m->link);
	archive_entry_set_size(e, (la_int64_t)size);
	assert_int_equal(archive_write_header(a, e), ARCHIVE_OK);
	if (m->data)
		archive_write_data(a, m->data, strlen(m->data)); // the rest becomes zeros
	archive_entry_free(e);
}

enum { ROOM = 6 << 20 };

static size_t make(const struct member *members, size_t count, size_t extra, bool is_gzip, char *buf)
{
	size_t used = 0;
	struct archive *a = archive_write_new();
	archive_write_set_format_pax_restricted(a);
	if (is_gzip)
		archive_write_add_filter_gzip(a);
	archive_write_set_bytes_per_block(a, 0);
	assert_int_equal(archive_write_open_memory(a, buf, ROOM, &used), ARCHIVE_OK);
	for (size_t i = 0; i < count && members[i].name; i++)
		put(a, &members[i], (members[i].data ? strlen(members[i].data) : 0) + (i == 0 ? extra : 0));
	assert_int_equal(archive_write_close(a), ARCHIVE_OK);
	archive_write_free(a);
	return used;
}

static void hostile_bundles(void **state)
{
	(void)state;
	static const struct {
		const char *what;
		struct member members[4];
		size_t extra; // zeros behind the first member
		int code;
	} rows[] = {
		{ "sound", { { "oci-layout", AE_IFREG, 0, MARK }, { "index.json", AE_IFREG, 0, INDEX } }, 0, 0 },
		{ "beside",
		  { { "README", AE_IFREG, 0, "x" },
		    { "oci-layout", AE_IFREG, 0, MARK },
		    { "index.json", AE_IFREG, 0, INDEX },
		    { "blobs/sha256/../x", AE_IFDIR, 0, 0 } },
		  0,
		  E_ARCHIVE_UNSAFE },
		{ "no mark", { { "index.json", AE_IFREG, 0, INDEX } }, 0, E_NOT_FOUND },
		{ "no index", { { "oci-layout", AE_IFREG, 0, MARK } }, 0, E_INCOMPLETE },
		{ "empty index",
		  { { "oci-layout", AE_IFREG, 0, MARK }, { "index.json", AE_IFREG, 0, "" } },
		  0,
		  E_INCOMPLETE },
		{ "no JSON",
		  { { "oci-layout", AE_IFREG, 0, MARK }, { "index.json", AE_IFREG, 0, "<html>" } },
		  0,
		  E_MANIFEST },
		{ "two indexes",
		  { { "oci-layout", AE_IFREG, 0, MARK },
		    { "index.json", AE_IFREG, 0, INDEX },
		    { "./index.json", AE_IFREG, 0, INDEX } },
		  0,
		  E_ARCHIVE_UNSAFE },
		{ "two blobs",
		  { { "blobs/sha256/" HEX, AE_IFREG, 0, "{}" },
		    { "./blobs//sha256/" HEX, AE_IFREG, 0, "{]" },
		    { "oci-layout", AE_IFREG, 0, MARK },
		    { "index.json", AE_IFREG, 0, INDEX } },
		  0,
		  E_ARCHIVE_UNSAFE },
		{ "link",
		  { { "index.json", AE_IFLNK, "/etc/passwd", 0 }, { "oci-layout", AE_IFREG, 0, MARK } },
		  0,
		  E_ARCHIVE_UNSAFE },
		{ "hard link",
		  { { "oci-layout", AE_IFREG, 0, MARK }, { "index.json", 0, "/etc/passwd", 0 } },
		  0,
		  E_ARCHIVE_UNSAFE },
		{ "climbs", { { "../index.json", AE_IFREG, 0, INDEX } }, 0, E_ARCHIVE_UNSAFE },
		{ "absolute", { { "/index.json", AE_IFREG, 0, INDEX } }, 0, E_ARCHIVE_UNSAFE },
		{ "fifo", { { "blobs", AE_IFIFO, 0, 0 } }, 0, E_ARCHIVE_UNSAFE },
		{ "huge index",
		  { { "index.json", AE_IFREG, 0, INDEX }, { "oci-layout", AE_IFREG, 0, MARK } },
		  OCI_DOCUMENT_MAX,
		  E_TOO_LARGE },
	};
	auto_str char *buf = mem_alloc(ROOM);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_folder struct folder f;
		folder_make(&f);
		size_t len = make(rows[i].members, ARRAY_SIZE(rows[i].members), rows[i].extra, false, buf);
		expect(open_code(&f, buf, len) == rows[i].code, rows[i].what);
	}
}

// Cut at every block, flipped at every byte of the headers: an error or a sound answer, never a wrong read.
static void damaged_bundles(void **state)
{
	(void)state;
	static const struct member members[] = { { "oci-layout", AE_IFREG, 0, MARK },
						 { "index.json", AE_IFREG, 0, INDEX },
						 { "blobs/sha256/" HEX, AE_IFREG, 0, "{}" } };
	auto_str char *buf = mem_alloc(ROOM);
	auto_folder struct folder f;
	folder_make(&f);
	size_t len = make(members, ARRAY_SIZE(members), 0, false, buf);
	assert_int_equal(open_code(&f, buf, len), 0);
	for (size_t cut = 0; cut < 1536 + strlen(INDEX); cut += 32)
		assert_int_not_equal(open_code(&f, buf, cut), 0);
	for (size_t at = 0; at < 3 * 1024; at += 7) {
		buf[at] ^= 0x15;
		open_code(&f, buf, len); // the sanitizers judge
		buf[at] ^= 0x15;
	}
	len = make(members, ARRAY_SIZE(members), 0, true, buf);
	assert_int_equal(open_code(&f, buf, len), E_ARCHIVE); // compressed
}

// A file that ends after its header has fewer bytes than it states.
static void a_truncated_member(void **state)
{
	(void)state;
	static const struct member members[] = { { "blobs/sha256/" HEX, AE_IFREG, 0, "{}" } };
	auto_str char *buf = mem_alloc(ROOM);
	auto_folder struct folder f;
	folder_make(&f);
	make(members, 1, 3 << 20, false, buf);
	assert_int_equal(open_code(&f, buf, 4096), E_ARCHIVE);
}

static void not_a_bundle(void **state)
{
	(void)state;
	struct err err;
	struct repository *r = NULL;
	assert_int_equal(repository_open_bundle("/nowhere/b.tar", NULL, &r, &err), -1);
	assert_int_equal(err.code, E_NOT_FOUND);
	assert_int_equal(repository_open_bundle("/dev/null", NULL, &r, &err), -1);
	assert_int_equal(err.code, E_ARCHIVE);
	assert_int_equal(repository_open_bundle("/", NULL, &r, &err), -1);
	assert_null(r);
}

// A blob whose bytes are not what its name says.
static void false_names(void **state)
{
	(void)state;
	static const struct member members[] = { { "oci-layout", AE_IFREG, 0, MARK },
						 { "index.json", AE_IFREG, 0, INDEX },
						 { "blobs/sha256/" HEX, AE_IFREG, 0, "{]" } };
	auto_str char *buf = mem_alloc(ROOM), *file = NULL;
	auto_folder struct folder f;
	struct err err;
	struct repository *r = NULL;
	char *text = NULL;
	size_t len = make(members, ARRAY_SIZE(members), 0, false, buf);
	folder_make(&f);
	tempdir_data(&f, "b.tar", buf, len);
	file = str_fmt("%s/b.tar", f.path);
	assert_int_equal(repository_open_bundle(file, NULL, &r, &err), 0);
	assert_int_equal(r->ops->manifest(r, "sha256:" HEX, &text, &len, &err), -1);
	assert_int_equal(err.code, E_DIGEST);
	assert_null(text);
	r->ops->free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_content_of_a_bundle_is_served),
		cmocka_unit_test(hostile_bundles),
		cmocka_unit_test(damaged_bundles),
		cmocka_unit_test(a_truncated_member),
		cmocka_unit_test(not_a_bundle),
		cmocka_unit_test(false_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
