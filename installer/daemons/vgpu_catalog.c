// SPDX-License-Identifier: Apache-2.0
#include "daemons/vgpu_catalog.h"

#include <ctype.h>

// The device

enum {
	STATUS = 0x06,
	HAS_CAPABILITIES = 0x10,
	FIRST = 0x34,
	VENDOR_SPECIFIC = 0x09,
	HEADER = 5, // id, next, length, "VF"
	FIELD = 10, // of version and branch
	CONFIG = 256,
	CHAIN_MOST = 48,
};

// Small letters do not occur, and blanks fill it up.
static void copy_field(const unsigned char *from, char *to)
{
	size_t len = 0;
	for (size_t i = 0; i < FIELD && from[i]; i++)
		if (isgraph(from[i]))
			to[len++] = (char)toupper(from[i]);
	to[len] = '\0';
}

// Records of a type and a length, both of a byte; type 0 has version and branch.
static bool parse_records(const unsigned char *capability, size_t len, struct vgpu_host *ret)
{
	size_t at = HEADER;
	while (at + 2 <= len && capability[at] != 0 && capability[at + 1] >= 2)
		at += capability[at + 1];
	if (at + 2 + 2 * FIELD > len || capability[at] != 0)
		return false;
	copy_field(capability + at + 2, ret->version);
	copy_field(capability + at + 2 + FIELD, ret->branch);
	return *ret->version && *ret->branch;
}

bool vgpu_host_parse(const unsigned char *config, size_t len, struct vgpu_host *ret)
{
	if (len < CONFIG || !(config[STATUS] & HAS_CAPABILITIES))
		return false;
	unsigned at = config[FIRST];
	for (int i = 0; i < CHAIN_MOST && at >= 0x40 && at + HEADER <= CONFIG; i++, at = config[at + 1]) {
		unsigned size = config[at + 2];
		if (config[at] == VENDOR_SPECIFIC && at + size <= CONFIG && size > HEADER && config[at + 3] == 'V' &&
		    config[at + 4] == 'F' && parse_records(config + at, size, ret))
			return true;
	}
	return false;
}

static bool read_id(const struct root *kern, const char *device, const char *name, char ret[8])
{
	auto_str char *path = str_fmt("sys/bus/pci/devices/%s/%s", device, name), *text = NULL;
	struct err ignored;
	if (root_line(kern, path, &text, &ignored) <= 0 || strlen(text) >= 8)
		return false;
	memcpy(ret, text, strlen(text) + 1);
	return true;
}

int vgpu_host_read(const struct root *kern, struct vgpu_host *ret, struct err *err)
{
	auto_strv struct strv devices = { 0 };
	if (root_list(kern, "sys/bus/pci/devices", &devices, err) < 0)
		return -1;
	strv_sort(&devices);
	for (size_t i = 0; i < devices.count; i++) {
		auto_str char *path = str_fmt("sys/bus/pci/devices/%s/config", devices.items[i]), *config = NULL;
		char vendor[8];
		size_t len = 0;
		struct err ignored;
		struct vgpu_host host = { 0 };
		if (read_id(kern, devices.items[i], "vendor", vendor) && str_eq(vendor, "0x10de") &&
		    root_read(kern, path, &config, &len, &ignored) > 0 &&
		    vgpu_host_parse((const unsigned char *)config, len, &host) &&
		    read_id(kern, devices.items[i], "device", host.device) &&
		    read_id(kern, devices.items[i], "subsystem_device", host.subsystem)) {
			*ret = host;
			return 1;
		}
	}
	return 0;
}

// The catalogue: branches and drivers, of the host and of the guest, each with lists of what is allowed and denied.

static const char *text(const json_t *row, const char *key)
{
	const char *value = json_string_value(json_object_get(row, key));
	return value ? value : "";
}
static const json_t *list(const json_t *row, const char *rule, const char *key)
{
	return json_object_get(json_object_get(row, rule), key);
}

static bool has_text(const json_t *all, const char *member, const char *value)
{
	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *one = json_array_get(all, i);
		if (str_eq(member ? text(one, member) : json_string_value(one), value))
			return true;
	}
	return false;
}

static bool has_gpu(const json_t *all, const struct vgpu_host *host)
{
	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *one = json_array_get(all, i);
		const char *subsystem = text(one, "ssid");
		if (strcasecmp(text(one, "devid"), host->device) == 0 &&
		    (!*subsystem || strcasecmp(subsystem, host->subsystem) == 0))
			return true;
	}
	return false;
}

// For this machine at all?
static bool is_for_machine(const json_t *row, const struct vgpu_host *host, const char *cpu)
{
	const json_t *cpus = list(row, "allow", "cpu"), *gpus = list(row, "allow", "gpu");
	return (!json_array_size(cpus) || has_text(cpus, NULL, cpu)) &&
	       !has_text(list(row, "deny", "cpu"), NULL, cpu) && (!json_array_size(gpus) || has_gpu(gpus, host)) &&
	       !has_gpu(list(row, "deny", "gpu"), host);
}

struct search {
	const json_t *catalog;
	const struct vgpu_host *host;
	const char *cpu;
	const json_t *branch, *driver; // rows of the host; driver NULL = its version has none
};

static const json_t *find_row(const struct search *s, const char *table, const char *type, const char *key,
			      const char *value)
{
	const json_t *all = json_object_get(s->catalog, table);
	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *row = json_array_get(all, i);
		if (str_eq(text(row, "type"), type) && str_eq(text(row, key), value) &&
		    is_for_machine(row, s->host, s->cpu))
			return row;
	}
	return NULL;
}

static bool are_branches_allowed(const struct search *s, const char *guest)
{
	const json_t *row = find_row(s, "branch", "guest", "name", guest);
	return row && has_text(list(row, "allow", "branch"), NULL, s->host->branch) &&
	       !has_text(list(row, "deny", "branch"), NULL, s->host->branch) &&
	       has_text(list(s->branch, "allow", "branch"), NULL, guest) &&
	       !has_text(list(s->branch, "deny", "branch"), NULL, guest);
}

// NULL = it fits.
static char *why_not(const struct search *s, const char *version, const json_t **ret_row)
{
	const json_t *row = find_row(s, "driver", "guest", "version", version);
	*ret_row = row;
	if (!row)
		return str_fmt("%s is no guest driver of the catalogue for this GPU", version);
	if (!has_text(json_object_get(row, "os"), NULL, "Linux"))
		return str_fmt("%s is not for Linux", version);
	if (has_text(list(row, "deny", "driver"), "version", s->host->version) ||
	    has_text(list(s->driver, "deny", "driver"), "version", version))
		return str_fmt("%s is denied beside the host's %s", version, s->host->version);
	const json_t *of_guest = list(row, "allow", "driver"), *of_host = list(s->driver, "allow", "driver");
	if (json_array_size(of_host) && !has_text(of_host, "version", version))
		return str_fmt("the host's %s does not allow %s", s->host->version, version);
	if (json_array_size(of_guest) && has_text(of_guest, "version", s->host->version))
		return NULL;
	if (json_array_size(of_guest))
		return str_fmt("%s does not allow the host's %s", version, s->host->version);
	return are_branches_allowed(s, text(row, "branch")) ?
		       NULL :
		       str_fmt("%s is of branch %s, which does not go with the host's %s", version, text(row, "branch"),
			       s->host->branch);
}

int vgpu_catalog_choose(const json_t *catalog, const struct vgpu_host *host, const char *arch,
			const struct strv *versions, char **ret, struct err *err)
{
	struct search s = { .catalog = catalog, .host = host, .cpu = str_eq(arch, "x86_64") ? "x86" : arch };
	auto_str char *reasons = NULL;
	const char *best = NULL;
	bool is_best_same = false;
	s.branch = find_row(&s, "branch", "host", "name", host->branch);
	s.driver = find_row(&s, "driver", "host", "version", host->version);
	if (!s.branch)
		return err_set(err, E_NOT_FOUND, "the catalogue does not know branch %s of the host's vGPU manager %s",
			       host->branch, host->version);
	for (size_t i = 0; i < versions->count; i++) {
		const char *version = versions->items[i];
		const json_t *row;
		auto_str char *why = why_not(&s, version, &row);
		bool is_same = !why && str_eq(text(row, "branch"), host->branch);
		if (why)
			str_add(&reasons, "%s%s", reasons ? "; " : "", why);
		else if (!best || (is_same && !is_best_same) ||
			 (is_same == is_best_same && str_version_cmp(version, best) > 0)) {
			best = version;
			is_best_same = is_same;
		}
	}
	if (!best)
		return err_set(err, E_NOT_FOUND, "no guest driver goes with the host's vGPU manager %s (%s): %s",
			       host->version, host->branch, reasons ? reasons : "there is none");
	*ret = str_dup(best);
	return 0;
}
