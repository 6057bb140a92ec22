// SPDX-License-Identifier: Apache-2.0
#include "daemons/syslog.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

int syslog_open(const struct root *host, struct err *err)
{
	static const char PLACE[] = SYSLOG_DIR "/dev-log";
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	auto_str char *path = root_path(host, PLACE);
	if (root_mkdirs(host, SYSLOG_DIR, 0755, err) < 0 || root_unlink(host, PLACE, err) < 0)
		return -1;
	if (strlen(path) >= sizeof(address.sun_path))
		return err_set(err, ENAMETOOLONG, "make the socket '%s'", path);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	auto_fd int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return err_set(err, errno, "make the socket '%s'", path);
	return TAKE_FD(fd);
}

bool syslog_parse(char *text, const char **ret_name, const char **ret_message)
{
	enum { STAMP = 16 }; // "<30>" and "Nov 21 23:11:18 ", as syslog(3) of the C library writes them
	char *name = *text == '<' ? strchr(text, '>') : NULL;
	if (!name)
		return false;
	name++;
	if (strlen(name) > STAMP && name[3] == ' ' && name[6] == ' ' && name[9] == ':' && name[STAMP - 1] == ' ')
		name += STAMP;
	char *message = strstr(name, ": ");
	if (!message || message == name)
		return false;
	*message = '\0';
	message += 2;
	name[strcspn(name, "[ ")] = '\0';
	for (char *c = message; *c; c++) // no control characters to the terminal
		if (iscntrl((unsigned char)*c))
			*c = ' ';
	*ret_name = name;
	*ret_message = str_trim(message);
	return *name && **ret_message;
}
