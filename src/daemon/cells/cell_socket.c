/* cell_socket.c - sockets are addressed below a descriptor of their directory: a socket's address
 * holds 107 bytes, and the path of run_dir may be longer. */
#include "daemon/cells/cell_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/own.h"
#include "lib/wire/keeper_msg.h"

static int cell_socket_make(int cells_fd, const char *id, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	(void)snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/%s.sock", cells_fd,
		       id);
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

int cell_socket_bind(int cells_fd, const char *id, int *ret_fd, struct err *e)
{
	struct sockaddr_un a;
	OWN_FD fd = cell_socket_make(cells_fd, id, &a);
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
	OWN_FD fd = cell_socket_make(cells_fd, id, &a);

	if (fd < 0 || connect(fd, (const struct sockaddr *)&a, sizeof(a)) < 0) {
		(void)err_sys(e, "connect to cell %s", id);
		e->code = e->sys == ENOENT || e->sys == ECONNREFUSED ? ERR_NOT_FOUND : ERR_SYSTEM;
		return -1;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

#define NAME_BYTES (CELL_ID_MAX + 8)

static void watch_name(const char *id, char ret[NAME_BYTES])
{
	(void)snprintf(ret, NAME_BYTES, "%s.calls", id);
}

void cell_socket_remove(int cells_fd, const char *id)
{
	char name[NAME_BYTES];

	(void)snprintf(name, sizeof(name), "%s.sock", id);
	(void)unlinkat(cells_fd, name, 0);
	watch_name(id, name);
	(void)unlinkat(cells_fd, name, 0);
}

int cell_watch_create(int cells_fd, const char *id)
{
	const int how = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
	char name[NAME_BYTES];
	int fd;

	watch_name(id, name);
	fd = openat(cells_fd, name, how, 0600);
	if (fd < 0 &&
	    errno == EEXIST) { /* of an earlier try, whose watcher may still write to it */
		(void)unlinkat(cells_fd, name, 0);
		fd = openat(cells_fd, name, how, 0600);
	}
	return fd;
}

/* Opened for each look: a descriptor for each cell would be one more for each session. */
int cell_watch_open(int cells_fd, const char *id)
{
	char name[NAME_BYTES];

	watch_name(id, name);
	return openat(cells_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

int cell_watch_open_rw(int cells_fd, const char *id)
{
	char name[NAME_BYTES];

	watch_name(id, name);
	return openat(cells_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

/* The unwritten end of a file reads as zeroes. */
static bool watch_pread(int fd, void *ret, size_t n)
{
	ssize_t got = fd < 0 ? -1 : pread(fd, ret, n, 0);

	if (got < (ssize_t)sizeof(uint32_t))
		return false;
	memset((char *)ret + got, 0, n - (size_t)got);
	return true;
}

enum cell_watch_state cell_watch_look(int cells_fd, const char *id, uint64_t *ret)
{
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
	struct {
		uint32_t version, zero;
		uint64_t total;
	} head = { 0 };
	OWN_FD fd = cell_watch_open(cells_fd, id);

	*ret = 0;
	if (!watch_pread(fd, &head, sizeof(head)) || head.version != WATCH_VERSION)
		return CELL_WATCH_NONE;
	*ret = head.total;
	/* The watcher has locked it before it wrote the version. */
	return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK ? CELL_WATCH_DEAD
									    : CELL_WATCH_ALIVE;
}

bool cell_watch_head(int fd, struct watch_file *ret)
{
	return watch_pread(fd, ret, sizeof(*ret)) && ret->version == WATCH_VERSION;
}

uint64_t cell_watch_cpu_us(int cells_fd, const char *id)
{
	const off_t at = offsetof(struct watch_file, cpu_us);
	uint64_t us;
	OWN_FD fd = cell_watch_open(cells_fd, id);

	return fd >= 0 && pread(fd, &us, sizeof(us), at) == (ssize_t)sizeof(us) ? us : 0;
}

bool cell_watch_entry(int fd, uint64_t seq, struct watch_entry *ret)
{
	off_t at = WATCH_RING_AT + (off_t)(seq % WATCH_RING * sizeof(*ret));

	return pread(fd, ret, sizeof(*ret), at) == (ssize_t)sizeof(*ret) && ret->seq == seq &&
	       ret->seq_again == seq;
}

bool cell_watch_read(int cells_fd, const char *id, struct watch_file *ret)
{
	OWN_FD fd = cell_watch_open(cells_fd, id);

	return cell_watch_head(fd, ret);
}
