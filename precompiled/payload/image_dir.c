// SPDX-License-Identifier: Apache-2.0
#include "precompiled/payload/image_dir.h"

#include "base/file/copy.h"
#include "base/file/scratch.h"
#include "base/formats/json.h"

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

int image_dir_make(const struct payload_request *request, const struct root *parent, const char *name,
		   struct image_dir *ret, struct err *err)
{
	auto_scratch struct scratch work = SCRATCH_NONE;
	auto_root struct root tree = ROOT_NONE, there = ROOT_NONE;
	auto_image_dir struct image_dir c = { .driver = str_dup(request->driver), .arch = str_dup(request->arch) },
					old = { 0 };
	if (scratch_make(parent, "payload", &work, err) < 0 ||
	    payload_make(request, &work.root, IMAGE_DIR_ROOT, err) < 0 ||
	    root_sub(&work.root, IMAGE_DIR_ROOT, &tree, err) < 0 || copy_digest(&tree, c.digest, err) < 0 ||
	    copy_bytes(&tree, ".", &c.bytes, err) < 0 || image_dir_write(&work.root, IMAGE_DIR_DOCUMENT, &c, err) < 0)
		return -1;
	root_done(&tree);
	int r = scratch_keep(&work, name, err);
	if (r < 0)
		return -1;
	if (r == 0) { // something is there already
		int found = root_sub(parent, name, &there, err) < 0 ?
				    -1 :
				    image_dir_read(&there, IMAGE_DIR_DOCUMENT, &old, err);
		if (found < 0)
			return -1;
		if (found == 0 || !str_eq(old.digest, c.digest) || !str_eq(old.driver, c.driver))
			return err_set(err, E_PAYLOAD, "'%s' already holds something else; remove it first",
				       there.name);
	}
	*ret = c;
	c = (struct image_dir){ 0 };
	return r;
}
