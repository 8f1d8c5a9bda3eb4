/* faults.c - system calls and statements of SQLite that fail when a test says so.
 *
 * Linked into cordond and cordon-egress of the fault build with -Wl,--wrap (meson.build has the
 * list), under AddressSanitizer and UndefinedBehaviorSanitizer. The test maps the same file
 * (faults.py): "faults-NAME" beside the program, opened before it confines itself. Without that
 * file nothing fails. */
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* In the order of faults.py. */
enum kind {
	EPOLL_ADD,
	OPEN,
	WRITE,
	READ,
	PIPE,
	SOCKETPAIR,
	SOCKET,
	SPLICE,
	ACCEPT,
	SEND,
	TRUNCATE,
	SYNC,
	DUP,
	STEP,
	KINDS,
};

struct control {
	uint32_t armed;
	uint32_t kind;	/* whose nth call fails, once */
	uint32_t nth;	/* 0: none does */
	uint32_t error; /* errno, or a result of SQLite */
	uint64_t seed;
	uint32_t every[KINDS]; /* about one in so many fails, at random; 0: none */
	uint32_t errors[KINDS];
	uint64_t calls[KINDS]; /* since it was armed */
	uint64_t failed[KINDS];
	uint64_t allocated; /* bytes, as of the last call */
};

static struct control *control;

size_t __sanitizer_get_current_allocated_bytes(void);

int __real_open64(const char *path, int flags, ...);
int __real_openat64(int dir, const char *path, int flags, ...);

__attribute__((constructor)) static void map_control(void)
{
	char path[4096], *slash;
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 32);
	void *at;
	int fd;

	if (n <= 0)
		return;
	path[n] = '\0';
	slash = strrchr(path, '/');
	if (slash == NULL)
		return;
	memmove(slash + 8, slash + 1, strlen(slash + 1) + 1);
	memcpy(slash + 1, "faults-", 7);
	fd = __real_open64(path, O_RDWR | O_CLOEXEC);
	at = fd < 0 ? MAP_FAILED
		    : mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at != MAP_FAILED)
		control = at;
	if (fd >= 0)
		(void)close(fd);
}

static uint64_t next_random(void)
{
	uint64_t z = control->seed += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* The error this call shall fail with; 0: it is made. */
static uint32_t due(enum kind k)
{
	uint32_t error = 0;

	if (control == NULL || control->armed == 0)
		return 0;
	control->allocated = __sanitizer_get_current_allocated_bytes();
	control->calls[k]++;
	if (control->kind == k && control->nth != 0 && control->calls[k] == control->nth)
		error = control->error;
	else if (control->every[k] != 0 && next_random() % control->every[k] == 0)
		error = control->errors[k];
	if (error != 0)
		control->failed[k]++;
	return error;
}

static bool fails(enum kind k)
{
	uint32_t error = due(k);

	if (error == 0)
		return false;
	errno = (int)error;
	return true;
}

static bool is_file(int fd)
{
	struct stat st;

	return control != NULL && control->armed != 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

/* ---- the calls */

int __real_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	if (op == EPOLL_CTL_ADD && fails(EPOLL_ADD))
		return -1;
	return __real_epoll_ctl(epoll, op, fd, event);
}

int __wrap_open64(const char *path, int flags, ...)
{
	va_list args;
	unsigned mode;

	va_start(args, flags);
	mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(args, unsigned) : 0;
	va_end(args);
	return fails(OPEN) ? -1 : __real_open64(path, flags, mode);
}

int __wrap_openat64(int dir, const char *path, int flags, ...)
{
	va_list args;
	unsigned mode;

	va_start(args, flags);
	mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(args, unsigned) : 0;
	va_end(args);
	return fails(OPEN) ? -1 : __real_openat64(dir, path, flags, mode);
}

ssize_t __real_pwrite64(int fd, const void *data, size_t n, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t n, off_t at)
{
	return fails(WRITE) ? -1 : __real_pwrite64(fd, data, n, at);
}

/* Of a file only: what is in a pipe or a socket is not lost by a disk. */
ssize_t __real_write(int fd, const void *data, size_t n);
ssize_t __wrap_write(int fd, const void *data, size_t n)
{
	return is_file(fd) && fails(WRITE) ? -1 : __real_write(fd, data, n);
}

ssize_t __real_pread64(int fd, void *ret, size_t n, off_t at);
ssize_t __wrap_pread64(int fd, void *ret, size_t n, off_t at)
{
	return fails(READ) ? -1 : __real_pread64(fd, ret, n, at);
}

ssize_t __real_read(int fd, void *ret, size_t n);
ssize_t __wrap_read(int fd, void *ret, size_t n)
{
	return is_file(fd) && fails(READ) ? -1 : __real_read(fd, ret, n);
}

int __real_pipe2(int ret[2], int flags);
int __wrap_pipe2(int ret[2], int flags)
{
	return fails(PIPE) ? -1 : __real_pipe2(ret, flags);
}

int __real_socketpair(int family, int type, int protocol, int ret[2]);
int __wrap_socketpair(int family, int type, int protocol, int ret[2])
{
	return fails(SOCKETPAIR) ? -1 : __real_socketpair(family, type, protocol, ret);
}

int __real_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol)
{
	return fails(SOCKET) ? -1 : __real_socket(family, type, protocol);
}

ssize_t __real_splice(int from, off_t *from_at, int to, off_t *to_at, size_t n, unsigned flags);
ssize_t __wrap_splice(int from, off_t *from_at, int to, off_t *to_at, size_t n, unsigned flags)
{
	return fails(SPLICE) ? -1 : __real_splice(from, from_at, to, to_at, n, flags);
}

int __real_accept4(int fd, struct sockaddr *ret, socklen_t *n, int flags);
int __wrap_accept4(int fd, struct sockaddr *ret, socklen_t *n, int flags)
{
	return fails(ACCEPT) ? -1 : __real_accept4(fd, ret, n, flags);
}

ssize_t __real_sendmsg(int fd, const struct msghdr *m, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags)
{
	return fails(SEND) ? -1 : __real_sendmsg(fd, m, flags);
}

int __real_ftruncate64(int fd, off_t n);
int __wrap_ftruncate64(int fd, off_t n)
{
	return fails(TRUNCATE) ? -1 : __real_ftruncate64(fd, n);
}

int __real_fsync(int fd);
int __wrap_fsync(int fd)
{
	return fails(SYNC) ? -1 : __real_fsync(fd);
}

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
	return fails(SYNC) ? -1 : __real_fdatasync(fd);
}

int __real_fcntl64(int fd, int op, ...);
int __wrap_fcntl64(int fd, int op, ...)
{
	va_list args;
	long arg;

	va_start(args, op);
	arg = va_arg(args, long);
	va_end(args);
	if ((op == F_DUPFD || op == F_DUPFD_CLOEXEC) && fails(DUP))
		return -1;
	return __real_fcntl64(fd, op, arg);
}

/* ROLLBACK does not fail where it matters: SQLite then has rolled back already. */
int __real_sqlite3_step(sqlite3_stmt *st);
int __wrap_sqlite3_step(sqlite3_stmt *st)
{
	const char *sql = sqlite3_sql(st);
	uint32_t error = sql != NULL && strncasecmp(sql, "ROLLBACK", 8) == 0 ? 0 : due(STEP);

	return error != 0 ? (int)error : __real_sqlite3_step(st);
}
