// SPDX-License-Identifier: Apache-2.0
#include "precompiled/payload/install_path.h"

#include "precompiled/payload/merge_tree.h"
#include "precompiled/payload/runfile.h"
#include "tests/unit/test.h"

#define V "535.261.03"
#define LIB "usr/lib/x86_64-linux-gnu/"

static void test_files_of_packages(void **state)
{
	(void)state;
	static const struct {
		const char *path, *place;
	} rows[] = {
		{ LIB "nvidia/current/libcuda.so." V, LIB "libcuda.so." V },
		{ LIB "nvidia/tesla-535/libcuda.so.1", LIB "libcuda.so.1" },
		{ LIB "nvidia/current/libvdpau_nvidia.so.1", LIB "vdpau/libvdpau_nvidia.so.1" },
		{ LIB "nvidia/current/nvidia-drm_gbm.so", LIB "gbm/nvidia-drm_gbm.so" },
		{ LIB "nvidia/current/nvoptix.bin", "usr/share/nvidia/nvoptix.bin" },
		{ LIB "nvidia/xorg/libglx.so", LIB "nvidia/xorg/libglx.so" },
		{ "usr/lib/nvidia/current/nvidia-smi", "usr/bin/nvidia-smi" },
		{ "usr/lib/nvidia/current/nvidia-smi.1.gz", NULL },
		{ "usr/lib/nvidia/current/nvidia_drv.so", "usr/lib/xorg/modules/drivers/nvidia_drv.so" },
		{ "usr/lib/nvidia/current/libglxserver_nvidia.so." V,
		  "usr/lib/xorg/modules/extensions/libglxserver_nvidia.so." V },
		{ "usr/lib/nvidia/current/libother.so", "usr/lib/nvidia/current/libother.so" },
		{ "usr/lib/nvidia/current/nvidia.ids", "usr/lib/nvidia/current/nvidia.ids" },
		{ "etc/nvidia/current/nvidia-drm-outputclass.conf",
		  "usr/share/X11/xorg.conf.d/nvidia-drm-outputclass.conf" },
		{ "etc/nvidia/current/nvidia-modprobe.conf", "etc/nvidia/current/nvidia-modprobe.conf" },
		{ "usr/lib64/libcuda.so.1", "usr/lib64/libcuda.so.1" },
		{ "lib/firmware/nvidia/" V "/gsp_ga10x.bin", "usr/lib/firmware/nvidia/" V "/gsp_ga10x.bin" },
		{ "lib64/ld-linux-x86-64.so.2", "usr/lib64/ld-linux-x86-64.so.2" },
		{ "sbin/modprobe", "usr/sbin/modprobe" },
		{ "library/x", "library/x" },
		{ "usr/src/nvidia-" V "/kernel-open/Kbuild", "usr/src/nvidia-" V "/kernel-open/Kbuild" },
		{ "usr/src/nvidia-open-" V "/Kbuild", "usr/src/nvidia-" V "/kernel-open/Kbuild" },
		{ "usr/src/nvidia-current-" V "/nvidia/nv.c", "usr/src/nvidia-" V "/kernel/nvidia/nv.c" },
		{ "usr/src/nvidia-550.54.14/Kbuild", "usr/src/nvidia-550.54.14/Kbuild" },
		{ "usr/share/doc/libcuda1/copyright", "usr/share/doc/libcuda1/copyright" },
		{ "usr/share/doc/libcuda1/changelog.gz", NULL },
		{ "lib/systemd/system/nvidia-persistenced.service", NULL },
		{ "etc/alternatives/nvidia", NULL },
		{ "etc/ld.so.cache", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *place = install_path_of(rows[i].path, V);
		expect(rows[i].place ? str_eq(place, rows[i].place) : !place, rows[i].path);
	}
}

static char *of_package(const void *ctx, const char *path)
{
	return install_path_of(path, ctx);
}

static void test_links(void **state)
{
	(void)state;
	const struct merge_tree_source part = { .place = of_package, .ctx = V };
	static const struct {
		const char *path, *target, *wanted;
	} rows[] = {
		{ LIB "nvidia/current/libcuda.so", "libcuda.so.1", "libcuda.so.1" },
		{ LIB "libcuda.so.1", "nvidia/current/libcuda.so." V, "libcuda.so." V },
		{ LIB "libcuda.so.1", "nvidia/current/libcuda.so.1", NULL }, // itself, when both are in one place
		{ "usr/bin/nvidia-smi", "/etc/alternatives/nvidia--nvidia-smi", NULL },
		{ "lib/x86_64-linux-gnu/libz.so", "/lib/x86_64-linux-gnu/libz.so.1", "libz.so.1" },
		{ "lib/x86_64-linux-gnu/libz.so", "../../usr/lib/libz.so.1", "../libz.so.1" },
		{ "bin/sh", "../../../../bin/dash", "dash" },
		{ "lib", "usr/lib", "usr/lib" },
		{ "etc/mtab", "/proc/self/mounts", "../proc/self/mounts" },
		{ "usr/x/up", "..", "../../usr" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *place = install_path_of(rows[i].path, V);
		auto_str char *found = merge_tree_link_target(&part, rows[i].path, rows[i].target, place);
		if (rows[i].wanted ? !str_eq(found, rows[i].wanted) : found != NULL)
			fail_msg("%s -> %s: %s", rows[i].path, rows[i].target, found ? found : "(none)");
	}
}

#define HEAD "NVIDIA\r\n" V "\r\n1\nnvidia\n\n5\n6\n7\n8\n"

static void test_manifest(void **state)
{
	(void)state;
	static const struct {
		const char *line, *file, *place, *target; // place NULL = nothing; "" = refused
	} rows[] = {
		{ "libcuda.so." V " 0755 CUDA_LIB NATIVE ./ MODULE:x", "libcuda.so." V, LIB "libcuda.so." V, NULL },
		{ "libvdpau_nvidia.so." V " 0755 VDPAU_LIB NATIVE vdpau", "libvdpau_nvidia.so." V,
		  LIB "vdpau/libvdpau_nvidia.so." V, NULL },
		{ "libcuda.so.1 0000 CUDA_SYMLINK NATIVE / libcuda.so." V, NULL, LIB "libcuda.so.1", "libcuda.so." V },
		{ "nvidia-drm_gbm.so 0000 GBM_BACKEND_LIB_SYMLINK NATIVE libnvidia-allocator.so.1", NULL,
		  LIB "gbm/nvidia-drm_gbm.so", "../libnvidia-allocator.so.1" },
		{ "firmware/a/gsp.bin 0644 FIRMWARE INHERIT_PATH_DEPTH:1", "firmware/a/gsp.bin",
		  "usr/lib/firmware/nvidia/" V "/a/gsp.bin", NULL },
		{ "kernel/nvidia/nv.c 0644 KERNEL_MODULE_SRC INHERIT_PATH_DEPTH:1", "kernel/nvidia/nv.c",
		  "usr/src/nvidia-" V "/kernel/nvidia/nv.c", NULL },
		{ "nvidia_icd.json 0644 VULKAN_ICD_JSON icd.d/", "nvidia_icd.json", "etc/vulkan/icd.d/nvidia_icd.json",
		  NULL },
		{ "nvidia-modprobe 4755 NVIDIA_MODPROBE /usr/bin", "nvidia-modprobe", "usr/bin/nvidia-modprobe", NULL },
		{ "x 0755 EXPLICIT_PATH /lib/y", "x", "usr/lib/y/x", NULL },
		{ "32/libcuda.so." V " 0755 CUDA_LIB COMPAT32 /", NULL, NULL, NULL },
		{ "nvidia-smi.1.gz 0644 MANPAGE man1", NULL, NULL, NULL },
		{ "LICENSE 0644 DOCUMENTATION NVIDIA_GLX-1.0 MODULE:installer", "LICENSE",
		  "usr/share/doc/NVIDIA_GLX-1.0/LICENSE", NULL },
		{ "supported-gpus/LICENSE 0644 DOCUMENTATION NVIDIA_GLX-1.0/supported-gpus", "supported-gpus/LICENSE",
		  "usr/share/doc/NVIDIA_GLX-1.0/supported-gpus/LICENSE", NULL },
		{ "supported-gpus/supported-gpus.json 0644 DOCUMENTATION NVIDIA_GLX-1.0/supported-gpus",
		  "supported-gpus/supported-gpus.json",
		  "usr/share/doc/NVIDIA_GLX-1.0/supported-gpus/supported-gpus.json", NULL },
		{ "html/LICENSE.html 0644 DOCUMENTATION NVIDIA_GLX-1.0/html", NULL, NULL, NULL },
		{ "README.txt 0644 DOCUMENTATION NVIDIA_GLX-1.0", NULL, NULL, NULL },
		{ "x 0644 SOMETHING_NEW", NULL, NULL, NULL },
		{ "x 0644", NULL, "", NULL },
		{ "x 0755 CUDA_LIB OTHER /", NULL, "", NULL },
		{ "x 0755 CUDA_LIB NATIVE", NULL, "", NULL },
		{ "x 0000 CUDA_SYMLINK NATIVE /", NULL, "", NULL },
		{ "x 0755 EXPLICIT_PATH /usr/../../etc", NULL, "", NULL },
		{ "f/x 0644 FIRMWARE INHERIT_PATH_DEPTH:9", NULL, "", NULL },
		{ "f/x 0644 FIRMWARE", NULL, "", NULL },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_str char *text = str_fmt(HEAD "%s\n", rows[i].line);
		auto_runfile struct runfile r = { 0 };
		struct err err = { 0 };
		bool is_refused = rows[i].place && !*rows[i].place, is_entry = rows[i].place && *rows[i].place;
		expect(runfile_parse(text, "driver.run", "x86_64-linux-gnu", &r, &err) == (is_refused ? -1 : 0),
		       rows[i].line);
		expect(!is_refused || (err.code == E_PAYLOAD && strstr(err.text, "line 9")), rows[i].line);
		expect(r.count == is_entry, rows[i].line);
		if (!is_entry)
			continue;
		expect(str_eq(r.version, V) && str_eq(r.items[0].place, rows[i].place), r.items[0].place);
		expect(rows[i].file ? str_eq(r.items[0].file, rows[i].file) : !r.items[0].file, rows[i].line);
		expect(rows[i].target ? str_eq(r.items[0].target, rows[i].target) : !r.items[0].target, rows[i].line);
	}
}

static void test_no_manifest(void **state)
{
	(void)state;
	static const char *const texts[] = { "", "a\nb\nc\n", "a\nno version\n3\n4\n5\n6\n7\n8\nx 0644 MANPAGE x\n" };
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		auto_runfile struct runfile r = { 0 };
		struct err err = { 0 };
		expect(runfile_parse(texts[i], "driver.run", "x86_64-linux-gnu", &r, &err) < 0, texts[i]);
		assert_int_equal(err.code, E_PAYLOAD);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files_of_packages),
		cmocka_unit_test(test_links),
		cmocka_unit_test(test_manifest),
		cmocka_unit_test(test_no_manifest),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
