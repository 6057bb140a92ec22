// SPDX-License-Identifier: Apache-2.0
// Sources: gpu-driver-container 06a208c, rhel9/ocp_dtk_entrypoint (directories, targets, flags); gds-nvidia-fs 06eb38e,
// src/Makefile and src/create_nv.symvers.sh; gdrcopy fcec3ce, src/gdrdrv/Makefile.
#include "driver_toolkit/extra_modules.h"

#include "base/file/copy.h"
#include "base/file/scratch.h"
#include "base/formats/json.h"
#include "driver_toolkit/dtk.h"
#include "driver_toolkit/dtk_internal.h"
#include "host/module_set.h"
#include "kmod/module/proof.h"
#include "kmod/sandbox/sandbox.h"

#include <fcntl.h>
#include <inttypes.h>

#define OFFER DTK_EXTRA "/offer.json"
#define MODULE "nvidia.ko"
#define INTERFACE "nvidia"
enum { FORMAT = 1, LOOK_EVERY = 3, LINES_KEPT = 40 };
static const uint64_t SOURCES_MOST = 256U << 20;

const char *const extra_module_names[EXTRA_MODULES] = { "nvidia-fs", "gdrdrv" };

static const struct {
	const char *dir, *flag; // in the shared directory
	const char *make_in;    // in dir
	const char *target, *file;
	const char *symvers; // a program there that looks for an installed driver; NULL = none
} extras[EXTRA_MODULES] = {
	[EXTRA_NVIDIA_FS] = { "gds-nvidia-fs", "nvidia_fs_built", "src", "module", "nvidia-fs.ko",
			      "create_nv.symvers.sh" },
	[EXTRA_GDRDRV] = { "gdrcopy", "gdrcopy_built", "src/gdrdrv", "build", "gdrdrv.ko", NULL },
};

int extra_modules_clear(const struct root *shared, struct err *err)
{
	for (int i = 0; i < EXTRA_MODULES; i++)
		if (root_rmtree(shared, extras[i].flag, err) < 0)
			return -1;
	return root_rmtree(shared, DTK_EXTRA, err) < 0 ? -1 : 0;
}

// The driver's side

static int digest_of_file(const struct root *root, const char *path, char ret[DIGEST_HEX + 1], struct err *err)
{
	auto_fd int fd = root_open(root, path, O_RDONLY, err);
	return fd < 0 ? -1 : digest_file(fd, path, ret, err);
}

// Headers only: what lies beside them is the driver's core, and large.
static int copy_interface(const struct root *from, const struct root *shared, const char *dir, struct err *err)
{
	auto_strv struct strv names = { 0 };
	if (root_list(from, ".", &names, err) < 0 || root_mkdirs(shared, dir, 0755, err) < 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		auto_str char *to = str_fmt("%s/%s", dir, names.items[i]);
		if (str_ends(names.items[i], ".h") && copy_entry(from, names.items[i], shared, to, err) < 0)
			return -1;
	}
	return 0;
}

static char *offer_text(const struct extra_offer *o, const char *module, const char *interface)
{
	json_t *wanted = json_array();
	for (int i = 0; i < EXTRA_MODULES; i++)
		if (o->is_wanted[i])
			json_array_append_new(wanted, json_string(extra_module_names[i]));
	auto_json json_t *json = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:o}", "format", FORMAT, "kernel", o->kernel,
					   "driver", o->driver, "flavour", module_type_name(o->flavour), "module",
					   module, "interface", interface, "wanted", wanted);
	return json_dumps(json, JSON_INDENT(2) | JSON_SORT_KEYS);
}

static int start_toolkit(const struct root *shared, const struct extra_offer *o, const char *text, struct err *err)
{
	struct dtk_flags flags;
	char id[DIGEST_HEX + 1];
	digest_data(text, strlen(text), id);
	if (dtk_flags_read(shared, &flags, err) < 0)
		return -1;
	if (*flags.id[DTK_PREPARED])
		return 0;
	return dtk_put_program(shared, o->program, err) < 0 ? -1 : dtk_flag_set(shared, DTK_PREPARED, id, err);
}

int extra_modules_offer(const struct root *shared, const struct extra_offer *o, struct err *err)
{
	static const char NEW[] = DTK_PLACE "/extra.new";
	char module[DIGEST_HEX + 1], interface[DIGEST_HEX + 1];
	auto_root struct root made = ROOT_NONE;
	if (root_mkdirs(shared, DTK_PLACE, 0755, err) < 0 || root_rmtree(shared, NEW, err) < 0 ||
	    copy_interface(o->interface, shared, (DTK_PLACE "/extra.new/" INTERFACE), err) < 0 ||
	    copy_entry(o->modules, MODULE, shared, (DTK_PLACE "/extra.new/" MODULE), err) < 0 ||
	    root_sub(shared, (DTK_PLACE "/extra.new/" INTERFACE), &made, err) < 0 ||
	    copy_digest(&made, interface, err) < 0 ||
	    digest_of_file(shared, (DTK_PLACE "/extra.new/" MODULE), module, err) < 0)
		return -1;
	auto_str char *text = offer_text(o, module, interface), *before = dtk_read_short(shared, OFFER);
	if (str_eq(text, before))
		return root_rmtree(shared, NEW, err) < 0 ? -1 : start_toolkit(shared, o, text, err);
	if (dtk_put_file(shared, (DTK_PLACE "/extra.new/offer.json"), text, err) < 0 ||
	    extra_modules_clear(shared, err) < 0 || root_rename(shared, NEW, DTK_EXTRA, err) < 0)
		return -1;
	return start_toolkit(shared, o, text, err);
}

// The toolkit's side

struct offer { // as it was read
	json_t *json;
	char id[DIGEST_HEX + 1];
};

static const char *text_of(const json_t *json, const char *key)
{
	const char *text = json_string_value(json_object_get(json, key));
	return text ? text : "";
}

static bool read_offer(const struct root *shared, struct offer *ret)
{
	auto_str char *text = dtk_read_short(shared, OFFER);
	ret->json = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
	if (text)
		digest_data(text, strlen(text), ret->id);
	return json_integer_value(json_object_get(ret->json, "format")) == FORMAT;
}

static bool is_wanted(const struct offer *offer, enum extra_module which)
{
	const json_t *all = json_object_get(offer->json, "wanted");
	for (size_t i = 0; i < json_array_size(all); i++)
		if (str_eq(json_string_value(json_array_get(all, i)), extra_module_names[which]))
			return true;
	return false;
}

static bool is_built(const struct root *shared, const struct offer *offer, enum extra_module which)
{
	auto_str char *text = dtk_read_short(shared, extras[which].flag);
	return text && str_eq(str_trim(text), offer->id);
}

// Its container may still be copying: the sources count once two looks saw the same.
static bool is_whole(const struct root *shared, struct extra_modules *m, enum extra_module which, char *ret_digest)
{
	auto_root struct root dir = ROOT_NONE;
	auto_str char *makefile = str_fmt("%s/%s/Makefile", extras[which].dir, extras[which].make_in);
	struct err ignored;
	if (!root_exists(shared, makefile) || root_sub(shared, extras[which].dir, &dir, &ignored) < 0 ||
	    copy_digest(&dir, ret_digest, &ignored) < 0)
		return false;
	bool is_same = str_eq(ret_digest, m->seen[which]);
	memcpy(m->seen[which], ret_digest, DIGEST_HEX + 1);
	return is_same;
}

struct compile_log {
	struct strv lines;
};

static void keep_last_lines(void *ctx, const char *line)
{
	struct compile_log *log = ctx;
	if (log->lines.count == LINES_KEPT) {
		free(log->lines.items[0]);
		memmove(log->lines.items, log->lines.items + 1, (LINES_KEPT - 1) * sizeof(*log->lines.items));
		log->lines.count--;
	}
	strv_add(&log->lines, str_dup(line));
}

static const char *telling_line(const struct compile_log *log)
{
	static const char *const signs[] = { "error:", "ERROR:", "Error " };
	for (size_t s = 0; s < ARRAY_SIZE(signs); s++)
		for (size_t i = 0; i < log->lines.count; i++)
			if (strstr(log->lines.items[i], signs[s]))
				return log->lines.items[i];
	return log->lines.count ? log->lines.items[log->lines.count - 1] : "nothing was said";
}

// In place of the program that would look for an installed driver.
static int put_symvers(const struct root *job, const struct module *nvidia, const char *program, struct err *err)
{
	static const char COPY[] = "#!/bin/sh\ncp " SANDBOX_WORK "/nv.symvers nv.symvers\n";
	auto_str char *text = str_dup("");
	for (size_t i = 0; nvidia->exports && i < nvidia->exports->count; i++) {
		const struct symver *s = &nvidia->exports->items[i];
		if (str_starts(s->name, "nvidia_p2p_"))
			str_add(&text, "0x%08x\t%s\tnvidia\tEXPORT_SYMBOL%s\t%s\n", s->crc, s->name,
				s->is_gpl ? "_GPL" : "", s->namespace);
	}
	return root_put(job, "nv.symvers", text, strlen(text), 0644, err) < 0 ||
			       root_put(job, program, COPY, strlen(COPY), 0755, err) < 0 ?
		       -1 :
		       0;
}

static int run_make(const struct extra_toolkit *at, const struct offer *offer, enum extra_module which,
		    const struct root *job, struct err *err)
{
	auto_str char *dir = str_fmt(SANDBOX_WORK "/src/%s", extras[which].make_in), *pwd = str_fmt("PWD=%s", dir);
	auto_str char *kver = str_fmt("KVER=%s", at->release);
	bool is_open = str_eq(text_of(offer->json, "flavour"), "open");
	struct compile_log log = { 0 };
	struct proc_end end;
	const char *const argv[] = { "/usr/bin/make", extras[which].target, kver,
				     ("NVIDIA_SRC_DIR=" SANDBOX_WORK "/" INTERFACE),
				     is_open ? "NVIDIA_IS_OPENSOURCE=y" : "NVIDIA_IS_OPENSOURCE=",
				     "CONFIG_DEBUG_INFO_BTF_MODULES=", "IGNORE_CC_MISMATCH=1",
				     // Makefile adds them to a file that modpost of Linux 6.1 no longer reads.
				     extras[which].symvers ? "KBUILD_EXTRA_SYMBOLS=" SANDBOX_WORK "/nv.symvers" : NULL,
				     NULL };
	const char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
				    "LC_ALL=C",
				    "HOME=/tmp",
				    "TMPDIR=/tmp",
				    "KBUILD_BUILD_USER=kmodsmith",
				    "KBUILD_BUILD_HOST=kmodsmith",
				    pwd,
				    NULL };
	const struct sandbox sandbox = { .base = str_eq(at->node->host->name, "/") ? NULL : at->node->host,
					 .work = job,
					 .argv = argv,
					 .env = env,
					 .dir = dir,
					 .timeout_ms = at->timeout_ms,
					 .line = keep_last_lines,
					 .ctx = &log };
	int r = sandbox_run(&sandbox, &end, err);
	if (r == 0 && end.is_timed_out)
		r = err_set(err, E_BUILD_TIMEOUT, "the compile took longer than %d s", at->timeout_ms / 1000);
	else if (r == 0 && end.status != 0)
		r = err_set(err, E_BUILD, "%s", telling_line(&log));
	strv_done(&log.lines);
	return r;
}

// Of both modules only the second one's verdict counts: the first is what the driver's container loads.
static int prove(const struct extra_toolkit *at, const struct root *dir, enum extra_module which,
		 struct module_set *set, struct err *err)
{
	auto_strv struct strv files = { 0 };
	auto_kernel_abi struct kernel_abi abi = { 0 };
	auto_proof struct proof proof = { 0 };
	strv_add(&files, str_dup(MODULE));
	strv_add(&files, str_dup(extras[which].file));
	if (module_set_read(dir, &files, set, err) < 0 ||
	    kernel_abi_read(&abi, at->node->host, at->node->kern, NULL, NULL, err) < 0)
		return -1;
	proof_make(set->pointers, set->count, &abi, NULL, &proof);
	const struct proof_module *own = &proof.modules[1];
	return own->code ? err_set(err, own->code, "%s", own->text) : 0;
}

static int compile_extra(const struct extra_toolkit *at, const struct offer *offer, enum extra_module which,
			 struct err *err)
{
	auto_scratch struct scratch work = SCRATCH_NONE;
	auto_root struct root job = ROOT_NONE;
	auto_module_set struct module_set nvidia = { 0 }, both = { 0 };
	auto_strv struct strv names = { 0 };
	uint64_t bytes = 0;
	auto_str char *made = str_fmt("src/%s/%s", extras[which].make_in, extras[which].file);
	auto_str char *to = str_fmt("%s/%s/%s", extras[which].dir, extras[which].make_in, extras[which].file);
	auto_str char *flag = str_fmt("%s\n", offer->id);
	if (copy_bytes(at->shared, extras[which].dir, &bytes, err) < 0)
		return -1;
	if (bytes > SOURCES_MOST)
		return err_set(err, E_TOO_LARGE, "its sources have %" PRIu64 " MiB", bytes >> 20);
	progress_note(at->node->progress, "compiling %s, of '%s'", extra_module_names[which], extras[which].dir);
	strv_add(&names, str_dup(MODULE));
	if (scratch_make(at->work, "extra", &work, err) < 0 || root_mkdirs(&work.root, "job", 0755, err) < 0 ||
	    root_sub(&work.root, "job", &job, err) < 0 ||
	    copy_entry(at->shared, (DTK_EXTRA "/" MODULE), &work.root, MODULE, err) < 0 ||
	    copy_tree(at->shared, (DTK_EXTRA "/" INTERFACE), &job, INTERFACE, err) < 0 ||
	    copy_tree(at->shared, extras[which].dir, &job, "src", err) < 0 || root_rmtree(&job, made, err) < 0 ||
	    module_set_read(&work.root, &names, &nvidia, err) < 0)
		return -1;
	if (extras[which].symvers) {
		auto_str char *program = str_fmt("src/%s/%s", extras[which].make_in, extras[which].symvers);
		if (put_symvers(&job, &nvidia.items[0], program, err) < 0)
			return -1;
	}
	if (run_make(at, offer, which, &job, err) < 0 ||
	    copy_entry(&job, made, &work.root, extras[which].file, err) < 0 ||
	    prove(at, &work.root, which, &both, err) < 0 || root_rmtree(at->shared, to, err) < 0 ||
	    root_write(at->shared, to, both.items[1].data, both.items[1].len, 0644, err) < 0)
		return -1;
	return dtk_put_file(at->shared, extras[which].flag, flag, err);
}

int extra_modules_serve(const struct extra_toolkit *at, struct extra_modules *m, enum extra_module *ret,
			struct err *why)
{
	struct offer offer = { 0 };
	int r = 0;
	if (m->looks++ % LOOK_EVERY != 0)
		return 0;
	bool is_there = read_offer(at->shared, &offer) && str_eq(text_of(offer.json, "kernel"), at->release);
	for (int i = 0; i < EXTRA_MODULES && is_there && r == 0; i++) {
		enum extra_module which = (enum extra_module)i;
		char digest[DIGEST_HEX + 1];
		if (!is_wanted(&offer, which) || is_built(at->shared, &offer, which) ||
		    !is_whole(at->shared, m, which, digest) || str_eq(digest, m->failed[which]))
			continue;
		*ret = which;
		r = compile_extra(at, &offer, which, why) < 0 ? -1 : 1;
		if (r < 0)
			memcpy(m->failed[which], digest, sizeof(digest));
	}
	json_decref(offer.json);
	return r;
}
