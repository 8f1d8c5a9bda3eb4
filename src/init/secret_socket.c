/* secret_socket.c - theory of operation
 *
 * The kernel reports user and process of the client (SO_PEERCRED). Which program the process runs
 * can only be read by its own user (/proc/PID/exe), so this child changes to that user; a process
 * that changed its user is not readable by the new user. The program is compared by device and
 * inode. Last, a pidfd shows that the client still runs, so its process id was not reused
 * meanwhile. Where there are no pidfds (gVisor), the client's directory in /proc does the same: it
 * belongs to the process, not to the number, and is empty when the process is gone.
 *
 * It is not known whether other processes hold the client's end of the connection, too, or what was
 * loaded into the program (doc/secrets.md). */
#include "secret_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "file_names.h"
#include "io.h"
#include "proc_stat.h"
#include "users.h"

#define REQUEST_MS 5000
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

struct peer {
	struct ucred who;
	int pidfd; /* owned; -1: there is no such thing */
	int proc;  /* owned: its directory in /proc */
};

static int open_proc(pid_t pid)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/%d", pid);
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static bool find_peer(int sock, struct peer *ret)
{
	socklen_t len = sizeof(ret->who), fd_len = sizeof(ret->pidfd);

	ret->pidfd = ret->proc = -1;
	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &ret->who, &len) < 0 || ret->who.pid <= 0)
		return false;
	/* Before Linux 6.5 there is no SO_PEERPIDFD; the process could have exited before this
	 * call.
	 */
	if (getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &ret->pidfd, &fd_len) < 0)
		ret->pidfd = (int)syscall(SYS_pidfd_open, ret->who.pid, 0U);
	if (ret->pidfd < 0 && errno != ENOSYS)
		return false;
	ret->proc = open_proc(ret->who.pid);
	return ret->proc >= 0;
}

/* Not over, and no zombie. */
static bool still_runs(const struct peer *p)
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

static bool is_owner(const char *owner, uid_t uid)
{
	struct users_entry user;
	size_t len;
	const char *text = file_names_passwd(&len);

	if (*owner == '\0')
		return true;
	return (users_find(text, len, owner, &user) || users_bare(owner, &user)) && user.uid == uid;
}

/* Reads a name, up to a newline or the end of input. */
static bool read_name(int sock, char *ret, size_t cap)
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

static bool become(const struct ucred *who)
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
static bool runs(const struct peer *p, const struct stat *program)
{
	struct stat st;

	return become(&p->who) && fstatat(p->proc, "exe", &st, 0) == 0 &&
	       st.st_dev == program->st_dev && st.st_ino == program->st_ino && still_runs(p);
}

static void answer(int sock, const struct secret_table_entry *s)
{
	for (uint32_t at = 0; at < s->len;) {
		ssize_t n = send(sock, s->value + at, s->len - at, MSG_NOSIGNAL);

		if (n <= 0)
			return;
		at += (uint32_t)n;
	}
}

void secret_socket_answer(int sock, const struct secret_table *t)
{
	const struct timeval patience = { .tv_sec = REQUEST_MS / 1000 };
	char name[80];
	struct peer peer;
	struct stat program;

	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	(void)setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (!find_peer(sock, &peer) || !read_name(sock, name, sizeof(name)))
		_exit(1);
	for (size_t i = 0; i < t->n; i++) {
		const struct secret_table_entry *s = &t->at[i];

		if (s->kind != 's' || strcmp(s->name, name) != 0)
			continue;
		if (is_owner(s->owner, peer.who.uid) && stat(s->place, &program) == 0 &&
		    runs(&peer, &program))
			answer(sock, s);
		break;
	}
	_exit(0);
}
