// SPDX-License-Identifier: Apache-2.0
// Why a load failed. One table, read from the top: the first row whose errno and text both fit decides, so that rows
// with text stand before the row that an errno has to itself. Texts are those of the kernel's kernel/module/ and
// security/lockdown/, and of the NVIDIA driver's nv.c and nvidia-uvm.
#include "kmod/load/load.h"

#include <errno.h>

struct reason {
	int error;
	const char *line; // part of a kernel line; NULL = whatever the kernel said
	int code;
	const char *text;
};

static const struct reason reasons[] = {
	// The driver logs each GPU that it gives up, then that none is left: the first line says more.
	{ ENODEV, "already bound to", E_BOUND, "another driver owns the GPU" },
	{ ENODEV, "is not supported by open", E_UNSUPPORTED_GPU, "the open modules do not support the GPU" },
	{ ENODEV, "is not supported by the", E_UNSUPPORTED_GPU, "this driver release does not support the GPU" },
	{ ENODEV, "supported through the NVIDIA", E_UNSUPPORTED_GPU, "only a legacy driver branch supports the GPU" },
	{ ENODEV, "ignoring the legacy GPU", E_UNSUPPORTED_GPU, "only a legacy driver branch supports the GPU" },
	{ ENODEV, "fallen off the bus", E_NO_DEVICE, "the GPU does not answer on its bus" },
	{ ENODEV, "Can't find an IRQ", E_NO_DEVICE, "the GPU has no interrupt" },
	{ ENODEV, "This PCI I/O region assigned", E_NO_DEVICE, "a BAR of the GPU has no usable address" },
	{ ENODEV, "64-bit BAR mapped above", E_NO_DEVICE, "a BAR of the GPU has no usable address" },
	{ ENODEV, "request_mem_region failed", E_BOUND, "another driver claims the GPU's memory" },
	{ ENODEV, "pci_enable_device failed", E_NO_DEVICE, "the GPU could not be enabled" },
	{ ENODEV, "Ignoring probe for VF", E_UNSUPPORTED_GPU, "a virtual function needs a vGPU driver" },
	{ ENODEV, "probe routine was not called", E_BOUND, "another driver owns the GPU" },
	{ ENODEV, "No NVIDIA GPU found", E_NO_DEVICE, "there is no NVIDIA GPU" },
	{ ENODEV, "None of the NVIDIA devices were initialized", E_NO_DEVICE, "no GPU could be started" },
	{ EINVAL, "without IB peer memory symbols", E_SYMBOL, "built without the InfiniBand peer memory interface" },

	{ EKEYREJECTED, "of unsigned module", E_SIGNING_REQUIRED, "unsigned, and the kernel enforces signatures" },
	{ EKEYREJECTED, "unavailable key", E_KEY_UNKNOWN, "signed by a key that the kernel does not trust" },
	{ EKEYREJECTED, "unsupported crypto", E_SIGNATURE_HASH, "signed with an algorithm that the kernel lacks" },
	{ EKEYREJECTED, "has authattrs", E_SIGNATURE_BAD, "the signature has attributes that the kernel refuses" },
	{ EKEYREJECTED, "S/MIME Caps", E_SIGNATURE_BAD, "the signature has attributes that the kernel refuses" },
	{ EKEYREJECTED, NULL, E_SIGNATURE_BAD, "the content is not what was signed" },
	{ ENOKEY, NULL, E_KEY_UNKNOWN, "signed by a key that the kernel does not trust" },
	{ ENOPKG, NULL, E_SIGNATURE_HASH, "signed with an algorithm that the kernel lacks" },
	{ EBADMSG, NULL, E_SIGNATURE_BAD, "the signature is damaged" },

	{ EPERM, "Lockdown: ", E_LOCKDOWN, "kernel lockdown forbids it" },
	{ EPERM, "LoadPin: kernel-module denied", E_SELINUX,
	  "LoadPin allows modules of one file system only: put the state directory on it" },
	{ EPERM, "LoadPin: kernel-module old-api-denied", E_SELINUX,
	  "LoadPin forbids loading from memory: let the module be a file that is not compressed" },
	{ EPERM, "avc:  denied", E_SELINUX, "SELinux forbids it" },
	{ EPERM, "apparmor=\"DENIED\"", E_SELINUX, "AppArmor forbids it" },
	{ EPERM, "modules_disabled = 1", E_LOAD, "module loading is switched off until the next boot" },
	{ EPERM, "is blacklisted", E_LOAD, "the kernel command line forbids it (module_blacklist=)" },
	{ EPERM, NULL, E_RIGHTS, "CAP_SYS_MODULE is missing" },
	{ EACCES, "avc:  denied", E_SELINUX, "SELinux forbids it" },
	{ EACCES, "apparmor=\"DENIED\"", E_SELINUX, "AppArmor forbids it" },
	{ EACCES, "appraise_data", E_SELINUX, "IMA appraisal forbids it" },
	{ EACCES, NULL, E_SELINUX, "a security module forbids it, and its audit log says why" },

	{ ENOEXEC, "disagrees about version of symbol", E_ABI, "built for another kernel" },
	{ ENOEXEC, "version magic", E_ABI, "built for another kernel" },
	{ ENOEXEC, "section size must match", E_ABI, "built for another kernel" },
	{ ENOEXEC, "no symbol version", E_ABI, "built without the CRCs of what it imports" },
	{ ENOEXEC, "mcmodel=kernel", E_ABI, "compiled without the flags of a kernel module" },
	{ ENOEXEC, "exports duplicate symbol", E_LOAD, "a loaded module exports the same symbols" },
	{ ENOEXEC, "has no symbols", E_ELF, "its symbol table was stripped off" },
	{ ENOEXEC, "Invalid ELF", E_ELF, "the file is damaged" },
	{ ENOEXEC, NULL, E_ELF, "not a module that this kernel understands" },

	{ EINVAL, "no symbol version", E_ABI, "built without the CRCs of what it imports" },
	{ EINVAL, "disagrees about version of symbol", E_ABI, "built against another build of a loaded module" },
	{ EINVAL, "does not import it", E_SYMBOL, "it uses a namespace that it does not import" },
	{ EINVAL, "Unknown symbol", E_SYMBOL, "it needs a symbol that nothing loaded provides" },
	{ EINVAL, "BTF", E_ABI, "its type information is of another kernel" },
	{ EINVAL, "invalid for parameter", E_PARAM, "a module parameter has a bad value" },
	{ ERANGE, "invalid for parameter", E_PARAM, "a module parameter has a bad value" },
	{ ENOSPC, "too large for parameter", E_PARAM, "a module parameter has too large a value" },
	{ ENOENT, "Unknown symbol", E_SYMBOL, "it needs a symbol that nothing loaded provides" },

	{ EEXIST, "cannot create duplicate filename", E_LOAD, "something of the same name exists in the kernel" },
	{ EBUSY, NULL, E_IN_USE, "what it needs is still starting, or is held" },
	{ ETXTBSY, NULL, E_IN_USE, "the file is still open for writing" },
	{ EIO, NULL, E_NO_DEVICE, "the driver could not start its hardware" },
	{ ENODEV, NULL, E_NO_DEVICE, "it found no device to drive" },
	{ ENXIO, NULL, E_NO_DEVICE, "it found no device to drive" },
	{ ENOMEM, NULL, E_SYSTEM, "the kernel has no memory left for it" },
	{ ENOSYS, NULL, E_LOAD, "this kernel loads no modules" },
};

// The first line with this text; NULL = the last line that names the module, else the last line.
static const char *find_line(const struct strv *lines, const char *text, const char *module)
{
	for (size_t i = 0; text && i < lines->count; i++)
		if (strstr(lines->items[i], text))
			return lines->items[i];
	for (size_t i = lines->count; !text && i > 0; i--)
		if (strstr(lines->items[i - 1], module))
			return lines->items[i - 1];
	return !text && lines->count ? lines->items[lines->count - 1] : NULL;
}

// The word behind a key of an audit line, up to a blank; of a context its type: the third of four parts.
static char *audit_word(const char *line, const char *key, bool is_context)
{
	const char *word = strstr(line, key);
	if (!word)
		return NULL;
	word += strlen(key);
	size_t len = strcspn(word, " ");
	auto_str char *whole = str_ndup(word, len);
	if (!is_context)
		return TAKE(whole);
	auto_strv struct strv parts = { 0 };
	strv_split(&parts, whole, ":");
	return parts.count < 3 ? NULL : str_dup(parts.items[2]);
}

// SELinux: what audit2allow would make of the line (R-N1). NULL = it is no whole line of that kind.
static char *missing_rule(const char *line)
{
	const char *avc = line ? strstr(line, "avc:  denied  {") : NULL;
	const char *open = avc ? strchr(avc, '{') : NULL, *close = open ? strchr(open, '}') : NULL;
	if (!close)
		return NULL;
	auto_str char *source = audit_word(line, "scontext=", true), *target = audit_word(line, "tcontext=", true),
		      *class = audit_word(line, "tclass=", false);
	if (!source || !target || !class)
		return NULL;
	return str_fmt("allow %s %s:%s %.*s;", source, target, class, (int)(close - open + 1), open);
}

static int explain_as(const char *module, int error, int code, const char *text, const char *line, struct err *err)
{
	auto_str char *rule = missing_rule(line);
	if (rule) // first, because a long line is cut
		return err_set(err, code, "load '%s': %s; missing: %s kernel: %s (%s)", module, text, rule, line,
			       strerrorname_np(error));
	if (line)
		return err_set(err, code, "load '%s': %s: kernel: %s (%s)", module, text, line, strerrorname_np(error));
	return err_set(err, code, "load '%s': %s (%s)", module, text, strerrorname_np(error));
}

int load_explain(const char *module, int error, const struct strv *lines, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++) {
		const struct reason *r = &reasons[i];
		const char *line = find_line(lines, r->line, module);
		if (r->error == error && (!r->line || line))
			return explain_as(module, error, r->code, r->text, line, err);
	}
	return explain_as(module, error, E_LOAD, "the kernel refused it", find_line(lines, NULL, module), err);
}
