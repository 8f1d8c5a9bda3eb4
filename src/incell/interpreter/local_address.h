/* local_address.h - the address of the Unix socket of the server: a path, or '@' and a name. */
#pragma once

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Return the length of the address, or 0: the text is too long. */
static inline socklen_t local_address(const char *text, struct sockaddr_un *ret)
{
	size_t n = strlen(text);

	memset(ret, 0, sizeof(*ret));
	ret->sun_family = AF_UNIX;
	if (n == 0 || n >= sizeof(ret->sun_path))
		return 0;
	memcpy(ret->sun_path, text, n);
	if (text[0] == '@') {
		ret->sun_path[0] = '\0';
		return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
	}
	return sizeof(*ret);
}
