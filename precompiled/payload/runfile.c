// SPDX-License-Identifier: Apache-2.0
#include "precompiled/payload/runfile.h"

#include "base/archive/archive.h"
#include "precompiled/payload/install_path.h"

enum { HEAD_LINES = 8, VERSION_LINE = 1 };
static const char INHERIT[] = "INHERIT_PATH_DEPTH:";

// In a place, "T" is the triplet and "V" the version. Types without a row (manuals, icons, X server modules and
// configuration, GLVND, which containers bring along, wine, the installer itself) are left out of a payload.
static const struct type {
	const char *name;
	bool has_arch, has_path, is_link, is_inheriting;
	const char *place; // NULL = the line's path is the place
} types[] = {
	{ "KERNEL_MODULE_SRC", .is_inheriting = true, .place = "usr/src/nvidia-V/" },
	{ "DKMS_CONF", .is_inheriting = true, .place = "usr/src/nvidia-V/" },
	{ "FIRMWARE", .is_inheriting = true, .place = "usr/lib/firmware/nvidia/V/" },
	{ "CUDA_LIB", .has_arch = true, .has_path = true, .place = "usr/lib/T/" },
	{ "CUDA_SYMLINK", .has_arch = true, .has_path = true, .is_link = true, .place = "usr/lib/T/" },
	{ "OPENCL_LIB", .has_arch = true, .has_path = true, .place = "usr/lib/T/" },
	{ "OPENCL_LIB_SYMLINK", .has_arch = true, .has_path = true, .is_link = true, .place = "usr/lib/T/" },
	{ "TLS_LIB", .has_arch = true, .has_path = true, .place = "usr/lib/T/" },
	{ "VDPAU_LIB", .has_arch = true, .has_path = true, .place = "usr/lib/T/" },
	{ "VDPAU_SYMLINK", .has_arch = true, .has_path = true, .is_link = true, .place = "usr/lib/T/" },
	{ "OPENGL_LIB", .has_arch = true, .place = "usr/lib/T/" },
	{ "OPENGL_SYMLINK", .has_arch = true, .is_link = true, .place = "usr/lib/T/" },
	{ "GLX_CLIENT_LIB", .has_arch = true, .place = "usr/lib/T/" },
	{ "GLX_CLIENT_SYMLINK", .has_arch = true, .is_link = true, .place = "usr/lib/T/" },
	{ "EGL_CLIENT_LIB", .has_arch = true, .place = "usr/lib/T/" },
	{ "EGL_CLIENT_SYMLINK", .has_arch = true, .is_link = true, .place = "usr/lib/T/" },
	{ "UTILITY_LIB", .has_arch = true, .place = "usr/lib/T/" },
	{ "UTILITY_LIB_SYMLINK", .has_arch = true, .is_link = true, .place = "usr/lib/T/" },
	{ "NVCUVID_LIB", .has_arch = true, .place = "usr/lib/T/" },
	{ "NVCUVID_LIB_SYMLINK", .has_arch = true, .is_link = true, .place = "usr/lib/T/" },
	{ "ENCODEAPI_LIB", .has_arch = true, .place = "usr/lib/T/" },
	{ "ENCODEAPI_LIB_SYMLINK", .has_arch = true, .is_link = true, .place = "usr/lib/T/" },
	{ "GBM_BACKEND_LIB", .has_arch = true, .place = "usr/lib/T/gbm/" },
	{ "GBM_BACKEND_LIB_SYMLINK", .has_arch = true, .is_link = true, .place = "usr/lib/T/gbm/" },
	{ "VGX_LIB", .place = "usr/lib/T/" },
	{ "VGX_LIB_SYMLINK", .is_link = true, .place = "usr/lib/T/" },
	{ "GRID_LIB", .has_path = true, .place = "usr/lib/T/" },
	{ "GRID_LIB_SYMLINK", .has_path = true, .is_link = true, .place = "usr/lib/T/" },
	{ "FLEXERA_LIB", .has_path = true, .place = "usr/lib/T/" },
	{ "FLEXERA_LIB_SYMLINK", .has_path = true, .is_link = true, .place = "usr/lib/T/" },
	{ "INTERNAL_UTILITY_BINARY", .has_arch = true, .place = "usr/lib/nvidia/" },
	{ "INTERNAL_UTILITY_LIB", .has_arch = true, .place = "usr/lib/nvidia/" },
	{ "INTERNAL_UTILITY_DATA", .place = "usr/lib/nvidia/" },
	{ "UTILITY_BINARY", .place = "usr/bin/" },
	{ "UTILITY_BIN_SYMLINK", .is_link = true, .place = "usr/bin/" },
	{ "NVIDIA_MODPROBE", .has_path = true, .place = NULL },
	{ "EXPLICIT_PATH", .has_path = true, .place = NULL },
	{ "OPENGL_DATA", .has_path = true, .place = NULL },
	{ "CUDA_ICD", .place = "etc/OpenCL/vendors/" },
	{ "VULKAN_ICD_JSON", .has_path = true, .place = "etc/vulkan/" },
	{ "VULKANSC_ICD_JSON", .has_path = true, .place = "etc/vulkansc/" },
	{ "GLVND_EGL_ICD_JSON", .place = "usr/share/glvnd/egl_vendor.d/" },
	{ "EGL_EXTERNAL_PLATFORM_JSON", .place = "usr/share/egl/egl_external_platform.d/" },
	{ "APPLICATION_PROFILE", .has_path = true, .place = "usr/share/nvidia/" },
	{ "SANDBOXUTILS_FILELIST_JSON", .has_path = true, .place = "usr/share/nvidia/files.d/" },
	{ "DOCUMENTATION", .has_path = true, .place = "usr/share/doc/" }, // of it what is_wanted_document()
};

void runfile_done(struct runfile *r)
{
	for (size_t i = 0; i < r->count; i++) {
		free(r->items[i].file);
		free(r->items[i].place);
		free(r->items[i].target);
	}
	free(r->items);
	free(r->version);
	*r = (struct runfile){ 0 };
}

static const struct type *find_type(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (str_eq(types[i].name, name))
			return &types[i];
	return NULL;
}

static char *expand_place(const char *place, const char *triplet, const char *version)
{
	auto_str char *ret = str_dup("");
	for (const char *p = place; *p; p++)
		if (*p == 'T')
			str_add(&ret, "%s", triplet);
		else if (*p == 'V')
			str_add(&ret, "%s", version);
		else
			str_add(&ret, "%c", *p);
	return TAKE(ret);
}

// The directories of the file, less the first N; sources keep all of them, because both module types are kept.
static char *inherited_path(const char *file, const char *word, const char *type)
{
	uint64_t depth;
	const char *slash = strrchr(file, '/'), *from = file;
	if (!str_starts(word, INHERIT) || !str_u64(word + strlen(INHERIT), 10, &depth))
		return NULL;
	for (uint64_t i = 0; !str_eq(type, "KERNEL_MODULE_SRC") && !str_eq(type, "DKMS_CONF") && i < depth; i++) {
		from = strchr(from, '/');
		if (!from)
			return NULL;
		from++;
	}
	return !slash ? str_dup("") : from > slash ? str_dup("") : str_ndup(from, (size_t)(slash - from));
}

struct line {
	struct strv words;
	size_t at;
};

static const char *next_field(struct line *l)
{
	return l->at < l->words.count ? l->words.items[l->at++] : NULL;
}

// The licences must accompany the files: the driver's, and that of the list of GPUs, which bears the same name in a
// directory of its own. The list tells programs which module types a GPU has; all other documentation is left out.
static bool is_wanted_document(const char *name)
{
	return str_eq(name, "LICENSE") || str_eq(name, "supported-gpus.json");
}

// 1 = *ret is an entry, 0 = not part of a payload, -1 = the line is incomplete.
static int read_manifest_line(struct line *l, const char *triplet, const char *version, struct runfile_entry *ret)
{
	const char *file = next_field(l), *mode = next_field(l), *word = next_field(l),
		   *slash = file ? strrchr(file, '/') : NULL, *name = slash ? slash + 1 : file;
	const struct type *type = word ? find_type(word) : NULL;
	if (!file || !mode || !word)
		return -1;
	if (!type || (str_eq(word, "DOCUMENTATION") && !is_wanted_document(name)))
		return 0;
	const char *arch = type->has_arch ? next_field(l) : "NATIVE";
	const char *given = type->has_path || type->is_inheriting ? next_field(l) : "";
	const char *target = type->is_link ? next_field(l) : NULL;
	auto_str char *path = !given              ? NULL :
			      type->is_inheriting ? inherited_path(file, given, type->name) :
						    str_dup(given);
	if (!arch || !path || (type->is_link && !target))
		return -1;
	if (!str_eq(arch, "NATIVE"))
		return str_eq(arch, "COMPAT32") ? 0 : -1;
	auto_str char *dir = expand_place(type->place ? type->place : "", triplet, version);
	auto_str char *all = str_fmt("%s/%s/%s", dir, path, name);
	auto_str char *inside = archive_safe_name(all + strspn(all, "/"));
	if (!inside)
		return -1; // it leaves the root
	// The backend lies beside the libraries and its link one directory below; the installer writes an absolute
	// link.
	*ret = (struct runfile_entry){ .file = type->is_link ? NULL : str_dup(file),
				       .place = install_path_usr_merged(inside) };
	if (type->is_link)
		ret->target = str_fmt("%s%s", str_eq(type->name, "GBM_BACKEND_LIB_SYMLINK") ? "../" : "", target);
	return 1;
}

int runfile_parse(const char *text, const char *name, const char *triplet, struct runfile *ret, struct err *err)
{
	auto_runfile struct runfile r = { 0 };
	auto_strv struct strv lines = { 0 };
	strv_split(&lines, text, "\r\n"); // NVIDIA's installer does not count empty lines either
	if (lines.count <= HEAD_LINES)
		return err_set(err, E_PAYLOAD, "'%s': its manifest has only %zu lines", name, lines.count);
	r.version = str_dup(str_trim(lines.items[VERSION_LINE]));
	if (!*r.version || strspn(r.version, "0123456789.") != strlen(r.version))
		return err_set(err, E_PAYLOAD, "'%s': line 2 of its manifest is not a version: '%.80s'", name,
			       r.version);
	for (size_t i = HEAD_LINES; i < lines.count; i++) {
		struct line l = { 0 };
		struct runfile_entry e = { 0 };
		strv_split(&l.words, lines.items[i], " \t\r");
		int wanted = read_manifest_line(&l, triplet, r.version, &e);
		strv_done(&l.words);
		if (wanted < 0)
			return err_set(err, E_PAYLOAD, "'%s': bad line %zu in its manifest: '%.80s'", name, i + 1,
				       lines.items[i]);
		if (wanted == 0)
			continue;
		r.items = mem_grow(r.items, r.count + 1, sizeof(*r.items));
		r.items[r.count++] = e;
	}
	*ret = r;
	r = (struct runfile){ 0 };
	return 0;
}
