// SPDX-License-Identifier: Apache-2.0
// The module files of one package, read together.
#pragma once
#include "base/file/root.h"
#include "kmod/module/elf.h"

// The modules that are loaded by default.
enum { DEFAULT_MODULES = 3 };
extern const char *const default_modules[DEFAULT_MODULES];

// name, with '-' or '_', must be a module of NVIDIA's driver; E_USAGE lists them. what: "--modules".
int module_set_check_name(const char *what, const char *name, struct err *err);

struct module_set {
	struct module *items;
	const struct module **pointers; // to items, for functions that take a list
	size_t count;
};

// Reads names in dir, in that order.
int module_set_read(const struct root *dir, const struct strv *names, struct module_set *ret, struct err *err);
void module_set_done(struct module_set *set);
#define auto_module_set __attribute__((cleanup(module_set_done)))
char *module_set_name(const struct module_set *set, size_t i); // as in its file name: "nvidia-uvm"
