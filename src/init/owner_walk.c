/* owner_walk.c - theory of operation
 *
 * A socket is found by its inode in the links of /proc/PID/fd. The kernel shows the links of a
 * process to its own user only. So this process takes the user of each process that it looks at, as
 * its user for file access alone (setfsuid(2)): that needs no right that PID 1 does not have, and
 * no process of the cell may therefore signal or trace this one. A process that made itself
 * unreadable (PR_SET_DUMPABLE, set-user-id programs) stays so, which the answer says.
 *
 * First those processes are asked that had the last few sockets, at the descriptor where the last
 * one was and the one behind it: a program that makes connections one after the other is found by
 * one link. Then all processes, the newest first. A process is held by its directory in /proc, so
 * its links and its mark belong together even if its number is given to another process. */
#include "owner_walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "io.h"
#include "proc_stat.h"

#define RECENT_MAX 8
#define LINK_MAX 32 /* "socket:[4294967295]" */

struct process {
	pid_t pid;
	uid_t uid;
	gid_t gid;
};

/* A process that had a socket lately. */
struct recent {
	struct process who; /* pid 0: none yet */
	int list;	    /* owned: its directory /proc/PID/fd */
	int at;		    /* the descriptor where it had the socket */
	uint64_t mark;
};

struct search {
	char link[LINK_MAX];
	unsigned fds_left;
	bool over;	 /* there was more than may be looked at */
	bool unreadable; /* there was a process that could not be looked at */
	size_t n;
	struct process processes[OWNER_WALK_PROCESSES_MAX]; /* ascending */
};

static struct recent recents[RECENT_MAX];
static unsigned next_recent;

/* Takes a user and group for file access. The locked profile refuses the call, and needs none: all
 * its processes have the same user. After a change the kernel would let others trace this process
 * if the machine's fs.suid_dumpable says so. */
static void take_user(uid_t uid, gid_t gid)
{
	static uid_t uid_now;
	static gid_t gid_now;
	static bool known;

	if (known && uid == uid_now && gid == gid_now)
		return;
	(void)setfsgid(gid);
	(void)setfsuid(uid);
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	uid_now = uid;
	gid_now = gid;
	known = true;
}

/* -1: the process has no such descriptor, is gone, or cannot be looked at (errno). 0: it is
 * something else. 1: it is the socket. */
static int compare(const struct search *s, int dir, const char *name)
{
	char text[LINK_MAX];
	ssize_t n = readlinkat(dir, name, text, sizeof(text));

	if (n < 0)
		return -1;
	return (size_t)n == strlen(s->link) && memcmp(text, s->link, (size_t)n) == 0;
}

/* The descriptor at which the process has the socket, or -1. */
static int find_fd(struct search *s, int dir)
{
	int list = openat(dir, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC), at = -1, same;
	DIR *d = list < 0 ? NULL : fdopendir(list);
	const struct dirent *entry;

	if (d == NULL) {
		s->unreadable = s->unreadable || (errno != ENOENT && errno != ESRCH);
		io_close_all(&list, 1);
		return -1;
	}
	while (at < 0 && (entry = readdir(d)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		if (s->fds_left == 0) {
			s->over = true;
			break;
		}
		s->fds_left--;
		same = compare(s, list, entry->d_name);
		if (same < 0 && (errno == EACCES || errno == EPERM)) {
			s->unreadable = true;
			break;
		}
		if (same > 0)
			at = (int)strtol(entry->d_name, NULL, 10);
	}
	(void)closedir(d);
	return at;
}

static bool read_mark(int dir, uint64_t *ret)
{
	char text[4096];
	struct err e;

	return io_read_file(dir, "limits", text, sizeof(text), &e) >= 0 &&
	       proc_stat_parse_limits(text, ret) && *ret > 0 && *ret <= OWNER_MARK_MAX;
}

static void remember(const struct process *who, int list, int at, uint64_t mark)
{
	struct recent *r = &recents[next_recent++ % RECENT_MAX];

	if (r->who.pid > 0)
		io_close_all(&r->list, 1);
	*r = (struct recent){ .who = *who, .list = list, .at = at, .mark = mark };
}

/* True: the socket is in this process, and the answer is set. */
static bool look_at(struct search *s, int proc, const struct process *who, struct owner_answer *ret)
{
	struct proc_stat stat;
	bool unreadable;
	char name[16];
	int at;

	(void)snprintf(name, sizeof(name), "%d", (int)who->pid);
	OWN_FD dir = openat(proc, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return false;
	take_user(who->uid, who->gid);
	unreadable = s->unreadable;
	at = find_fd(s, dir);
	/* A process that has ended and was not waited for shows nothing, and has nothing. */
	if (at < 0 && !unreadable && s->unreadable && proc_stat_read(proc, who->pid, &stat))
		s->unreadable = stat.alive;
	if (at < 0)
		return false;
	if (!read_mark(dir, &ret->mark)) {
		ret->mark = 0;
		ret->result = OWNER_GONE;
		return true;
	}
	ret->result = OWNER_FOUND;
	OWN_FD list = openat(dir, "fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (list >= 0)
		remember(who, TAKE_FD(list), at, ret->mark);
	return true;
}

static bool look_at_recent(const struct search *s, struct owner_answer *ret)
{
	for (unsigned i = 0; i < RECENT_MAX; i++) {
		struct recent *r = &recents[(next_recent - 1 - i) % RECENT_MAX];

		if (r->who.pid == 0)
			continue;
		take_user(r->who.uid, r->who.gid);
		for (int at = r->at; at <= r->at + 1; at++) {
			char name[16];

			(void)snprintf(name, sizeof(name), "%d", at);
			if (compare(s, r->list, name) <= 0)
				continue;
			r->at = at;
			ret->mark = r->mark;
			ret->result = OWNER_FOUND;
			return true;
		}
	}
	return false;
}

static void on_process(int proc, pid_t pid, void *arg)
{
	struct search *s = arg;
	struct stat st;
	char name[16];

	(void)snprintf(name, sizeof(name), "%d", (int)pid);
	if (pid == getpid() || fstatat(proc, name, &st, 0) < 0)
		return;
	if (s->n == OWNER_WALK_PROCESSES_MAX) {
		s->over = true;
		return;
	}
	s->processes[s->n++] = (struct process){ pid, st.st_uid, st.st_gid };
}

/* All processes of this user, or all others. */
static bool look_at_all(struct search *s, int proc, uint32_t uid, bool of_user,
			struct owner_answer *ret)
{
	for (size_t i = s->n; i > 0 && !s->over; i--)
		if ((s->processes[i - 1].uid == uid) == of_user &&
		    look_at(s, proc, &s->processes[i - 1], ret))
			return true;
	return false;
}

void owner_walk_find(uint32_t inode, uint32_t uid, struct owner_answer *ret)
{
	static struct search s;
	bool over;

	s.fds_left = OWNER_WALK_FDS_MAX;
	s.over = s.unreadable = false;
	s.n = 0;
	(void)snprintf(s.link, sizeof(s.link), "socket:[%u]", inode);
	ret->mark = 0;
	if (look_at_recent(&s, ret))
		return;
	OWN_FD proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (proc < 0 || proc_stat_each(proc, on_process, &s) < 0) {
		ret->result = OWNER_UNSUPPORTED;
		return;
	}
	over = s.over; /* those that were counted are looked at all the same */
	s.over = false;
	if (look_at_all(&s, proc, uid, true, ret) || look_at_all(&s, proc, uid, false, ret))
		return;
	ret->result = over || s.over ? OWNER_TOO_MANY
		      : s.unreadable ? OWNER_UNREADABLE
				     : OWNER_GONE;
}
