// SPDX-License-Identifier: Apache-2.0
#include "plan/preflight.h"

#include <errno.h>
#include <sys/statvfs.h>

static const char PARAMETER[] = "NVreg_EnableGpuFirmware", SHOWN[] = "EnableGpuFirmware";
enum { GSP_MODE = 0xf, GSP_OFF = 0, GSP_ON = 1, GSP_FALLBACK = 0x10, GSP_SHIPPED = 0x12, GSP_UNSET = -1 };

void preflight_need_done(struct preflight_need *n)
{
	strv_done(&n->names);
	free(n->why);
	free(n->driver);
	*n = (struct preflight_need){ 0 };
}

// The driver's own default cannot be told from a given value.
static int gsp_mode_of_value(const char *text)
{
	uint64_t value;
	return str_u64(text, 0, &value) && value <= (GSP_FALLBACK | GSP_MODE) && value != GSP_SHIPPED ? (int)value :
													GSP_UNSET;
}

static int gsp_mode_of_params(const struct module_params *params)
{
	int gsp_mode = GSP_UNSET;
	for (size_t i = 0; params && i < params->count && gsp_mode == GSP_UNSET; i++) {
		const struct module_param *p = &params->items[i];
		if (str_eq(p->module, "nvidia") && str_eq(p->name, PARAMETER) && p->value)
			gsp_mode = gsp_mode_of_value(p->value);
	}
	return gsp_mode;
}

// Reads the last of the words "NAME=VALUE", which counts.
static int gsp_mode_of_words(const struct strv *words, const char *name)
{
	size_t len = strlen(name);
	for (size_t i = words->count; i-- > 0;)
		if (str_starts(words->items[i], name) && words->items[i][len] == '=')
			return gsp_mode_of_value(words->items[i] + len + 1);
	return GSP_UNSET;
}

// The driver's own choice.
static bool is_gsp_default(const struct gpu *gpu, unsigned branch)
{
	enum { ALL_FIRST = 555, DATA_CENTRE_FIRST = 510, CLASS_3D = 0x0302 };
	return branch >= ALL_FIRST || str_eq(gpu_architecture(gpu->device), "Hopper") ||
	       (branch >= DATA_CENTRE_FIRST && gpu->class >> 8 == CLASS_3D);
}

static bool is_firmware_needed(const struct gpu *gpu, unsigned branch, enum module_type flavour, int gsp_mode)
{
	if (flavour == MODULE_TYPE_OPEN)
		return true;
	if (gsp_mode == GSP_UNSET)
		return is_gsp_default(gpu, branch);
	if ((gsp_mode & GSP_MODE) == GSP_OFF || gsp_mode & GSP_FALLBACK)
		return false;
	return (gsp_mode & GSP_MODE) == GSP_ON || is_gsp_default(gpu, branch);
}

static char *why_no_firmware(const struct gpus *gpus, unsigned branch, int gsp_mode)
{
	for (size_t i = 0; i < gpus->count; i++)
		if (gpus->items[i].kind == GPU_DISPLAY && gpu_is_ours(&gpus->items[i]) &&
		    gpu_gsp_firmware(gpus->items[i].device, branch))
			return gsp_mode == GSP_UNSET ?
				       str_dup("the proprietary modules work without it by default here") :
				       str_fmt("NVreg_EnableGpuFirmware=%d lets the proprietary modules work without "
					       "it",
					       gsp_mode);
	return str_dup("no GPU here has a GPU System Processor");
}

static void make_need(const struct gpus *gpus, const char *driver, enum module_type flavour, int gsp_mode,
		      struct preflight_need *ret)
{
	struct preflight_need need = { .driver = str_dup(driver) };
	unsigned branch = gpu_driver_branch(driver);
	for (size_t i = 0; i < gpus->count; i++) {
		const struct gpu *gpu = &gpus->items[i];
		const char *file = gpu_gsp_firmware(gpu->device, branch);
		if (gpu->kind != GPU_DISPLAY || !gpu_is_ours(gpu) || !file ||
		    !(gpu_support_flavours(gpu, branch) & flavour) ||
		    !is_firmware_needed(gpu, branch, flavour, gsp_mode))
			continue;
		auto_str char *name = str_fmt("nvidia/%s/%s", driver, file);
		if (!need.why)
			need.why = str_fmt("the %s modules need it for %s (%s)", module_type_name(flavour),
					   gpu->address, gpu_architecture(gpu->device));
		if (!strv_has(&need.names, name))
			strv_add(&need.names, TAKE(name));
	}
	if (!need.why)
		need.why = why_no_firmware(gpus, branch, gsp_mode);
	*ret = need;
}

void preflight_need_make(const struct gpus *gpus, const char *driver, enum module_type flavour,
			 const struct module_params *params, struct preflight_need *ret)
{
	make_need(gpus, driver, flavour, gsp_mode_of_params(params), ret);
}

void preflight_need_loaded(const struct gpus *gpus, const struct modules *loaded, struct preflight_need *ret)
{
	make_need(gpus, loaded->version, loaded->flavour, gsp_mode_of_words(&loaded->params, SHOWN), ret);
}

void preflight_need_record(const struct gpus *gpus, const struct driver_state *driver, struct preflight_need *ret)
{
	auto_strv struct strv words = { 0 };
	enum module_type flavour = MODULE_TYPE_AUTO;
	module_type_parse(driver->flavour, &flavour);
	module_params_words(driver_state_params(driver, "nvidia"), &words);
	make_need(gpus, driver->version, flavour, gsp_mode_of_words(&words, PARAMETER), ret);
}

// Adds the name of a missing file, and why one that is there cannot be used.
static void add_missing(const struct root *host, const struct firmware_path *search, const char *name, struct strv *ret)
{
	auto_str char *unusable = firmware_path_unusable(host, search, name);
	strv_add(ret, unusable ? str_fmt("%s (%s)", name, unusable) : str_dup(name));
}

// Where the kernel can be told no other directory, a payload's firmware does not help.
static int firmware_next(const struct root *host, const struct firmware_path *search, const char *driver,
			 struct err *err)
{
	if (!search->path)
		return err_next(err,
				"the kernel looks only there: `sh NVIDIA-Linux-*-%s.run -x`, then `mkdir -p "
				"/lib/firmware/nvidia; cp -r NVIDIA-Linux-*-%s/firmware /lib/firmware/nvidia/%s`",
				driver, driver, driver);
	bool is_debian = root_exists(host, "var/lib/dpkg/status");
	return err_next(err,
			"take it from NVIDIA's .run: `kmodsmith pack payload NVIDIA-Linux-*-%s.run --driver %s`, then "
			"`kmodsmith install` with --export /run/nvidia/driver%s",
			driver, driver, is_debian ? "; or Debian's firmware-nvidia-gsp" : "");
}

int preflight_firmware(const struct root *host, const struct firmware_path *search, const struct preflight_need *need,
		       char **ret_where, struct err *err)
{
	auto_str char *first = NULL;
	auto_strv struct strv missing = { 0 };
	for (size_t i = 0; i < need->names.count; i++) {
		char *where = firmware_path_find(host, search, need->names.items[i]);
		if (!where)
			add_missing(host, search, need->names.items[i], &missing);
		else if (!first)
			first = where;
		else
			free(where);
	}
	if (missing.count) {
		auto_str char *names = strv_join(&missing, ", "), *places = firmware_path_text(search);
		err_set(err, E_FIRMWARE, "%s: %s; the kernel would look in %s", names, need->why, places);
		return firmware_next(host, search, need->driver, err);
	}
	if (!first)
		return 0;
	*ret_where = str_fmt("%s%s", *first == '/' ? "" : "/", first);
	return 1;
}

int preflight_loaded_firmware(const struct root *host, const struct root *kern, const struct facts *facts,
			      char **ret_where, struct err *err)
{
	auto_preflight_need struct preflight_need need = { 0 };
	auto_firmware_path struct firmware_path plain = { 0 }, search = { 0 };
	if (facts->loaded.version)
		preflight_need_loaded(&facts->gpus, &facts->loaded, &need);
	if (!need.names.count)
		return 0;
	if (firmware_path(NULL, kern, facts->host.release, &plain, err) < 0)
		return -1;
	if (preflight_firmware(host, &plain, &need, ret_where, err) > 0) // the common case, asked often
		return 1;
	if (firmware_path(host, kern, facts->host.release, &search, err) < 0)
		return -1;
	if (!search.is_sure) {
		strv_add(&search.endings, str_dup(".zst"));
		strv_add(&search.endings, str_dup(".xz"));
	}
	return preflight_firmware(host, &search, &need, ret_where, err);
}

// There every capability is shown, and none of them reaches modules or devices.
static bool is_user_namespace(const struct root *kern)
{
	static const char FIRST[] = "user:[4026531837]"; // PROC_USER_INIT_INO of the kernel's include/linux/proc_ns.h
	struct err ignored;
	auto_str char *now = NULL;
	return root_readlink(kern, "proc/self/ns/user", &now, &ignored) > 0 && !str_eq(now, FIRST);
}

int preflight_rights(const struct root *kern, unsigned uses, struct err *err)
{
	auto_strv struct strv missing = { 0 };
	if (is_user_namespace(kern)) {
		err_set(err, E_RIGHTS,
			"this process is in a user namespace, whose rights do not reach the kernel's modules");
		return err_next(err, "run it without one: no `hostUsers: false` in a pod, no rootless container");
	}
	int r = capabilities_missing(kern, uses, &missing, err);
	if (r <= 0)
		return r;
	auto_str char *names = strv_join(&missing, ", ");
	return err_set(err, E_RIGHTS, "this process lacks %s", names);
}
