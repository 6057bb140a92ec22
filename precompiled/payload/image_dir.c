// SPDX-License-Identifier: Apache-2.0
#include "precompiled/payload/image_dir.h"

#include "base/file/copy.h"
#include "base/file/scratch.h"
#include "base/formats/json.h"

void image_dir_done(struct image_dir *c)
{
	free(c->driver);
	free(c->arch);
	*c = (struct image_dir){ 0 };
}

static char *json_member_text(const json_t *json, const char *key)
{
	const char *text = json_string_value(json_object_get(json, key));
	return text && *text && !strchr(text, '/') ? str_dup(text) : NULL;
}

int image_dir_read(const struct root *dir, const char *document, struct image_dir *ret, struct err *err)
{
	auto_image_dir struct image_dir c = { 0 };
	auto_json json_t *json = NULL;
	int r = json_read(dir, document, &json, err);
	if (r <= 0)
		return r < 0 && err->code == E_CONFIG ? err_code(err, E_PAYLOAD) : r;
	auto_str char *digest = json_member_text(json, "digest");
	c.driver = json_member_text(json, "driver");
	c.arch = json_member_text(json, "arch");
	if (!c.driver || !c.arch || !digest || !digest_is_hex(digest))
		return err_set(err, E_PAYLOAD, "'%s/%s' needs driver, arch and digest", dir->name, document);
	json_int_t bytes = json_integer_value(json_object_get(json, "bytes"));
	c.bytes = bytes > 0 ? (uint64_t)bytes : 0;
	memcpy(c.digest, digest, sizeof(c.digest));
	*ret = c;
	c = (struct image_dir){ 0 };
	return 1;
}

int image_dir_write(const struct root *dir, const char *document, const struct image_dir *c, struct err *err)
{
	auto_json json_t *json = json_pack("{s:s, s:s, s:s, s:I}", "driver", c->driver, "arch", c->arch, "digest",
					   c->digest, "bytes", (json_int_t)c->bytes);
	return json_put(dir, document, json, err);
}

static int make_image_root(const struct payload_request *request, const struct root *into, struct image_dir *ret,
			   struct err *err)
{
	auto_root struct root tree = ROOT_NONE;
	if (payload_make(request, into, IMAGE_DIR_ROOT, err) < 0 || root_sub(into, IMAGE_DIR_ROOT, &tree, err) < 0 ||
	    copy_digest(&tree, ret->digest, err) < 0 || copy_bytes(&tree, ".", &ret->bytes, err) < 0)
		return -1;
	ret->driver = str_dup(request->driver);
	ret->arch = str_dup(request->arch);
	return image_dir_write(into, IMAGE_DIR_DOCUMENT, ret, err);
}

static int is_same_image_dir(const struct root *parent, const char *name, const struct image_dir *made, struct err *err)
{
	auto_root struct root there = ROOT_NONE;
	auto_image_dir struct image_dir old = { 0 };
	if (root_sub(parent, name, &there, err) < 0)
		return -1;
	int r = image_dir_read(&there, IMAGE_DIR_DOCUMENT, &old, err);
	if (r < 0 || (r > 0 && str_eq(old.digest, made->digest) && str_eq(old.driver, made->driver)))
		return r < 0 ? -1 : 0;
	return err_set(err, E_PAYLOAD, "'%s' already holds something else; remove it first", there.name);
}

int image_dir_make(const struct payload_request *request, const struct root *parent, const char *name,
		   struct image_dir *ret, struct err *err)
{
	auto_scratch struct scratch work = SCRATCH_NONE;
	auto_image_dir struct image_dir c = { 0 };
	if (scratch_make(parent, "payload", &work, err) < 0 || make_image_root(request, &work.root, &c, err) < 0)
		return -1;
	int r = scratch_keep(&work, name, err);
	if (r == 0)
		r = is_same_image_dir(parent, name, &c, err);
	if (r < 0)
		return -1;
	*ret = c;
	c = (struct image_dir){ 0 };
	return r;
}
