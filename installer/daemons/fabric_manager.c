// SPDX-License-Identifier: Apache-2.0
#include "daemons/fabric_manager.h"

#include <ctype.h>
#include <stdio.h>

static const char PREFIX[] = "NVFM_CONFIG_", CLASS[] = "sys/class/infiniband";

static bool is_valid_setting(const char *s)
{
	size_t len = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
	return len && s[len] == '=' && !strpbrk(s + len, "\r\n");
}

int fabric_manager_settings(char *const *environment, struct strv *ret, struct err *err)
{
	auto_strv struct strv settings = { 0 };
	for (; *environment; environment++) {
		if (!str_starts(*environment, PREFIX))
			continue;
		const char *setting = *environment + strlen(PREFIX);
		if (!is_valid_setting(setting))
			return err_set(err, E_CONFIG, "environment: '%s' is not a setting of the fabric manager",
				       *environment);
		strv_add(&settings, str_dup(setting));
	}
	strv_sort(&settings);
	*ret = settings;
	settings = (struct strv){ 0 };
	return 0;
}

// "FIELD = VALUE", with blanks anywhere; a comment sets nothing.
static bool sets_field(const char *line, const char *field, size_t len)
{
	line += strspn(line, " \t");
	return strncmp(line, field, len) == 0 && line[len + strspn(line + len, " \t")] == '=';
}

static char *apply_setting(const char *text, const char *setting)
{
	size_t field = strcspn(setting, "=");
	bool is_set = false;
	char *out = str_dup("");
	while (*text) {
		size_t len = strcspn(text, "\n");
		if (!sets_field(text, setting, field))
			str_add(&out, "%.*s\n", (int)len, text);
		else if (!is_set)
			str_add(&out, "%s\n", setting);
		is_set = is_set || sets_field(text, setting, field);
		text += len + (text[len] == '\n');
	}
	if (!is_set)
		str_add(&out, "%s\n", setting);
	return out;
}

char *fabric_manager_edit(const char *text, const struct strv *settings)
{
	char *out = str_dup(text);
	for (size_t i = 0; i < settings->count; i++) {
		auto_str char *before = out;
		out = apply_setting(before, settings->items[i]);
	}
	return out;
}

int fabric_manager_write(const struct root *host, const struct root *driver, const struct strv *settings,
			 struct err *err)
{
	auto_strv struct strv all = { 0 };
	auto_str char *text = NULL;
	int r = root_read(driver, FABRIC_PAYLOAD_CONFIG, &text, NULL, err);
	if (r <= 0)
		return r < 0 ? -1 : err_set(err, E_NOT_FOUND, "the driver's user space has no /" FABRIC_PAYLOAD_CONFIG);
	strv_split(&all,
		   "LOG_FILE_NAME= LOG_USE_SYSLOG=0 STATE_FILE_NAME=/run/nvidia-fabricmanager/fabricmanager.state",
		   " ");
	for (size_t i = 0; i < settings->count; i++)
		strv_add(&all, str_dup(settings->items[i]));
	strv_add(&all, str_dup("DAEMONIZE=0"));
	auto_str char *edited = fabric_manager_edit(text, &all);
	return root_mkdirs(host, "run/nvidia-fabricmanager", 0755, err) < 0 ?
		       -1 :
		       root_put(host, FABRIC_CONFIG, edited, strlen(edited), 0644, err);
}

// The lower half of the port's first GID, "fe80:0000:0000:0000:506b:4b03:00a1:b2c3" (IBA 4.1.1).
static char *read_port_guid(const struct root *kern, const char *device)
{
	struct err ignored;
	unsigned part[8];
	auto_str char *path = str_fmt("%s/%s/ports/1/gids/0", CLASS, device), *gid = NULL;
	if (root_line(kern, path, &gid, &ignored) <= 0 ||
	    sscanf(gid, "%x:%x:%x:%x:%x:%x:%x:%x", &part[0], &part[1], &part[2], &part[3], &part[4], &part[5], &part[6],
		   &part[7]) != 8 ||
	    !(part[4] | part[5] | part[6] | part[7]))
		return NULL;
	return str_fmt("0x%04x%04x%04x%04x", part[4], part[5], part[6], part[7]);
}

int fabric_manager_bridge(const struct root *kern, char **ret_guid, struct err *err)
{
	static const char MARK[] = "SW_MNG";
	auto_strv struct strv devices = { 0 };
	if (!root_exists(kern, CLASS))
		return 0;
	if (root_list(kern, CLASS, &devices, err) < 0)
		return -1;
	for (size_t i = 0; i < devices.count; i++) {
		auto_str char *path = str_fmt("%s/%s/device/vpd", CLASS, devices.items[i]), *vpd = NULL;
		struct err unread; // of a device without one, or one that does not answer
		size_t len;
		if (root_read(kern, path, &vpd, &len, &unread) > 0 && memmem(vpd, len, MARK, strlen(MARK))) {
			*ret_guid = read_port_guid(kern, devices.items[i]);
			return 1;
		}
	}
	return 0;
}
