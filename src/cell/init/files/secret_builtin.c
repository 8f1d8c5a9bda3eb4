/* secret_builtin.c - the built-in secrets, started by cordond's daemon/secrets/secret_delivery.c.
 *
 * Its input is any number of tables (secret_table.h), each with a u32 length in front. A table
 * replaces the one before. It is answered with READY when it is applied, or with ERROR, which ends
 * the built-in. Files are on the tmpfs of /dev/shm, in a directory of the cell's root, so that they
 * are in no layer and no diff. Files that the table does not name are removed. If the table has
 * secrets of the kind socket, the built-in answers requests for them at a socket, from memory,
 * until its input ends: cordond has then exited or ended it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cell/init/base/proc_stat.h"
#include "cell/init/base/secret_table.h"
#include "cell/init/base/users.h"
#include "cell/init/files/builtin_io.h"
#include "cell/init/files/builtin_table.h"
#include "cell/init/files/file_names.h"
#include "lib/base/fd_std.h"
#include "lib/base/io.h"

#define CLIENTS_MAX 16
#define NEW ".new"

/* Serves one connection to the socket of a cell's secrets. Called by
 * secret_builtin.c. */
/* The kernel reports user and process of the client (SO_PEERCRED). Only a process's own user can
 * read its program (/proc/PID/exe), so this child changes to that user. A process that changed its
 * user is not readable by the new user. The program is compared by device and inode. Last, a pidfd
 * shows that the client still runs, so its process id still means the same process. Where there are
 * no pidfds (gVisor), the client's directory in /proc does the same: it belongs to the process, not
 * to the number, and is empty when the process is gone.
 *
 * It is not known whether other processes hold the client's end of the connection, too, or which
 * code the program has loaded (doc/secrets.md). */

#define REQUEST_MS 5000
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

struct secret_builtin_peer {
	struct ucred who;
	int pidfd; /* owned. -1: there is no such thing */
	int proc;  /* owned: its directory in /proc */
};

static int secret_builtin_socket_open_proc(pid_t pid)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/%d", pid);
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static bool secret_builtin_socket_find_peer(int sock, struct secret_builtin_peer *ret)
{
	socklen_t len = sizeof(ret->who), fd_len = sizeof(ret->pidfd);

	ret->pidfd = ret->proc = -1;
	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &ret->who, &len) < 0 || ret->who.pid <= 0)
		return false;
	/* Before Linux 6.5 there is no SO_PEERPIDFD. The process could have exited before this
	 * call.
	 */
	if (getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &ret->pidfd, &fd_len) < 0)
		ret->pidfd = (int)syscall(SYS_pidfd_open, ret->who.pid, 0U);
	if (ret->pidfd < 0 && errno != ENOSYS)
		return false;
	ret->proc = secret_builtin_socket_open_proc(ret->who.pid);
	return ret->proc >= 0;
}

/* Not over, and no zombie. */
static bool secret_builtin_socket_still_runs(const struct secret_builtin_peer *p)
{
	struct pollfd gone = { .fd = p->pidfd, .events = POLLIN };
	struct proc_stat stat;
	char text[4096];
	struct err e;

	if (p->pidfd >= 0)
		return poll(&gone, 1, 0) == 0;
	return io_read_file(p->proc, "stat", text, sizeof(text), &e) > 0 &&
	       proc_stat_parse(text, &stat) && stat.pid == p->who.pid && stat.alive;
}

static bool secret_builtin_socket_is_owner(const char *owner, uid_t uid)
{
	struct users_entry user;
	size_t len;
	const char *text = file_names_passwd(&len);

	if (*owner == '\0')
		return true;
	return (users_find(text, len, owner, &user) || users_bare(owner, &user)) && user.uid == uid;
}

/* Read a name, up to a newline or the end of input. */
static bool secret_builtin_socket_read_name(int sock, char *ret, size_t cap)
{
	size_t n = 0;

	while (n + 1 < cap) {
		struct pollfd p = { .fd = sock, .events = POLLIN };
		ssize_t got;

		if (poll(&p, 1, REQUEST_MS) <= 0)
			return false;
		got = read(sock, ret + n, cap - 1 - n);
		if (got < 0)
			return false;
		n += (size_t)got;
		ret[n] = '\0';
		if (got == 0 || strchr(ret, '\n') != NULL) {
			ret[strcspn(ret, "\n")] = '\0';
			return *ret != '\0';
		}
	}
	return false;
}

static bool secret_builtin_socket_become(const struct ucred *who)
{
	if (geteuid() == who->uid && getegid() == who->gid)
		return true;
	/* EPERM: a user namespace with a single id has no supplementary groups. */
	if (syscall(SYS_setgroups, 0, NULL) < 0 && errno != EPERM)
		return false;
	return syscall(SYS_setresgid, who->gid, who->gid, who->gid) == 0 &&
	       syscall(SYS_setresuid, who->uid, who->uid, who->uid) == 0 &&
	       /* Where fs.suid_dumpable is 1, a process that changed its user could be read by the
		  new one. */
	       prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
}

/* Is the program the file that the process runs? */
static bool secret_builtin_socket_runs(const struct secret_builtin_peer *p,
				       const struct stat *program)
{
	struct stat st;

	return secret_builtin_socket_become(&p->who) && fstatat(p->proc, "exe", &st, 0) == 0 &&
	       st.st_dev == program->st_dev && st.st_ino == program->st_ino &&
	       secret_builtin_socket_still_runs(p);
}

static void secret_builtin_socket_reply(int sock, const struct secret_table_entry *s)
{
	for (uint32_t at = 0; at < s->len;) {
		ssize_t n = send(sock, s->value + at, s->len - at, MSG_NOSIGNAL);

		if (n <= 0)
			return;
		at += (uint32_t)n;
	}
}

/* Run in a child process of its own and never return. Find the process at the other end, read a
 * name and a newline, and write the secret's value if that process may have it. Else it closes the
 * connection. */
static void secret_builtin_socket_answer(int sock, const struct secret_table *t)
{
	const struct timeval patience = { .tv_sec = REQUEST_MS / 1000 };
	char name[80];
	struct secret_builtin_peer peer;
	struct stat program;

	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	(void)setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (!secret_builtin_socket_find_peer(sock, &peer) ||
	    !secret_builtin_socket_read_name(sock, name, sizeof(name)))
		_exit(1);
	for (size_t i = 0; i < t->n; i++) {
		const struct secret_table_entry *s = &t->at[i];

		if (s->kind != 's' || strcmp(s->name, name) != 0)
			continue;
		if (secret_builtin_socket_is_owner(s->owner, peer.who.uid) &&
		    stat(s->place, &program) == 0 && secret_builtin_socket_runs(&peer, &program))
			secret_builtin_socket_reply(sock, s);
		break;
	}
	_exit(0);
}

static struct {
	int dir, listener; /* listener: -1: none */
	uint8_t *bytes;	   /* owned: the bytes that the table points into */
	size_t len;
	struct secret_table table;
	unsigned clients;
} k = { .dir = -1, .listener = -1 };

/* ---- the directory */

/* Make the directory. Its owner must be this user: all users may write to /dev/shm, and another
 * one could have made it first. */
static int secret_builtin_open_dir(struct err *e)
{
	struct stat st, root, run;

	if (mkdir(SECRET_TABLE_DIR, 0755) < 0 && errno != EEXIST)
		return builtin_io_fail(e, "make", SECRET_TABLE_DIR);
	k.dir = open(SECRET_TABLE_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (k.dir < 0 || fstat(k.dir, &st) < 0)
		return builtin_io_fail(e, "open", SECRET_TABLE_DIR);
	if (st.st_uid != geteuid())
		return err_set(e, ERR_DENIED, "%s belongs to user %u", SECRET_TABLE_DIR, st.st_uid);
	if (fchmod(k.dir, 0755) < 0)
		return builtin_io_fail(e, "change mode of", SECRET_TABLE_DIR);
	/* Templates have the link. Where /run is a mount of its own, it is missing. */
	if (lstat(SECRET_TABLE_LINK, &st) < 0 && stat("/", &root) == 0 && stat("/run", &run) == 0 &&
	    root.st_dev != run.st_dev)
		(void)symlink(SECRET_TABLE_DIR, SECRET_TABLE_LINK);
	return 0;
}

static bool secret_builtin_is_named(const struct secret_table *t, const char *file)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->at[i].kind == 'f' && strcmp(t->at[i].place, file) == 0)
			return true;
	return false;
}

static int secret_builtin_remove_others(const struct secret_table *t, struct err *e)
{
	int fd = openat(k.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	int failed = 0;

	if (d == NULL)
		return builtin_io_fail(e, "list", SECRET_TABLE_DIR);
	for (const struct dirent *f; (f = readdir(d)) != NULL;)
		if (strcmp(f->d_name, ".") != 0 && strcmp(f->d_name, "..") != 0 &&
		    strcmp(f->d_name, SECRET_TABLE_SOCKET) != 0 &&
		    !secret_builtin_is_named(t, f->d_name) && unlinkat(k.dir, f->d_name, 0) < 0 &&
		    errno != ENOENT)
			failed = builtin_io_fail(e, "remove", f->d_name);
	(void)closedir(d);
	return failed;
}

static int secret_builtin_find_owner(const struct secret_table_entry *s, struct users_entry *ret,
				     struct err *e)
{
	size_t len;
	const char *text = file_names_passwd(&len);

	if (users_find(text, len, s->owner, ret) || users_bare(s->owner, ret))
		return 0;
	(void)err_set(e, ERR_INVALID, "secret %s: there is no user %s in the session", s->name,
		      s->owner);
	return -1;
}

static int secret_builtin_write_file(const struct secret_table_entry *s, struct err *e)
{
	struct users_entry owner = { .uid = geteuid(), .gid = getegid() };

	if (*s->owner != '\0' && secret_builtin_find_owner(s, &owner, e) < 0)
		return -1;
	(void)unlinkat(k.dir, NEW, 0);
	OWN_FD fd = openat(k.dir, NEW, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return builtin_io_fail(e, "make", s->place);
	if (io_write_all(fd, s->value, s->len, e) < 0)
		return -1;
	if ((owner.uid != geteuid() || owner.gid != getegid()) &&
	    fchown(fd, owner.uid, owner.gid) < 0)
		return builtin_io_fail(e, "change owner of", s->place);
	if (fchmod(fd, s->mode) < 0 || renameat(k.dir, NEW, k.dir, s->place) < 0)
		return builtin_io_fail(e, "write", s->place);
	return 0;
}

/* ---- the socket */

static int secret_builtin_open_listener(struct err *e)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s/%s", SECRET_TABLE_DIR,
		       SECRET_TABLE_SOCKET);
	(void)unlinkat(k.dir, SECRET_TABLE_SOCKET, 0);
	k.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (k.listener < 0 || bind(k.listener, (const struct sockaddr *)&a, sizeof(a)) < 0 ||
	    fchmodat(k.dir, SECRET_TABLE_SOCKET, 0666, 0) < 0 || listen(k.listener, 16) < 0)
		return builtin_io_fail(e, "listen at", SECRET_TABLE_SOCKET);
	return 0;
}

static void secret_builtin_serve_one(void)
{
	int sock = accept4(k.listener, NULL, NULL, SOCK_CLOEXEC);
	pid_t pid;

	if (sock < 0)
		return;
	pid = k.clients < CLIENTS_MAX ? fork() : -1;
	if (pid == 0) {
		fd_close(k.listener);
		/* A copy of them here would keep cordond's pipes open. */
		(void)fd_std_replace(STDIN_FILENO, STDERR_FILENO);
		(void)fd_std_replace(STDOUT_FILENO, STDERR_FILENO);
		secret_builtin_socket_answer(sock, &k.table);
	}
	if (pid > 0)
		k.clients++;
	fd_close(sock);
}

static void secret_builtin_reap(void)
{
	while (k.clients > 0 && waitpid(-1, NULL, WNOHANG) > 0)
		k.clients--;
}

/* ---- tables */

/* Read a table. Return 1, or 0 at the end of the input. */
static int secret_builtin_read_table(struct err *e)
{
	uint8_t head[4];
	size_t got = 0, want = sizeof(head), len = 0;
	uint8_t *to = head;

	if (k.bytes != NULL)
		explicit_bzero(k.bytes, k.len);
	free(k.bytes);
	k.bytes = NULL;
	k.table.n = 0;
	while (got < want) {
		ssize_t n = read(0, to + got, want - got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return got == 0 && to == head
				       ? 0
				       : err_set(e, ERR_CONFLICT,
						 "secrets: the input ended inside a table");
		got += (size_t)n;
		if (to != head || got < want)
			continue;
		len = (size_t)head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 |
		      (size_t)head[3] << 24;
		if (len > SECRET_TABLE_BYTES)
			return err_set(e, ERR_LIMIT, "secrets: the table is too long");
		k.bytes = to = malloc(len + 1);
		if (to == NULL)
			return err_sys(e, "secrets");
		k.len = want = len;
		got = 0;
	}
	return secret_table_read(k.bytes, k.len, &k.table, e) < 0 ? -1 : 1;
}

static int secret_builtin_apply_table(struct err *e)
{
	const struct file_msg ready = { .kind = FILE_MSG_READY };
	bool has_socket = false;

	if (secret_builtin_remove_others(&k.table, e) < 0)
		return -1;
	for (size_t i = 0; i < k.table.n; i++) {
		if (k.table.at[i].kind == 'f' && secret_builtin_write_file(&k.table.at[i], e) < 0)
			return -1;
		has_socket = has_socket || k.table.at[i].kind == 's';
	}
	if (has_socket && k.listener < 0 && secret_builtin_open_listener(e) < 0)
		return -1;
	if (builtin_io_record(&ready, e) < 0)
		return -1;
	return builtin_io_flush(e);
}

int secret_builtin(int argc, char **argv, struct err *e)
{
	int got = 0;

	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (secret_builtin_open_dir(e) < 0)
		return -1;
	for (;;) {
		struct pollfd fds[] = { { .fd = 0, .events = POLLIN },
					{ .fd = k.clients < CLIENTS_MAX ? k.listener : -1,
					  .events = POLLIN } };

		/* The exit of a child does not end poll(2), so it has a timeout while there are
		 * children. */
		if (poll(fds, 2, k.clients > 0 ? 100 : -1) < 0 && errno != EINTR)
			return err_sys(e, "wait");
		secret_builtin_reap();
		if (fds[1].revents != 0)
			secret_builtin_serve_one();
		if (fds[0].revents == 0)
			continue;
		got = secret_builtin_read_table(e);
		if (got <= 0 || secret_builtin_apply_table(e) < 0)
			break;
	}
	if (k.listener >= 0)
		(void)unlinkat(k.dir, SECRET_TABLE_SOCKET, 0);
	return got == 0 ? 0 : -1;
}
