// SPDX-License-Identifier: Apache-2.0
// Everything that is known of GPU generations is in the table below. Sources:
//   device ids           pci.ids (chip names GK, GM, GP, GV, TU, GA, GH, AD) and, for Blackwell, the list of supported
//                        GPUs in the README of NVIDIA's open-gpu-kernel-modules
//   superchips           detect-self-hosted.h in the same place, as in module_params.c; open only
//   GSP from Turing on   NVIDIA driver installation guide, "Kernel Modules": open modules start with branch 515, serve
//                        Turing and newer only, are the default from 560 on, and are required by Blackwell
//   GSP firmware files   nv-firmware.h of the open modules: the chips TU10X, TU11X and GA100 have gsp_tu10x.bin, all
//                        later ones gsp_ga10x.bin; their changelog: 525 has gsp_tu10x.bin and gsp_ad10x.bin instead,
//                        older branches one gsp.bin. A file is named after the oldest chip that it serves
//   first, last branch   "CUDA Toolkit, Driver, and Architecture Matrix": last drivers R470 for Kepler and R580 for
//                        Maxwell to Volta; the first one is that of the first CUDA toolkit: 10.0 has R410, 11.0 R450,
//                        11.8 R520 (Hopper and Ada), 12.8 R570 (Blackwell)
#include "host/gpu_support.h"

#include <limits.h>

enum { BOTH = MODULE_TYPE_OPEN | MODULE_TYPE_PROPRIETARY, OPEN_FIRST_BRANCH = 515, OPEN_DEFAULT_BRANCH = 560 };

struct generation {
	uint16_t first, last; // device ids
	const char *name;
	unsigned first_branch, last_branch; // last 0 = still supported
	unsigned flavours;
	enum gsp { NO_GSP, TU10X, GA10X, AD10X } gsp; // the oldest chip of those that share a file with it
};

static const struct generation generations[] = {
	{ 0x0000, 0x0fbf, "Fermi or older", 0, 390, MODULE_TYPE_PROPRIETARY, NO_GSP },
	{ 0x0fc0, 0x103f, "Kepler", 0, 470, MODULE_TYPE_PROPRIETARY, NO_GSP },
	{ 0x1040, 0x117f, "Fermi or older", 0, 390, MODULE_TYPE_PROPRIETARY, NO_GSP },
	{ 0x1180, 0x11ff, "Kepler", 0, 470, MODULE_TYPE_PROPRIETARY, NO_GSP },
	{ 0x1200, 0x127f, "Fermi or older", 0, 390, MODULE_TYPE_PROPRIETARY, NO_GSP },
	{ 0x1280, 0x133f, "Kepler", 0, 470, MODULE_TYPE_PROPRIETARY, NO_GSP },
	{ 0x1340, 0x15ef, "Maxwell", 0, 580, MODULE_TYPE_PROPRIETARY, NO_GSP },
	{ 0x15f0, 0x15ff, "Pascal", 0, 580, MODULE_TYPE_PROPRIETARY, NO_GSP },
	{ 0x1600, 0x171f, "Maxwell", 0, 580, MODULE_TYPE_PROPRIETARY, NO_GSP },
	{ 0x1720, 0x172f, "Pascal", 0, 580, MODULE_TYPE_PROPRIETARY, NO_GSP },
	{ 0x1730, 0x17ff, "Maxwell", 0, 580, MODULE_TYPE_PROPRIETARY, NO_GSP },
	{ 0x1b00, 0x1d7f, "Pascal", 0, 580, MODULE_TYPE_PROPRIETARY, NO_GSP },
	{ 0x1d80, 0x1dff, "Volta", 384, 580, MODULE_TYPE_PROPRIETARY, NO_GSP },
	{ 0x1e00, 0x1fff, "Turing", 410, 0, BOTH, TU10X },
	{ 0x2080, 0x20ff, "Ampere", 450, 0, BOTH, TU10X },
	{ 0x2180, 0x21ff, "Turing", 410, 0, BOTH, TU10X },
	{ 0x2200, 0x22ff, "Ampere", 450, 0, BOTH, GA10X },
	{ 0x2300, 0x233f, "Hopper", 520, 0, BOTH, AD10X },
	{ 0x2340, 0x237f, "Grace Hopper", 520, 0, MODULE_TYPE_OPEN, AD10X },
	{ 0x2380, 0x23ff, "Hopper", 520, 0, BOTH, AD10X },
	{ 0x2400, 0x25ff, "Ampere", 450, 0, BOTH, GA10X },
	{ 0x2600, 0x28ff, "Ada", 520, 0, BOTH, AD10X },
	{ 0x2900, 0x29ff, "Blackwell", 570, 0, MODULE_TYPE_OPEN, AD10X },
	{ 0x2b00, 0x2fff, "Blackwell", 570, 0, MODULE_TYPE_OPEN, AD10X },
	{ 0x3100, 0x31ff, "Blackwell", 570, 0, MODULE_TYPE_OPEN, AD10X },
};

// An id that is not in the table is assumed to be a newer GPU: the driver itself decides at load.
static const struct generation unknown = { 0, 0xffff, "unknown", 0, 0, BOTH, AD10X };

static const struct generation *find_generation(uint16_t device)
{
	for (size_t i = 0; i < ARRAY_SIZE(generations); i++)
		if (device >= generations[i].first && device <= generations[i].last)
			return &generations[i];
	return &unknown;
}

unsigned gpu_support_flavours(const struct gpu *gpu, unsigned branch)
{
	const struct generation *g = find_generation(gpu->device);
	if (branch < g->first_branch || (g->last_branch && branch > g->last_branch))
		return 0;
	return branch < OPEN_FIRST_BRANCH ? g->flavours & ~(unsigned)MODULE_TYPE_OPEN : g->flavours;
}

const char *gpu_gsp_firmware(uint16_t device, unsigned branch)
{
	enum { TWO_FILES_FIRST = 525, GA10X_FIRST = 530 };
	enum gsp gsp = find_generation(device)->gsp;
	if (gsp == NO_GSP)
		return NULL;
	if (branch < TWO_FILES_FIRST)
		return "gsp.bin";
	if (branch < GA10X_FIRST)
		return gsp == AD10X ? "gsp_ad10x.bin" : "gsp_tu10x.bin";
	return gsp == TU10X ? "gsp_tu10x.bin" : "gsp_ga10x.bin";
}

const char *gpu_architecture(uint16_t device)
{
	return find_generation(device)->name;
}

unsigned gpu_driver_branch(const char *driver_version)
{
	uint64_t branch;
	auto_str char *first = str_ndup(driver_version, strcspn(driver_version, "."));
	return str_u64(first, 10, &branch) && branch < 100000 && strchr(driver_version, '.') ? (unsigned)branch : 0;
}

// What one GPU needs, for messages: "0000:40:00.0 10de:1db6 Volta (proprietary only, branches up to 580)".
static void describe_gpu(char **text, const struct gpu *gpu)
{
	const struct generation *g = find_generation(gpu->device);
	str_add(text, "%s%s 10de:%04x %s", *text ? ", " : "", gpu->address, gpu->device, g->name);
	const char *only = g->flavours == MODULE_TYPE_OPEN ? "open only" :
			   g->flavours == BOTH             ? NULL :
							     "proprietary only";
	if (!only && !g->first_branch)
		return;
	str_add(text, " (%s", only ? only : "");
	if (g->last_branch)
		str_add(text, ", branches up to %u)", g->last_branch);
	else
		str_add(text, "%sbranch %u or newer)", only ? ", " : "", g->first_branch);
}

static bool is_display_of_ours(const struct gpu *gpu)
{
	return gpu->kind == GPU_DISPLAY && gpu_is_ours(gpu);
}

// Branches and module types that serve each GPU of a set.
struct span {
	unsigned first, last, flavours;
};

static void narrow_span(struct span *s, const struct generation *g)
{
	s->first = g->first_branch > s->first ? g->first_branch : s->first;
	s->last = g->last_branch && g->last_branch < s->last ? g->last_branch : s->last;
	s->flavours &= g->flavours;
	if (s->flavours == MODULE_TYPE_OPEN && s->first < OPEN_FIRST_BRANCH)
		s->first = OPEN_FIRST_BRANCH;
}

static bool is_span_empty(const struct span *s)
{
	return !s->flavours || s->first > s->last;
}

// Of the GPUs that a branch serves.
static struct span span_of_served(const struct gpus *gpus, unsigned branch)
{
	struct span s = { 0, UINT_MAX, BOTH };
	for (size_t i = 0; i < gpus->count; i++)
		if (is_display_of_ours(&gpus->items[i]) && gpu_support_flavours(&gpus->items[i], branch))
			narrow_span(&s, find_generation(gpus->items[i].device));
	return s;
}

// No driver serves it together with those.
static bool is_beyond_reach(const struct gpu *gpu, struct span served)
{
	narrow_span(&served, find_generation(gpu->device));
	return is_span_empty(&served);
}

bool gpu_support_serves(const struct gpu *gpu, const char *driver_version, enum module_type flavour)
{
	unsigned branch = driver_version ? gpu_driver_branch(driver_version) : 0;
	return gpu_is_ours(gpu) &&
	       (gpu->kind != GPU_DISPLAY || !branch || !flavour || gpu_support_flavours(gpu, branch) & flavour);
}

bool gpu_support_expects(const struct gpu *gpu, const char *loaded_version, enum module_type flavour)
{
	return is_display_of_ours(gpu) &&
	       (gpu_owner(gpu) == GPU_NVIDIA || gpu_support_serves(gpu, loaded_version, flavour));
}

void gpu_support_served(const struct gpus *gpus, const char *driver_version, enum module_type flavour, struct gpus *ret)
{
	*ret = (struct gpus){ .items = mem_alloc((gpus->count + 1) * sizeof(*gpus->items)) };
	for (size_t i = 0; i < gpus->count; i++)
		if (gpu_support_serves(&gpus->items[i], driver_version, flavour))
			ret->items[ret->count++] = gpus->items[i];
}

char *gpu_support_left(const struct gpus *gpus, const char *driver_version, enum module_type flavour)
{
	char *text = NULL;
	for (size_t i = 0; i < gpus->count; i++) {
		const struct gpu *gpu = &gpus->items[i];
		if (is_display_of_ours(gpu) && !gpu_support_serves(gpu, driver_version, flavour))
			str_add(&text, "%s%s (%s)", text ? ", " : "", gpu->address, gpu_architecture(gpu->device));
	}
	return text;
}

struct coverage {
	size_t count;   // GPUs that count: all but those that no driver serves together with the ones this one serves
	unsigned all;   // available flavours that support every GPU
	unsigned raw;   // flavours that support any of the GPUs, available or not
	unsigned every; // flavours that support every GPU, available or not
	char *list;     // the first four GPUs described
	char *names;    // their architectures, each once
};

static void coverage_done(struct coverage *t)
{
	free(t->list);
	free(t->names);
}

enum { MOST_NAMED = 4 };

static void list_gpu(struct coverage *t, const struct gpu *gpu)
{
	if (t->count++ < MOST_NAMED)
		describe_gpu(&t->list, gpu);
}

static void end_list(struct coverage *t)
{
	if (t->count > MOST_NAMED)
		str_add(&t->list, " and %zu more", t->count - MOST_NAMED);
}

static struct coverage count_coverage(const struct gpus *gpus, unsigned branch, unsigned available)
{
	struct coverage t = { .all = available, .every = BOTH };
	struct span served = span_of_served(gpus, branch);
	for (size_t i = 0; i < gpus->count; i++) {
		const struct gpu *gpu = &gpus->items[i];
		unsigned flavours = gpu_support_flavours(gpu, branch);
		if (!is_display_of_ours(gpu) || (!flavours && is_beyond_reach(gpu, served)))
			continue;
		t.all &= flavours;
		t.raw |= flavours;
		t.every &= flavours;
		if (!t.names || !strstr(t.names, find_generation(gpu->device)->name))
			str_add(&t.names, "%s%s", t.names ? ", " : "", find_generation(gpu->device)->name);
		list_gpu(&t, gpu);
	}
	end_list(&t);
	return t;
}

static int choose_auto(const struct coverage *t, const char *version, unsigned branch, enum module_type *ret,
		       char **ret_why, struct err *err)
{
	if (!t->all && !t->raw)
		return err_set(err, E_UNSUPPORTED_GPU, "driver %s does not support %s", version, t->list);
	if (!t->all && t->every) {
		const char *has = module_type_name((enum module_type)(BOTH & ~t->every)),
			   *lacks = module_type_name((enum module_type)t->every);
		err_set(err, E_FLAVOUR,
			"only the %s modules of driver %s are at hand, and the %s ones are needed for %s", has, version,
			lacks, t->list);
		return err_next(err,
				"name what has the %s modules: another package, or NVIDIA's own file, which has "
				"both: --source NVIDIA-Linux-*-%s.run",
				lacks, version);
	}
	if (!t->all)
		return err_set(err, E_MIXED_GPUS, "no module type of driver %s supports every GPU: %s", version,
			       t->list);
	if (t->all != BOTH) {
		*ret = (enum module_type)t->all;
		auto_str char *all = t->count == 1 ? str_dup("the GPU") : str_fmt("all %zu GPUs", t->count);
		*ret_why = str_fmt("the only available module type that supports %s (%s)", all,
				   t->names ? t->names : "none");
		return 0;
	}
	*ret = branch < OPEN_DEFAULT_BRANCH ? MODULE_TYPE_PROPRIETARY : MODULE_TYPE_OPEN;
	*ret_why = str_fmt("both module types work; %s is the default of branch %u", module_type_name(*ret), branch);
	return 0;
}

static int choose_requested(const struct gpus *gpus, const struct coverage *t, const char *version,
			    enum module_type request, char **ret_why, struct err *err)
{
	size_t served = 0;
	for (size_t i = 0; i < gpus->count; i++)
		served += is_display_of_ours(&gpus->items[i]) && gpu_support_serves(&gpus->items[i], version, request);
	if (t->count && !served)
		return t->raw ? err_set(err, E_FLAVOUR, "the %s module type of driver %s does not support %s; %s does",
					module_type_name(request), version, t->list,
					module_type_name((enum module_type)(BOTH & ~request))) :
				err_set(err, E_UNSUPPORTED_GPU, "driver %s does not support %s", version, t->list);
	*ret_why = str_fmt("%s was requested", module_type_name(request));
	return 0;
}

int gpu_support_choose(const struct gpus *gpus, const char *driver_version, enum module_type request,
		       unsigned available, enum module_type *ret, char **ret_why, struct err *err)
{
	static const struct gpus none;
	const struct gpus *here = gpus ? gpus : &none;
	enum module_type flavour = request;
	auto_str char *why = NULL;
	unsigned branch = gpu_driver_branch(driver_version);
	if (!branch) {
		err_set(err, E_USAGE, "'%s' is not a driver version", driver_version);
		return err_next(
			err, "name one exactly, such as 535.261.03; `kmodsmith install` and `plan` also take a branch, "
			     "such as 535, or latest");
	}
	if (!available || (request != MODULE_TYPE_AUTO && !(available & request)))
		return err_set(err, E_FLAVOUR, "the %s module type of driver %s is not available",
			       module_type_name(request), driver_version);
	__attribute__((cleanup(coverage_done))) struct coverage t = count_coverage(here, branch, available);
	int r = request == MODULE_TYPE_AUTO ? choose_auto(&t, driver_version, branch, &flavour, &why, err) :
					      choose_requested(here, &t, driver_version, request, &why, err);
	if (r < 0)
		return -1;
	auto_str char *left = gpu_support_left(here, driver_version, flavour);
	if (left)
		str_add(&why, "; GPUs left without a driver: %s", left);
	*ret = flavour;
	if (ret_why)
		*ret_why = TAKE(why);
	return 0;
}

// Of all GPUs here.
static struct span find_span(const struct gpus *gpus)
{
	struct span all = { 0, UINT_MAX, BOTH };
	for (size_t i = 0; i < gpus->count; i++)
		if (is_display_of_ours(&gpus->items[i]))
			narrow_span(&all, find_generation(gpus->items[i].device));
	return all;
}

char *gpu_support_text(const struct gpus *gpus)
{
	const struct span all = find_span(gpus);
	char *text = str_dup(all.flavours == BOTH             ? "open or proprietary modules" :
			     all.flavours == MODULE_TYPE_OPEN ? "open modules only" :
								"proprietary modules only");
	if (all.first)
		str_add(&text, ", branch %u or newer", all.first);
	if (all.last != UINT_MAX)
		str_add(&text, ", branches up to %u", all.last);
	return text;
}

char *gpu_support_mixed(const struct gpus *gpus)
{
	const struct span all = find_span(gpus);
	__attribute__((cleanup(coverage_done))) struct coverage t = { 0 };
	if (!is_span_empty(&all))
		return NULL;
	for (size_t i = 0; i < gpus->count; i++)
		if (is_display_of_ours(&gpus->items[i]))
			list_gpu(&t, &gpus->items[i]);
	end_list(&t);
	return TAKE(t.list);
}
