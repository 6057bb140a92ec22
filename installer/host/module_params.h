// SPDX-License-Identifier: Apache-2.0
// Parameters of the driver's modules, from the weakest source to the strongest:
//   what this program sets by itself on some machines (defaults), the host's modprobe.d `options`,
//   the kernel command line (module.name=value), /drivers/MODULE.conf of the pod (contract 1.10), --param
//   MODULE:NAME=VALUE.
// A stronger source replaces the value of a weaker one for the same module and name. Module names are canonical
// ("nvidia_uvm").
#pragma once
#include "host/modules.h"
#include "kmod/module/elf.h"

enum param_source { PARAM_DEFAULT, PARAM_MODPROBE, PARAM_CMDLINE, PARAM_DRIVERS, PARAM_OPTION };

struct module_param {
	char *module; // "nvidia"
	char *name;   // "NVreg_DeviceFileMode"
	char *value;  // without the quotes that protected blanks; NULL = a bare name
	enum param_source source;
	char *where; // file, "kernel command line" or "--param"; of a default: why it is one
};

struct module_params {
	struct module_param *items; // in the order of their first appearance
	size_t count;
	struct strv blacklist; // canonical names of what the host does not load by itself
	struct strv forbidden; // what the running kernel refuses, whoever loads it
	struct strv skipped;   // what is no file in the places where files are read, a sentence each
};

void module_params_done(struct module_params *p);
#define auto_module_params __attribute__((cleanup(module_params_done)))

int module_params_add_option(struct module_params *p, const char *text, struct err *err); // "nvidia:NVreg_X=1"; E_USAGE
// Reads all sources; modprobe.d and the kernel command line as in kmod/load/host_modules.h. self = the root of our own
// container or host, where /drivers is mounted. gpus: the GPUs to choose defaults for; NULL = no defaults. A
// default applies if no other source sets the parameter. A driver that was loaded without it is not reloaded:
// module_params_differing() ignores defaults.
//   nvidia NVreg_CoherentGPUMemoryMode=driver   superchips: the driver manages their memory; it is not a NUMA node of
//                                               the kernel. NVIDIA's driver containers do the same
int module_params_read(const struct root *host, const struct root *kern, const struct root *self,
		       const struct strv *options, const struct gpus *gpus, struct module_params *ret, struct err *err);

// E_LOAD: the kernel will refuse one of the modules, by its own module_blacklist=.
int module_params_check_allowed(const struct module_params *p, const struct strv *modules, struct err *err);

// A load argument without those defaults that the module does not have (no parmtype in .modinfo). Caller frees.
char *module_params_known(const struct module *m, const char *text);

// Splits a load argument, as from module_params_text(), into its NAME=VALUE words.
void module_params_words(const char *text, struct strv *ret);
bool module_params_has(const struct module_params *p, const char *module, const char *name);
// Adds to ret what --param set for a module (canonical name), as "MODULE:NAME=VALUE".
void module_params_options(const struct module_params *p, const char *module, struct strv *ret);
// Whether a value that the kernel shows, or that a module was given, is the requested one in another spelling. Its form
// tells the type: integers compare as kstrtoll() reads them, and 32 bits with a sign as those without, Y and N with
// what kstrtobool() takes; anything else, and what is text by its name, compares as text.
bool module_param_is_same(const char *name, const char *has, const char *requested);
char *module_param_text(const struct module_param *p); // NAME=VALUE, quoted for a load argument. Caller frees.
// The value that the running driver reports in sysfs or procfs; NULL = none.
const char *module_param_shown(const struct module_param *p, const struct modules *loaded);
// Argument of the module load: "NVreg_A=1 NVreg_B=\"a b\""; "" = none. Module under any of its names. Caller frees.
char *module_params_text(const struct module_params *p, const char *module);

// Requested parameters that the loaded modules do not have: "nvidia NVreg_DeviceFileMode: 438, requested 0660"
// (R-D1). Values compare as in module_param_is_same(). Modules that are not loaded are skipped, and so are parameters
// that the running driver does not show (the kernel accepts a misspelt name and never shows it). 1 = some differ, 0
// = none.
int module_params_differing(const struct module_params *p, const struct modules *loaded, struct strv *ret);
