/* cell_socket.c - sockets are addressed below a descriptor of their directory: a socket's address
 * holds 107 bytes, and the path of run_dir may be longer. */
#include "cell_socket.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "keeper_msg.h"

static int make(int cells_fd, const char *id, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	(void)snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/%s.sock", cells_fd,
		       id);
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

int cell_socket_bind(int cells_fd, const char *id, int *ret_fd, struct err *e)
{
	struct sockaddr_un a;
	OWN_FD fd = make(cells_fd, id, &a);
	int bound;

	if (fd < 0)
		return err_sys(e, "socket");
	bound = bind(fd, (const struct sockaddr *)&a, sizeof(a));
	if (bound < 0 && errno == EADDRINUSE) { /* of an earlier try */
		cell_socket_remove(cells_fd, id);
		bound = bind(fd, (const struct sockaddr *)&a, sizeof(a));
	}
	if (bound < 0)
		return err_sys(e, "bind %s.sock", id);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int cell_socket_connect(int cells_fd, const char *id, int *ret_fd, struct err *e)
{
	struct sockaddr_un a;
	OWN_FD fd = make(cells_fd, id, &a);

	if (fd < 0 || connect(fd, (const struct sockaddr *)&a, sizeof(a)) < 0) {
		(void)err_sys(e, "connect to cell %s", id);
		e->code = e->sys == ENOENT || e->sys == ECONNREFUSED ? ERR_NOT_FOUND : ERR_SYSTEM;
		return -1;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

void cell_socket_remove(int cells_fd, const char *id)
{
	char name[CELL_ID_MAX + 8];

	(void)snprintf(name, sizeof(name), "%s.sock", id);
	(void)unlinkat(cells_fd, name, 0);
}
