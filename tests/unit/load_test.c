// SPDX-License-Identifier: Apache-2.0
#include "kmod/load/load.h"

#include "tests/unit/forge.h"
#include "tests/unit/test.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

// R-K1. The lines are those of Debian's 6.1 and 6.12 kernels and of the NVIDIA driver 535, seen with the real modules;
// "already bound to" is of newer drivers.
static void test_reasons(void **state)
{
	(void)state;
	static const struct {
		int error;
		const char *lines; // separated by newlines
		int code;
		const char *quote;
	} rows[] = {
		{ EKEYREJECTED, "Loading of unsigned module is rejected", E_SIGNING_REQUIRED, "unsigned module" },
		{ EKEYREJECTED, "Loading of module with unavailable key is rejected", E_KEY_UNKNOWN,
		  "unavailable key" },
		{ EKEYREJECTED, "Loading of module with unsupported crypto is rejected", E_SIGNATURE_HASH, "crypto" },
		{ EKEYREJECTED, "PKCS7: Invalid module sig (has authattrs)", E_SIGNATURE_BAD, "attributes" },
		{ EKEYREJECTED, "PKCS7: S/MIME Caps only allowed with Authenticode", E_SIGNATURE_BAD, "S/MIME" },
		{ EKEYREJECTED, "", E_SIGNATURE_BAD, "(EKEYREJECTED)" },
		{ ENOKEY, "", E_KEY_UNKNOWN, "(ENOKEY)" },
		{ ENOPKG, "", E_SIGNATURE_HASH, "" },
		{ EBADMSG, "", E_SIGNATURE_BAD, "" },
		{ EPERM, "Lockdown: insmod: unsigned module loading is restricted; see man kernel_lockdown.7",
		  E_LOCKDOWN, "unsigned module loading is restricted" },
		{ EPERM, "LoadPin: kernel-module denied obj=\"/tmp/nvidia.ko\" pid=9 cmdline=\"x\"", E_SELINUX,
		  "LoadPin" },
		{ EPERM, "LoadPin: kernel-module old-api-denied obj=<unknown> pid=9", E_SELINUX, "old-api-denied" },
		{ EPERM, "sysctl kernel.modules_disabled = 1", E_LOAD, "switched off until the next boot" },
		{ EPERM, "Module nvidia is blacklisted", E_LOAD, "the kernel command line forbids it" },
		{ EPERM, "", E_RIGHTS, "CAP_SYS_MODULE" },
		{ EACCES,
		  "audit: type=1400 audit(1.2:3): avc:  denied  { module_load } for pid=7 comm=\"k\" "
		  "path=\"/store/nvidia.ko\"",
		  E_SELINUX, "module_load" },
		{ EACCES,
		  "audit: type=1400 audit(1.2:3): avc:  denied  { module_load } for pid=7 comm=\"k\" path=\"/n.ko\" "
		  "scontext=system_u:system_r:container_t:s0:c1,c2 tcontext=system_u:object_r:container_file_t:s0 "
		  "tclass=system permissive=0",
		  E_SELINUX, "missing: allow container_t container_file_t:system { module_load }; kernel: audit" },
		{ EACCES, "avc:  denied  { module_load } scontext=a:b tcontext=c tclass=system", E_SELINUX,
		  "SELinux forbids it: kernel: avc" },
		{ EACCES, "avc:  denied  { module_load", E_SELINUX, "SELinux forbids it: kernel: avc" },
		{ EACCES, "audit: type=1400 audit(1.2:3): apparmor=\"DENIED\" operation=\"open\"", E_SELINUX,
		  "DENIED" },
		{ EACCES, "audit: type=1800 audit(1.2:3): op=appraise_data cause=IMA-signature-required", E_SELINUX,
		  "IMA" },
		{ EACCES, "", E_SELINUX, "security module" },
		{ ENOEXEC, "nvidia: disagrees about version of symbol module_layout", E_ABI, "module_layout" },
		{ ENOEXEC, "nvidia: version magic '6.1.0-50 SMP ' should be '6.1.0-56 SMP '", E_ABI,
		  "should be '6.1.0-56" },
		{ ENOEXEC,
		  "module nvidia: .gnu.linkonce.this_module section size must match the kernel's built struct module "
		  "size at "
		  "run time",
		  E_ABI, "section size must match" },
		{ ENOEXEC, "Invalid ELF section header overflow", E_ELF, "overflow" },
		{ ENOEXEC, "Invalid ELF header len 13", E_ELF, "header len" },
		{ ENOEXEC, "nvidia: module has no symbols (stripped?)", E_ELF, "stripped" },
		{ ENOEXEC, "`nvidia' likely not compiled with -mcmodel=kernel", E_ABI, "mcmodel" },
		{ ENOEXEC, "nvidia: exports duplicate symbol nv_open (owned by other)", E_LOAD, "owned by other" },
		{ ENOEXEC, "", E_ELF, "" },
		{ EINVAL, "nvidia: no symbol version for kfree", E_ABI, "no symbol version for kfree" },
		{ EINVAL,
		  "nvidia_uvm: disagrees about version of symbol nvUvmX\nnvidia_uvm: Unknown symbol nvUvmX (err -22)",
		  E_ABI, "disagrees" },
		{ EINVAL, "nvidia: module uses symbol (x) from namespace DMA_BUF, but does not import it.", E_SYMBOL,
		  "DMA_BUF" },
		{ EINVAL, "nvidia_peermem: module compiled without IB peer memory symbols present", E_SYMBOL,
		  "IB peer memory" },
		{ EINVAL, "nvidia: `x' invalid for parameter `NVreg_Y'", E_PARAM, "NVreg_Y" },
		{ EINVAL, "failed to validate module [nvidia] BTF: -22", E_ABI, "BTF" },
		{ EINVAL, "something new", E_LOAD, "something new" },
		{ ERANGE, "nvidia: `9' invalid for parameter `NVreg_Y'", E_PARAM, "NVreg_Y" },
		{ ENOSPC, "nvidia: `9' too large for parameter `NVreg_Y'", E_PARAM, "too large" },
		{ ENOENT, "nvidia_uvm: Unknown symbol nvUvmInterfaceRegister (err -2)", E_SYMBOL,
		  "nvUvmInterfaceRegister" },
		{ ENODEV, "NVRM: No NVIDIA GPU found.", E_NO_DEVICE, "No NVIDIA GPU found" },
		{ ENODEV, "NVRM: GPU 0000:01:00.0 is already bound to vfio-pci.\nNVRM: No NVIDIA devices probed.",
		  E_BOUND, "vfio-pci" },
		{ ENODEV,
		  "NVRM: The NVIDIA probe routine was not called for 1 device(s).\nNVRM: This can occur when a driver "
		  "such as: "
		  "nouveau",
		  E_BOUND, "was not called" },
		{ ENODEV,
		  "NVRM: The NVIDIA GPU 0000:40:00.0 (PCI ID: 10de:1bb3) installed in this system is not supported by "
		  "open "
		  "nvidia.ko because it does not include the required GPU System Processor (GSP).\nnvidia: probe of "
		  "0000:40:00.0 failed with error -1\nNVRM: The NVIDIA probe routine failed for 1 device(s).\nNVRM: "
		  "None of the "
		  "NVIDIA devices were initialized.",
		  E_UNSUPPORTED_GPU, "10de:1bb3" },
		{ ENODEV,
		  "NVRM: The NVIDIA GPU 0000:40:00.0 (PCI ID: 10de:2901) installed in this system is not supported by "
		  "the NVIDIA "
		  "535.261.03 driver release.",
		  E_UNSUPPORTED_GPU, "10de:2901" },
		{ ENODEV, "NVRM: ignoring the legacy GPU 0000:40:00.0", E_UNSUPPORTED_GPU, "legacy" },
		{ ENODEV, "NVRM: Ignoring probe for VF 0000:40:00.4", E_UNSUPPORTED_GPU, "VF" },
		{ ENODEV,
		  "NVRM: The NVIDIA GPU 0000:40:00.0 (PCI ID: 10de:2330) installed in this system has fallen off the "
		  "bus and is "
		  "not responding to commands.\nNVRM: None of the NVIDIA devices were initialized.",
		  E_NO_DEVICE, "fallen off the bus" },
		{ ENODEV,
		  "NVRM: Can't find an IRQ for your NVIDIA card!\nNVRM: The NVIDIA probe routine was not called for 1",
		  E_NO_DEVICE, "IRQ" },
		{ ENODEV, "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid: BAR0 is 0M @ 0x0",
		  E_NO_DEVICE, "BAR0" },
		{ ENODEV, "NVRM: request_mem_region failed for 16M @ 0xe0000000.", E_BOUND, "16M" },
		{ ENODEV, "NVRM: None of the NVIDIA devices were initialized.", E_NO_DEVICE, "None of" },
		{ ENODEV, "", E_NO_DEVICE, "no device to drive" },
		{ EEXIST, "sysfs: cannot create duplicate filename '/bus/pci/drivers/nvidia'", E_LOAD, "duplicate" },
		{ EBUSY, "", E_IN_USE, "" },
		{ EIO, "NVRM: RmInitAdapter failed! (0x61:0x56:1603)", E_NO_DEVICE, "" },
		{ ENOMEM, "", E_SYSTEM, "no memory" },
		{ EDOM, "nvidia: unheard of\nother line", E_LOAD, "nvidia: unheard of" },
	};
	assert_true(ARRAY_SIZE(rows) >= 30);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_strv struct strv lines = { 0 };
		auto_str char *row = str_fmt("%s '%s'", strerrorname_np(rows[i].error), rows[i].lines);
		strv_split(&lines, rows[i].lines, "\n");
		expect(load_explain("nvidia", rows[i].error, &lines, &err) == -1, row);
		expect(err.code == rows[i].code, row);
		expect(strstr(err.text, rows[i].quote) && str_starts(err.text, "load 'nvidia': "), err.text);
		expect(strstr(err.text, strerrorname_np(rows[i].error)), err.text);
	}
}

static const struct forge_symver nv_exports[] = { { "nv_open", 1, NULL, false }, { 0 } };
static const struct forge_symver uses_nv[] = { { "nv_open", 1, NULL, false }, { 0 } };

static void make(const struct forge_module *ko, struct module *m)
{
	struct err err;
	size_t len;
	char *data = forge_ko(ko, &len);
	assert_int_equal(module_parse(data, len, ko->name, m, &err), 0);
}

// The names say nothing about the order; what they need does.
static void test_order(void **state)
{
	(void)state;
	static const struct {
		struct forge_module ko[4];
		const char *want; // names in order; NULL = a circle
	} rows[] = {
		{ { { .name = "a" }, { .name = "b" } }, "a b" },
		{ { { .name = "uvm", .depends = "nvidia" }, { .name = "nvidia" } }, "nvidia uvm" },
		{ { { .name = "drm", .depends = "nvidia-modeset,nvidia" },
		    { .name = "nvidia_modeset", .depends = "nvidia" },
		    { .name = "nvidia" },
		    { .name = "other" } },
		  "nvidia nvidia_modeset drm other" },
		{ { { .name = "uvm", .imports = uses_nv }, { .name = "nvidia", .exports = nv_exports } },
		  "nvidia uvm" },
		{ { { .name = "a", .depends = "b" }, { .name = "b", .depends = "a" } }, NULL },
		{ { { .name = "a", .depends = "elsewhere" } }, "a" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		struct module modules[4];
		const struct module *set[4];
		size_t order[4], count = 0;
		auto_str char *got = NULL;
		for (; count < 4 && rows[i].ko[count].name; count++) {
			make(&rows[i].ko[count], &modules[count]);
			set[count] = &modules[count];
		}
		int r = load_order(set, count, order, &err);
		for (size_t j = 0; r == 0 && j < count; j++)
			str_add(&got, "%s%s", j ? " " : "", set[order[j]]->name);
		for (size_t j = 0; j < count; j++)
			module_done(&modules[j]);
		expect(r == (rows[i].want ? 0 : -1), rows[i].want);
		expect(rows[i].want ? str_eq(got, rows[i].want) : err.code == E_SYMBOL, got);
	}
}

// A kernel of our own: what it answers, and what it was asked. Shared, because the calls are made by a child.
static struct fake {
	int file_errno, data_errno;
	const char *log_line; // added to the log by a load that fails
	char log[128];
	int file_calls, data_calls;
	bool is_odd; // a call got what it should not get
	char params[64];
	size_t data_len;
} * fake;

static int answer(int error)
{
	auto_fd int log = error && fake->log_line ? open(fake->log, O_WRONLY | O_APPEND) : -1;
	if (log >= 0)
		fake->is_odd |= write(log, fake->log_line, strlen(fake->log_line)) <= 0;
	errno = error;
	return error ? -1 : 0;
}

static int fake_file(const struct sys *sys, int fd, const char *name, const char *params)
{
	(void)sys, (void)name;
	struct stat st;
	fake->is_odd |= fstat(fd, &st) < 0 || fcntl(fd + 1, F_GETFD) >= 0; // the module's file, and nothing else
	fake->file_calls++;
	snprintf(fake->params, sizeof(fake->params), "%s", params);
	return answer(fake->file_errno);
}

static int fake_data(const struct sys *sys, const void *data, size_t len, const char *name, const char *params)
{
	(void)sys, (void)name, (void)params;
	fake->is_odd |= memcmp(data, ELFMAG, SELFMAG) != 0;
	fake->data_calls++;
	fake->data_len = len;
	return answer(fake->data_errno);
}

// What errno holds besides is nothing to whoever succeeded.
static int fake_unload(const struct sys *sys, const char *name)
{
	(void)sys, (void)name;
	errno = EBUSY;
	return fake->file_errno ? -1 : 0;
}

static const struct sys fake_sys = {
	.name = "fake", .module_load_file = fake_file, .module_load_data = fake_data, .module_unload = fake_unload
};

static void read_module(bool is_file, struct module *m)
{
	struct err err;
	size_t len;
	struct forge_module ko = { .name = "nvidia", .vermagic = "6.1" };
	char *data = forge_ko(&ko, &len);
	if (!is_file) {
		assert_int_equal(module_parse(data, len, "nvidia.ko", m, &err), 0);
		return;
	}
	auto_fd int fd = memfd_create("nvidia.ko", MFD_CLOEXEC);
	assert_int_equal(write(fd, data, len), len);
	free(data);
	assert_int_equal(module_read(fd, "nvidia.ko", m, &err), 0);
}

static void machine(struct folder *f)
{
	folder_make(f);
	folder_dir(f, "dev");
	folder_dir(f, "sys/module");
	folder_dir(f, "proc/sys/kernel");
	folder_file(f, "proc/sys/kernel/modules_disabled", "0\n");
	folder_file(f, "dev/kmsg", "4,1,1,-;nvidia: disagrees about version of symbol from_before\n");
	if (!fake)
		fake = mmap(NULL, sizeof(*fake), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(fake != MAP_FAILED);
	memset(fake, 0, sizeof(*fake));
	snprintf(fake->log, sizeof(fake->log), "%s/dev/kmsg", f->path);
}

// R-N1, R-C4, R-R3: the other way is tried where it may do better, and only there.
static void test_ways(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		bool is_file;
		int file_errno, data_errno;
		const char *line;
		int want, code, file_calls, data_calls;
	} rows[] = {
		{ "by file", true, 0, 0, NULL, 1, 0, 1, 0 },
		{ "from memory", false, 0, 0, NULL, 1, 0, 0, 1 },
		{ "label on the file", true, EACCES, 0, "5,2,2,-;audit: avc:  denied  { module_load }\n", 1, 0, 1, 1 },
		{ "policy on the file", true, EPERM, 0, "5,2,2,-;LoadPin: kernel-module denied obj=x\n", 1, 0, 1, 1 },
		{ "old kernel", true, ENOSYS, 0, NULL, 1, 0, 1, 1 },
		{ "both forbidden", true, EACCES, EACCES, "5,2,2,-;audit: avc:  denied  { module_load }\n", -1,
		  E_SELINUX, 1, 1 },
		{ "lockdown", true, EPERM, 0, "5,2,2,-;Lockdown: k: unsigned module loading is restricted\n", -1,
		  E_LOCKDOWN, 1, 0 },
		{ "no rights", true, EPERM, EPERM, NULL, -1, E_RIGHTS, 1, 1 },
		{ "other kernel", true, ENOEXEC, 0, "4,2,2,-;nvidia: disagrees about version of symbol x\n", -1, E_ABI,
		  1, 0 },
		{ "damaged", false, 0, ENOEXEC, "3,2,2,-;Invalid ELF header len 3\n", -1, E_ELF, 0, 1 },
		{ "only old lines", true, ENOEXEC, 0, NULL, -1, E_ELF, 1, 0 },
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = { 0 };
		auto_folder struct folder f;
		auto_module struct module m = MODULE_NONE;
		machine(&f);
		read_module(rows[i].is_file, &m);
		fake->file_errno = rows[i].file_errno;
		fake->data_errno = rows[i].data_errno;
		fake->log_line = rows[i].line;
		expect(load_module(&fake_sys, &f.root, &m, NULL, 0, &err) == rows[i].want, rows[i].name);
		expect(err.code == rows[i].code, rows[i].name);
		expect(fake->file_calls == rows[i].file_calls && fake->data_calls == rows[i].data_calls, rows[i].name);
		expect(!fake->is_odd, rows[i].name);
		expect(!fake->data_calls || fake->data_len == m.len, rows[i].name);
		expect(!strstr(err.text, "from_before"), err.text);
	}
}

// No process can be made: the load itself needs none.
static void test_without_a_process(void **state)
{
	(void)state;
	struct err err = { 0 };
	int status;
	auto_folder struct folder f;
	auto_module struct module m = MODULE_NONE;
	const struct rlimit none = { 0 };
	machine(&f);
	read_module(true, &m);
	pid_t child = fork();
	if (child == 0) {
		bool is_ready = setrlimit(RLIMIT_NPROC, &none) == 0 && (geteuid() != 0 || setuid(65534) == 0);
		_exit(is_ready && fork() < 0 && load_module(&fake_sys, &f.root, &m, "a=1", 0, &err) == 1 ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_int_equal(fake->file_calls, 1);
	assert_string_equal(fake->params, "a=1");
}

static void test_an_unload_that_succeeds(void **state)
{
	(void)state;
	static const int timeouts_ms[] = { 0, 20000 };
	for (size_t i = 0; i < ARRAY_SIZE(timeouts_ms); i++) {
		struct err err = { 0 };
		auto_folder struct folder f;
		machine(&f);
		assert_int_equal(unload_module(&fake_sys, &f.root, "nvidia", timeouts_ms[i], &err), 1);
		fake->file_errno = EBUSY;
		assert_int_equal(unload_module(&fake_sys, &f.root, "nvidia", timeouts_ms[i], &err), -1);
		assert_int_equal(err.code, E_IN_USE);
	}
}

static void test_params(void **state)
{
	(void)state;
	struct err err;
	auto_folder struct folder f;
	auto_module struct module m = MODULE_NONE;
	machine(&f);
	read_module(true, &m);
	assert_int_equal(load_module(&fake_sys, &f.root, &m, "NVreg_A=1 NVreg_B=2", 0, &err), 1);
	assert_string_equal(fake->params, "NVreg_A=1 NVreg_B=2");
}

static void test_exists(void **state)
{
	(void)state;
	struct err err;
	auto_folder struct folder f;
	auto_module struct module m = MODULE_NONE;
	machine(&f);
	read_module(true, &m);
	fake->file_errno = EEXIST;
	// The module's own start failed with EEXIST: it is not there.
	fake->log_line = "4,2,2,-;sysfs: cannot create duplicate filename '/bus/pci/drivers/nvidia'\n";
	assert_int_equal(load_module(&fake_sys, &f.root, &m, NULL, 0, &err), -1);
	assert_int_equal(err.code, E_LOAD);
	folder_dir(&f, "sys/module/nvidia");
	assert_int_equal(load_module(&fake_sys, &f.root, &m, NULL, 0, &err), 0);
}

static void test_modules_disabled(void **state)
{
	(void)state;
	struct err err;
	auto_folder struct folder f;
	auto_module struct module m = MODULE_NONE;
	machine(&f);
	folder_file(&f, "proc/sys/kernel/modules_disabled", "1\n");
	read_module(true, &m);
	fake->file_errno = fake->data_errno = EPERM;
	assert_int_equal(load_module(&fake_sys, &f.root, &m, NULL, 0, &err), -1);
	assert_int_equal(err.code, E_LOAD);
	assert_non_null(strstr(err.text, "until the next boot"));
}

// The recorder of a recorded machine makes what a kernel would make.
static void test_recorded(void **state)
{
	(void)state;
	struct err err = { 0 };
	auto_folder struct folder f;
	auto_module struct module m = MODULE_NONE;
	machine(&f);
	struct sys sys = sys_recorder(&f.root);
	read_module(true, &m);
	assert_int_equal(load_module(&sys, &f.root, &m, "a=1", 0, &err), 1);
	assert_int_equal(load_module(&sys, &f.root, &m, "a=1", 0, &err), 0);
	assert_int_equal(unload_module(&sys, &f.root, "nvidia", 0, &err), 1);
	assert_int_equal(unload_module(&sys, &f.root, "nvidia", 0, &err), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reasons),  cmocka_unit_test(test_order),
		cmocka_unit_test(test_ways),     cmocka_unit_test(test_an_unload_that_succeeds),
		cmocka_unit_test(test_params),   cmocka_unit_test(test_without_a_process),
		cmocka_unit_test(test_exists),   cmocka_unit_test(test_modules_disabled),
		cmocka_unit_test(test_recorded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
