// SPDX-License-Identifier: Apache-2.0
#include "driver_toolkit/dtk.h"

#include "base/file/copy.h"
#include "base/file/file.h"
#include "base/file/scratch.h"
#include "base/formats/json.h"
#include "driver_toolkit/dtk_internal.h"
#include "host/module_set.h"
#include "kmod/module/proof.h"

#include <errno.h>
#include <fcntl.h>

enum { FORMAT = 1, TEXT_MOST = 300, MODULES_MOST = 32, NUMBER_MOST = 1000000 };

enum dtk_step dtk_next(const struct dtk_flags *flags, const char *id)
{
	if (!str_eq(flags->id[DTK_PREPARED], id))
		return DTK_PREPARE;
	if (str_eq(flags->id[DTK_BUILT], id))
		return DTK_TAKE;
	return str_eq(flags->id[DTK_BROKEN], id) ? DTK_LEAVE : DTK_WAIT;
}

void dtk_request_done(struct dtk_request *r)
{
	free(r->driver);
	free(r->flavour);
	free(r->kernel);
	free(r->source);
	free(r->source_sha256);
	free(r->patches);
	free(r->program);
	strv_done(&r->modules);
	*r = (struct dtk_request){ 0 };
}

// One table for what is written, read and compared.
enum kind { WORD, NAME, DIGEST, DIGEST_OR_NONE, TYPE_NAME };
static const struct {
	const char *key;
	enum kind kind;
	size_t offset;
} texts[] = {
	{ "driver", WORD, offsetof(struct dtk_request, driver) },
	{ "flavour", TYPE_NAME, offsetof(struct dtk_request, flavour) },
	{ "kernel", NAME, offsetof(struct dtk_request, kernel) },
	{ "source", NAME, offsetof(struct dtk_request, source) },
	{ "source_sha256", DIGEST, offsetof(struct dtk_request, source_sha256) },
	{ "patches", DIGEST_OR_NONE, offsetof(struct dtk_request, patches) },
	{ "program", DIGEST, offsetof(struct dtk_request, program) },
};
static const struct {
	const char *key;
	unsigned least;
	size_t offset;
} numbers[] = {
	{ "jobs", 0, offsetof(struct dtk_request, options.jobs) },
	{ "timeout_s", 0, offsetof(struct dtk_request, options.timeout_s) },
	{ "attempt", 1, offsetof(struct dtk_request, attempt) },
};

char *dtk_request_text(const struct dtk_request *r)
{
	auto_json json_t *json = json_pack("{s:i, s:b, s:o}", "format", FORMAT, "allow_rt", r->options.is_rt_allowed,
					   "modules", json_strv(&r->modules));
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		json_object_set_new(json, texts[i].key, json_text(*(char *const *)((const char *)r + texts[i].offset)));
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		json_object_set_new(json, numbers[i].key,
				    json_integer(*(const unsigned *)((const char *)r + numbers[i].offset)));
	char *text = json_dumps(json, JSON_INDENT(2) | JSON_SORT_KEYS);
	str_add(&text, "\n");
	return text;
}

bool dtk_request_equal(const struct dtk_request *a, const struct dtk_request *b)
{
	struct dtk_request as_b = *a;
	as_b.attempt = b->attempt;
	auto_str char *one = dtk_request_text(&as_b), *other = dtk_request_text(b);
	return str_eq(one, other);
}

// Characters that releases, versions and file names have; no hidden file, no "..".
static bool is_file_name(const char *s, size_t len)
{
	static const char USUAL[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+~-";
	return len && len <= TEXT_MOST && *s != '.' && strspn(s, USUAL) == len;
}

static bool is_valid_text(enum kind kind, const json_t *value)
{
	const char *s = json_string_value(value);
	if (!s)
		return kind == DIGEST_OR_NONE && json_is_null(value);
	if (kind == DIGEST || kind == DIGEST_OR_NONE)
		return digest_is_hex(s);
	if (kind == TYPE_NAME)
		return str_eq(s, "open") || str_eq(s, "proprietary");
	return is_file_name(s, json_string_length(value));
}

// The key that is wrong; NULL = none.
static const char *parse_request(const json_t *json, struct dtk_request *r)
{
	if (json_integer_value(json_object_get(json, "format")) != FORMAT)
		return "format";
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		const json_t *value = json_object_get(json, texts[i].key);
		if (!is_valid_text(texts[i].kind, value))
			return texts[i].key;
		*(char **)((char *)r + texts[i].offset) = str_dup(json_string_value(value));
	}
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		const json_t *value = json_object_get(json, numbers[i].key);
		json_int_t n = json_integer_value(value);
		if (!json_is_integer(value) || n < (json_int_t)numbers[i].least || n > NUMBER_MOST)
			return numbers[i].key;
		*(unsigned *)((char *)r + numbers[i].offset) = (unsigned)n;
	}
	r->options.is_rt_allowed = json_is_true(json_object_get(json, "allow_rt"));
	const json_t *modules = json_object_get(json, "modules"), *item;
	size_t m;
	if (!json_is_array(modules) || json_array_size(modules) > MODULES_MOST)
		return "modules";
	json_array_foreach(modules, m, item)
	{
		if (!is_valid_text(NAME, item))
			return "modules";
		strv_add(&r->modules, str_dup(json_string_value(item)));
	}
	return NULL;
}

int dtk_request_parse(const char *text, size_t len, struct dtk_request *ret, struct err *err)
{
	auto_dtk_request struct dtk_request r = { 0 };
	json_error_t problem;
	auto_json json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES, &problem);
	if (!json)
		return err_set(err, E_CONFIG, "the request is not valid JSON at line %d: %s", problem.line,
			       problem.text);
	const char *wrong = parse_request(json, &r);
	if (wrong)
		return err_set(err, E_CONFIG, "the request's '%s' is missing or invalid", wrong);
	*ret = r;
	r = (struct dtk_request){ 0 };
	return 0;
}

// The files of the shared directory. Both containers may write all of them at any time, so each is read once, through
// one open descriptor: a regular file of bounded size.

#define PLACE DTK_PLACE
#define REQUEST PLACE "/request.json"
#define PROGRESS PLACE "/progress"
#define SOURCE PLACE "/source"
#define PATCHES PLACE "/patches"
#define REASON "driver_toolkit_broken.reason"
#define PROGRAM "ocp_dtk_entrypoint"

static const char *flag_file(enum dtk_flag flag)
{
	static const char *const names[DTK_FLAGS] = { "dir_prepared", "driver_build_started", "driver_toolkit_broken",
						      "driver_built" };
	return names[flag];
}

enum { SHORT = 64 << 10, BLOBS_MOST = 64 };
static const off_t PACKAGE_MOST = (off_t)1 << 30;

int dtk_open_plain(const struct root *root, const char *path, off_t most, int *ret, struct stat *ret_st)
{
	struct err ignored;
	auto_fd int fd = root_open(root, path, O_RDONLY | O_NOFOLLOW, &ignored);
	if (fd < 0 || fstat(fd, ret_st) < 0 || !S_ISREG(ret_st->st_mode) || ret_st->st_size > most)
		return 0;
	*ret = TAKE_FD(fd);
	return 1;
}

// A file that grows meanwhile is cut, which makes it invalid.
char *dtk_read_short(const struct root *root, const char *path)
{
	auto_fd int fd = -1;
	struct stat st;
	if (!dtk_open_plain(root, path, SHORT, &fd, &st))
		return NULL;
	auto_str char *text = mem_alloc(SHORT + 1);
	size_t len = 0;
	for (ssize_t got; len < SHORT && (got = read(fd, text + len, SHORT - len)) > 0;)
		len += (size_t)got;
	return strlen(text) == len ? TAKE(text) : NULL;
}

int dtk_flags_read(const struct root *shared, struct dtk_flags *ret, struct err *err)
{
	struct stat st;
	*ret = (struct dtk_flags){ 0 };
	if (root_stat(shared, ".", &st, err) < 0)
		return -1;
	for (int i = 0; i < DTK_FLAGS; i++) {
		auto_str char *text = dtk_read_short(shared, flag_file((enum dtk_flag)i));
		if (text && digest_is_hex(str_trim(text)))
			memcpy(ret->id[i], text, DIGEST_HEX + 1);
	}
	return 0;
}

// Removes whatever is in the place of our file: the other container may have created anything there.
static int remove_foreign_file(const struct root *shared, const char *path, struct err *err)
{
	struct stat st;
	struct err ignored;
	bool is_other = root_stat(shared, path, &st, &ignored) > 0 && !S_ISREG(st.st_mode);
	return is_other && root_rmtree(shared, path, err) < 0 ? -1 : 0;
}

int dtk_put_file(const struct root *shared, const char *path, const char *text, struct err *err)
{
	if (remove_foreign_file(shared, path, err) < 0)
		return -1;
	return root_write(shared, path, text, strlen(text), 0644, err);
}

int dtk_flag_set(const struct root *shared, enum dtk_flag flag, const char *id, struct err *err)
{
	if (!id)
		return root_rmtree(shared, flag_file(flag), err) < 0 ? -1 : 0;
	auto_str char *text = str_fmt("%s\n", id);
	return dtk_put_file(shared, flag_file(flag), text, err);
}

int dtk_put_program(const struct root *shared, const char *from, struct err *err)
{
	static const char NEW[] = PLACE "/program.new";
	if (root_rmtree(shared, NEW, err) < 0 || remove_foreign_file(shared, PROGRAM, err) < 0)
		return -1;
	auto_fd int in = file_open_arg(from, O_RDONLY, err);
	auto_fd int out = in < 0 ? -1 : root_create(shared, NEW, err);
	if (out < 0 || file_copy(in, out, PROGRAM, err) < 0)
		return -1;
	if (fchmod(out, 0755) < 0 || fsync(out) < 0)
		return file_fail("write", PROGRAM, err);
	return root_rename(shared, NEW, PROGRAM, err);
}

// Copies what a user named, a file or directory.
static int put_input(const struct root *shared, const char *from, const char *path, struct err *err)
{
	auto_root struct root dir = ROOT_NONE;
	struct stat st;
	auto_fd int in = file_open_arg(from, O_RDONLY, err);
	if (in < 0 || fstat(in, &st) < 0)
		return -1;
	if (S_ISDIR(st.st_mode))
		return root_init(&dir, from, err) < 0 ? -1 : copy_tree(&dir, ".", shared, path, err);
	auto_fd int out = root_create(shared, path, err);
	return out < 0 ? -1 : file_copy(in, out, path, err);
}

static int clear_shared_dir(const struct root *shared, struct err *err)
{
	static const char *const ours[] = { REASON, SOURCE, PATCHES, PROGRESS };
	auto_strv struct strv names = { 0 };
	struct stat st;
	for (int i = 0; i < DTK_FLAGS; i++)
		if (dtk_flag_set(shared, (enum dtk_flag)i, NULL, err) < 0)
			return -1;
	if (root_stat(shared, PLACE, &st, err) > 0 && !S_ISDIR(st.st_mode) && root_unlink(shared, PLACE, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
		if (root_rmtree(shared, ours[i], err) < 0)
			return -1;
	if (root_list(shared, PLACE, &names, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *path = str_fmt(PLACE "/%s", names.items[i]);
		if (str_starts(names.items[i], DTK_PACKAGE) && root_rmtree(shared, path, err) < 0)
			return -1;
	}
	if (extra_modules_clear(shared, err) < 0)
		return -1;
	return root_mkdirs(shared, SOURCE, 0755, err);
}

int dtk_prepare(const struct root *shared, const struct dtk_inputs *inputs, const char *text, struct err *err)
{
	char id[DIGEST_HEX + 1];
	auto_str char *source = str_dup(inputs->source);
	for (size_t len = strlen(source); len > 1 && source[len - 1] == '/';)
		source[--len] = '\0';
	const char *slash = strrchr(source, '/');
	auto_str char *path = str_fmt(SOURCE "/%s", slash ? slash + 1 : source);
	digest_data(text, strlen(text), id);
	if (clear_shared_dir(shared, err) < 0 || dtk_put_program(shared, inputs->program, err) < 0 ||
	    put_input(shared, source, path, err) < 0 ||
	    (inputs->patches && put_input(shared, inputs->patches, PATCHES, err) < 0) ||
	    dtk_put_file(shared, REQUEST, text, err) < 0)
		return -1;
	return dtk_flag_set(shared, DTK_PREPARED, id, err);
}

int dtk_request_read(const struct root *shared, struct dtk_request *ret, char ret_id[DIGEST_HEX + 1], struct err *err)
{
	auto_str char *text = dtk_read_short(shared, REQUEST);
	if (!text || dtk_request_parse(text, strlen(text), ret, err) < 0)
		return 0;
	digest_data(text, strlen(text), ret_id);
	return 1;
}

int dtk_progress_write(const struct root *shared, const struct dtk_progress *p, struct err *err)
{
	auto_str char *text = str_fmt("%s %u %u %u\n", p->id, p->done, p->total, p->beat);
	return root_put(shared, PROGRESS, text, strlen(text), 0644, err);
}

bool dtk_progress_read(const struct root *shared, struct dtk_progress *ret)
{
	auto_str char *text = dtk_read_short(shared, PROGRESS);
	auto_strv struct strv words = { 0 };
	unsigned *const fields[] = { &ret->done, &ret->total, &ret->beat };
	if (text)
		strv_split(&words, text, " \n");
	if (words.count != 1 + ARRAY_SIZE(fields) || !digest_is_hex(words.items[0]))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		uint64_t n;
		if (!str_u64(words.items[1 + i], 10, &n) || n > UINT32_MAX / 100) // a percentage can be made of it
			return false;
		*fields[i] = (unsigned)n;
	}
	memcpy(ret->id, words.items[0], DIGEST_HEX + 1);
	return ret->done <= ret->total;
}

int dtk_reason_write(const struct root *shared, const struct err *why, struct err *err)
{
	auto_str char *text = str_fmt("%s\n%s\n", err_info(why->code)->name, why->text);
	return dtk_put_file(shared, REASON, text, err);
}

void dtk_reason_read(const struct root *shared, struct err *ret)
{
	auto_str char *text = dtk_read_short(shared, REASON);
	char *line = text ? strchr(text, '\n') : NULL;
	if (line)
		*line++ = '\0';
	const struct err_info *info = line ? err_info_by_name(text) : NULL;
	for (char *p = line; p && *p; p++) // it goes into a log
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = ' ';
	err_set(ret, info ? info->code : E_BUILD, "%s", line && *line ? str_trim(line) : "no reason given");
}

static int copy_plain(const struct root *from, const char *path, const struct root *into, off_t *left, struct err *err)
{
	auto_fd int in = -1;
	struct stat st;
	if (!dtk_open_plain(from, path, *left, &in, &st))
		return err_set(err, E_MANIFEST, "'%s/%s' is missing, not a regular file, or too large", from->name,
			       path);
	auto_fd int out = root_create(into, path, err);
	if (out < 0)
		return -1;
	for (off_t done = 0; done < st.st_size;) { // and no more, should it grow
		char buf[64 << 10];
		size_t want = st.st_size - done < (off_t)sizeof(buf) ? (size_t)(st.st_size - done) : sizeof(buf);
		ssize_t got = read(in, buf, want);
		if (got <= 0)
			return err_set(err, E_MANIFEST, "'%s/%s' was truncated while it was read", from->name, path);
		if (file_write(out, path, buf, (size_t)got, err) < 0)
			return -1;
		done += got;
	}
	*left -= st.st_size;
	return 0;
}

// Copies the layout into an empty directory of ours, so that nothing changes while it is checked. E_TOO_LARGE,
// E_MANIFEST: it has what no package has.
static int copy_package(const struct root *shared, const char *id, const struct root *into, struct err *err)
{
	static const char BLOBS[] = "blobs/sha256";
	auto_str char *dir = str_fmt(PLACE "/" DTK_PACKAGE "%s", id);
	auto_root struct root from = ROOT_NONE;
	auto_strv struct strv names = { 0 };
	off_t left = PACKAGE_MOST;
	if (root_sub(shared, dir, &from, err) < 0 || root_list(&from, BLOBS, &names, err) < 0 ||
	    root_mkdirs(into, BLOBS, 0755, err) < 0 || copy_plain(&from, "oci-layout", into, &left, err) < 0 ||
	    copy_plain(&from, "index.json", into, &left, err) < 0)
		return -1;
	if (names.count > BLOBS_MOST)
		return err_set(err, E_TOO_LARGE, "'%s' has %zu blobs", from.name, names.count);
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *path = str_fmt("%s/%s", BLOBS, names.items[i]);
		if (digest_is_hex(names.items[i]) && copy_plain(&from, path, into, &left, err) < 0)
			return -1;
	}
	return 0;
}

static int take_into_store(struct acquire *o, const struct dtk_request *request, struct package *ret, struct err *err)
{
	auto_strv struct strv files = { 0 };
	auto_module_set struct module_set set = { 0 };
	auto_kernel_abi struct kernel_abi abi = { 0 };
	auto_proof struct proof proof = { 0 };
	struct err ignored;
	if (acquire_find(o, false, err) < 0)
		return -1;
	const struct package *p = acquire_found(o);
	if (!p)
		return err_set(err, E_NO_PACKAGE, "%s", o->why_not ? o->why_not : "it has no package");
	if (!str_eq(p->key.source, request->source_sha256))
		return err_set(err, E_NO_PACKAGE, "it was not made from the requested source");
	if (acquire_take(o, ret, err) < 0)
		return -1;
	for (size_t i = 0; i < ret->count; i++)
		strv_add(&files, str_dup(ret->files[i].name));
	if (module_set_read(&ret->dir, &files, &set, err) == 0 &&
	    kernel_abi_read(&abi, o->node->host, o->node->kern, NULL, NULL, err) >= 0) {
		proof_make(set.pointers, set.count, &abi, NULL, &proof);
		if (proof_error(&proof, err) == 0)
			return 0;
	}
	store_quarantine(&o->store, ret->layer.digest, NULL, &ignored);
	return -1;
}

int dtk_take(const struct acquire *as, const struct dtk_request *request, const struct root *shared, const char *id,
	     char **ret_tag, struct err *err)
{
	auto_scratch struct scratch work = SCRATCH_NONE;
	auto_package struct package package = PACKAGE_NONE;
	auto_strv struct strv from = { 0 };
	if (scratch_make(as->fetch.state, "toolkit", &work, err) < 0 || copy_package(shared, id, &work.root, err) < 0)
		return -1;
	strv_add(&from, repository_name(REPOSITORY_LAYOUT, work.root.name));
	static const struct request only_here = { .is_named = true };
	struct acquire o = ACQUIRE_NONE;
	o.request = &only_here;
	o.fetch = as->fetch;
	o.fetch.from = &from;
	o.fetch.trust = NULL; // our own request came back; who may write the directory is in our pod
	o.fetch.is_unverified = false;
	o.fetch.is_compiled_here = true;
	o.fetch.down = NULL;
	o.want = as->want;
	o.want.driver = request->driver;
	o.want.flavour = request->flavour;
	o.want.source = NULL;
	o.limit = as->limit;
	o.kernels = as->kernels; // borrowed
	o.node = as->node;
	int r = take_into_store(&o, request, &package, err);
	if (r == 0)
		*ret_tag = package_tag(&package.key);
	o.kernels = (struct strv){ 0 };
	package_done(&package); // before the store that it came from
	acquire_done(&o);
	return r;
}
