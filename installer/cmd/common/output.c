// SPDX-License-Identifier: Apache-2.0
#include "cmd/common/output.h"

#include "cmd/common/origin.h"
#include "precompiled/bundle/bundle.h"

#include <errno.h>

static int check_dir(const char *dir, struct err *err)
{
	auto_root struct root root = ROOT_NONE;
	if (!*dir)
		return err_set(err, E_USAGE, "--output names no directory");
	if (root_init(&root, dir, err) < 0)
		return err->code == ENOENT ? 0 : err->code == ENOTDIR ? err_code(err, E_USAGE) : -1;
	return layout_check_place(&root, err);
}

int output_init(struct output *o, const char *named, const struct root *state, struct err *err)
{
	o->state = state;
	if (!named)
		return 0;
	o->name = origin_name(named);
	o->dir = repository_path(o->name, REPOSITORY_LAYOUT);
	o->bundle = repository_path(o->name, REPOSITORY_BUNDLE);
	if (o->dir)
		return check_dir(o->dir, err);
	if (o->bundle)
		return bundle_check_place(o->bundle, err);
	return err_set(err, E_USAGE, "--output '%s' is neither oci:DIR nor oci-archive:FILE.tar", named);
}

int output_layout(void *output, const struct layout **ret, struct err *err)
{
	struct output *o = output;
	auto_root struct root dir = ROOT_NONE;
	*ret = o->name ? &o->layout : &o->store.layout;
	if ((*ret)->root.fd >= 0)
		return 0;
	if (!o->name)
		return store_open(o->state, 0, &o->store, err);
	if (o->dir)
		return root_make(o->dir, &dir, err) < 0 ? -1 : layout_make(&dir, &o->layout, err);
	return scratch_make(o->state, "bundle", &o->work, err) < 0 ? -1 : layout_make(&o->work.root, &o->layout, err);
}

int output_finish(struct output *o, struct err *err)
{
	return o->bundle ? bundle_write(&o->layout, o->bundle, err) : 0;
}

void output_done(struct output *o)
{
	layout_done(&o->layout);
	scratch_done(&o->work);
	store_done(&o->store);
	free(o->name);
	*o = OUTPUT_NONE;
}
