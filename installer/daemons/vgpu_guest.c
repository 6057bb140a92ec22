// SPDX-License-Identifier: Apache-2.0
#include "daemons/vgpu_guest.h"

static const char TOKEN[] = "ClientConfigToken/client_configuration_token.tok";

bool vgpu_guest_is_served(const struct root *driver)
{
	return root_exists(driver, "usr/bin/nvidia-gridd") || root_exists(driver, "usr/bin/nvidia-topologyd");
}

static int copy_guest_file(const struct root *kern, const char *from, const struct root *host, const char *name,
			   mode_t mode, struct err *err)
{
	auto_str char *text = NULL, *to = str_fmt(GUEST_CONFIG "/%s", name);
	size_t len;
	int r = root_read(kern, from, &text, &len, err);
	return r <= 0 ? r : root_put(host, to, text, len, mode, err);
}

int vgpu_guest_write(const struct root *host, const struct root *kern, struct err *err)
{
	auto_str char *token = str_fmt("drivers/%s", TOKEN);
	if (root_mkdirs(host, GUEST_CONFIG "/ClientConfigToken", 0755, err) < 0 ||
	    copy_guest_file(kern, "drivers/gridd.conf", host, "gridd.conf", 0644, err) < 0 ||
	    copy_guest_file(kern, token, host, TOKEN, 0600, err) < 0)
		return -1;
	return copy_guest_file(kern, "etc/nvidia/nvidia-topologyd.conf", host, "nvidia-topologyd.conf", 0644, err) < 0 ?
		       -1 :
		       0;
}

const char *vgpu_guest_licence(const struct strv *log)
{
	for (size_t i = log->count; i-- > 0;)
		if (strcasestr(log->items[i], "licens") || strcasestr(log->items[i], "licenc"))
			return log->items[i];
	return NULL;
}
