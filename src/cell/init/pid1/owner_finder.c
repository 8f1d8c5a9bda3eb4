/* owner_finder.c - theory of operation
 *
 * The child is a copy of PID 1 that keeps two descriptors: the socket for questions and the netlink
 * socket of the keeper (INIT_FD_DIAG). Programs of the cell may stop or kill it if their user is
 * root: then cordon-egress gets no answers, and records say so. PID 1 starts a new one for the next
 * question, at most every START_MS.
 *
 * PID 1 itself never reads the socket. It closes it when the other end is closed. */
#include "cell/init/pid1/owner_finder.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cell/init/base/proc_stat.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/kernel.h"
#include "lib/wire/keeper_msg.h"
#include "lib/wire/owner_msg.h"

#define START_MS 100
#define IDLE_MS 2000 /* the child exits after that */

/* Asks the kernel which socket is one end of a TCP connection. Called by
 * owner_finder.c. */
/* One request for exactly these two addresses and ports: the kernel looks them up in its hash table
 * of connections, and has queued its answer when send(2) returns. If there is no such connection it
 * may find a socket that listens at the program's port instead. So the answer must have the same
 * addresses and ports, and the state of a connection. */

/* Connected, or closing. Not: about to connect, listening, closed. */
#define CONNECTED                                                            \
	(1U << TCP_ESTABLISHED | 1U << TCP_FIN_WAIT1 | 1U << TCP_FIN_WAIT2 | \
	 1U << TCP_CLOSE_WAIT | 1U << TCP_LAST_ACK | 1U << TCP_CLOSING)

struct owner_finder_request {
	struct nlmsghdr head;
	struct inet_diag_req_v2 body;
};

/* The kernel's answer. Attributes may follow. */
struct reply {
	struct nlmsghdr head;
	union {
		struct inet_diag_msg found;
		struct nlmsgerr failed;
		uint8_t bytes[1024];
	} body;
};

static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

static bool owner_finder_socket_is_v4(const uint8_t ip[16])
{
	return memcmp(ip, mapped, sizeof(mapped)) == 0;
}

/* The kernel has IPv4 in the first of four words, unless the socket is one of IPv6. */
static void owner_finder_socket_ip_to_words(const uint8_t ip[16], bool v4, __be32 ret[4])
{
	memset(ret, 0, 16);
	memcpy(ret, v4 ? ip + 12 : ip, v4 ? 4 : 16);
}

static void owner_finder_socket_words_to_ip(const __be32 words[4], uint8_t family, uint8_t ret[16])
{
	memcpy(ret, mapped, sizeof(mapped));
	if (family == AF_INET)
		memcpy(ret + 12, words, 4);
	else
		memcpy(ret, words, 16);
}

static struct owner_finder_request owner_finder_socket_request_for(const struct owner_question *q)
{
	bool v4 = owner_finder_socket_is_v4(q->from) && owner_finder_socket_is_v4(q->to);
	struct owner_finder_request r = {
		.head = { .nlmsg_len = sizeof(r),
			  .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			  .nlmsg_flags = NLM_F_REQUEST },
		.body = { .sdiag_family = v4 ? AF_INET : AF_INET6,
			  .sdiag_protocol = IPPROTO_TCP,
			  .idiag_states = ~0U,
			  .id = { .idiag_sport = htons(q->from_port),
				  .idiag_dport = htons(q->to_port),
				  .idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE } } }
	};

	owner_finder_socket_ip_to_words(q->from, v4, r.body.id.idiag_src);
	owner_finder_socket_ip_to_words(q->to, v4, r.body.id.idiag_dst);
	return r;
}

static bool owner_finder_socket_is_same(const struct inet_diag_msg *m,
					const struct owner_question *q)
{
	uint8_t from[16], to[16];

	owner_finder_socket_words_to_ip(m->id.idiag_src, m->idiag_family, from);
	owner_finder_socket_words_to_ip(m->id.idiag_dst, m->idiag_family, to);
	return m->idiag_state < 32 && (CONNECTED & 1U << m->idiag_state) != 0 &&
	       m->id.idiag_sport == htons(q->from_port) && m->id.idiag_dport == htons(q->to_port) &&
	       memcmp(from, q->from, 16) == 0 && memcmp(to, q->to, 16) == 0;
}

/* Find the socket at the asking program's end of the connection, by sock_diag(7): *ret_inode is
 * its number, as in links of /proc/PID/fd, *ret_uid the user who made it. diag: the netlink socket
 * at INIT_FD_DIAG. Return OWNER_FOUND, OWNER_GONE (there is no such connection, or no process
 * has it open) or OWNER_UNSUPPORTED. Does not block. */
static enum owner_result owner_finder_socket_find(int diag, const struct owner_question *q,
						  uint32_t *ret_inode, uint32_t *ret_uid)
{
	struct owner_finder_request r = owner_finder_socket_request_for(q);
	struct reply answer;
	ssize_t n;

	if (send(diag, &r, sizeof(r), MSG_DONTWAIT) < 0)
		return OWNER_UNSUPPORTED;
	n = recv(diag, &answer, sizeof(answer), MSG_DONTWAIT);
	if (n >= (ssize_t)NLMSG_LENGTH(sizeof(answer.body.failed)) &&
	    answer.head.nlmsg_type == NLMSG_ERROR)
		return answer.body.failed.error == -ENOENT ? OWNER_GONE : OWNER_UNSUPPORTED;
	if (n < (ssize_t)NLMSG_LENGTH(sizeof(answer.body.found)) ||
	    answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return OWNER_UNSUPPORTED;
	/* A connection that no process has open any more has no inode. */
	if (!owner_finder_socket_is_same(&answer.body.found, q) ||
	    answer.body.found.idiag_inode == 0)
		return OWNER_GONE;
	*ret_inode = answer.body.found.idiag_inode;
	*ret_uid = answer.body.found.idiag_uid;
	return OWNER_FOUND;
}

/* Find the process that holds a socket, and its mark. Called by owner_finder.c in a process of its
 * own: a search may take tens of milliseconds. */
/* A socket is found by its inode in the links of /proc/PID/fd. The kernel shows the links of a
 * process to its own user only. So this process takes the user of each process that it looks at, as
 * its user for file access alone (setfsuid(2)): that needs no right that PID 1 does not have, and
 * no process of the cell may therefore signal or trace this one. A process that made itself
 * unreadable (PR_SET_DUMPABLE, set-user-id programs) stays so, which the answer says.
 *
 * The owners of the last few sockets are asked first, at the descriptor of the last one and the one
 * behind it: a program that makes connections one after the other is found by one link. Then all
 * processes, the newest first. A process is held by its directory in /proc, so its links and its
 * mark belong together even if its number is given to another process. */

/* The bounds of one search. Programs of the cell choose how much there is. */
#define OWNER_WALK_FDS_MAX 4096

#define OWNER_WALK_PROCESSES_MAX 1024

#define RECENT_MAX 8
#define LINK_MAX 32 /* "socket:[4294967295]" */

struct process {
	pid_t pid;
	uid_t uid;
	gid_t gid;
};

/* A recent owner of a socket. */
struct recent {
	struct process who; /* pid 0: none yet */
	int list;	    /* owned: its directory /proc/PID/fd */
	int at;		    /* the descriptor where it had the socket */
	uint64_t mark;
};

struct owner_finder_search {
	char link[LINK_MAX];
	unsigned fds_left;
	bool over;	 /* there was more than may be looked at */
	bool unreadable; /* there was a process that could not be looked at */
	size_t n;
	struct process processes[OWNER_WALK_PROCESSES_MAX]; /* ascending */
};

static struct recent recents[RECENT_MAX];
static unsigned next_recent;

/* Take a user and group for file access. The locked profile refuses the call, and needs none: all
 * its processes have the same user. After a change the kernel would let others trace this process
 * if the machine's fs.suid_dumpable says so. */
static void owner_finder_walk_take_user(uid_t uid, gid_t gid)
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
static int owner_finder_walk_compare(const struct owner_finder_search *s, int dir, const char *name)
{
	char text[LINK_MAX];
	ssize_t n = readlinkat(dir, name, text, sizeof(text));

	if (n < 0)
		return -1;
	return (size_t)n == strlen(s->link) && memcmp(text, s->link, (size_t)n) == 0;
}

/* The descriptor at which the process has the socket, or -1. */
static int owner_finder_walk_find_fd(struct owner_finder_search *s, int dir)
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
		same = owner_finder_walk_compare(s, list, entry->d_name);
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

static bool owner_finder_walk_read_mark(int dir, uint64_t *ret)
{
	char text[4096];
	struct err e;

	return io_read_file(dir, "limits", text, sizeof(text), &e) >= 0 &&
	       proc_stat_parse_limits(text, ret) && *ret > 0 && *ret <= OWNER_MARK_MAX;
}

static void owner_finder_walk_remember(const struct process *who, int list, int at, uint64_t mark)
{
	struct recent *r = &recents[next_recent++ % RECENT_MAX];

	if (r->who.pid > 0)
		io_close_all(&r->list, 1);
	*r = (struct recent){ .who = *who, .list = list, .at = at, .mark = mark };
}

/* True: the socket is in this process, and the answer is set. */
static bool owner_finder_walk_look_at(struct owner_finder_search *s, int proc,
				      const struct process *who, struct owner_answer *ret)
{
	struct proc_stat stat;
	bool unreadable;
	char name[16];
	int at;

	(void)snprintf(name, sizeof(name), "%d", (int)who->pid);
	OWN_FD dir = openat(proc, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return false;
	owner_finder_walk_take_user(who->uid, who->gid);
	unreadable = s->unreadable;
	at = owner_finder_walk_find_fd(s, dir);
	/* An ended process without a wait shows nothing, and has nothing. */
	if (at < 0 && !unreadable && s->unreadable && proc_stat_read(proc, who->pid, &stat))
		s->unreadable = stat.alive;
	if (at < 0)
		return false;
	if (!owner_finder_walk_read_mark(dir, &ret->mark)) {
		ret->mark = 0;
		ret->result = OWNER_GONE;
		return true;
	}
	ret->result = OWNER_FOUND;
	OWN_FD list = openat(dir, "fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (list >= 0)
		owner_finder_walk_remember(who, TAKE_FD(list), at, ret->mark);
	return true;
}

static bool owner_finder_walk_look_at_recent(const struct owner_finder_search *s,
					     struct owner_answer *ret)
{
	for (unsigned i = 0; i < RECENT_MAX; i++) {
		struct recent *r = &recents[(next_recent - 1 - i) % RECENT_MAX];

		if (r->who.pid == 0)
			continue;
		owner_finder_walk_take_user(r->who.uid, r->who.gid);
		for (int at = r->at; at <= r->at + 1; at++) {
			char name[16];

			(void)snprintf(name, sizeof(name), "%d", at);
			if (owner_finder_walk_compare(s, r->list, name) <= 0)
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
	struct owner_finder_search *s = arg;
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
static bool owner_finder_walk_look_at_all(struct owner_finder_search *s, int proc, uint32_t uid,
					  bool of_user, struct owner_answer *ret)
{
	for (size_t i = s->n; i > 0 && !s->over; i--)
		if ((s->processes[i - 1].uid == uid) == of_user &&
		    owner_finder_walk_look_at(s, proc, &s->processes[i - 1], ret))
			return true;
	return false;
}

/* inode: the socket's. uid: who made it. Processes of this user are looked at first. Set the mark
 * of an answer, and its result. */
static void owner_finder_walk_find(uint32_t inode, uint32_t uid, struct owner_answer *ret)
{
	static struct owner_finder_search s;
	bool over;

	s.fds_left = OWNER_WALK_FDS_MAX;
	s.over = s.unreadable = false;
	s.n = 0;
	(void)snprintf(s.link, sizeof(s.link), "socket:[%u]", inode);
	ret->mark = 0;
	if (owner_finder_walk_look_at_recent(&s, ret))
		return;
	OWN_FD proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (proc < 0 || proc_stat_each(proc, on_process, &s) < 0) {
		ret->result = OWNER_UNSUPPORTED;
		return;
	}
	over = s.over; /* the counted ones are looked at all the same */
	s.over = false;
	if (owner_finder_walk_look_at_all(&s, proc, uid, true, ret) ||
	    owner_finder_walk_look_at_all(&s, proc, uid, false, ret))
		return;
	ret->result = over || s.over ? OWNER_TOO_MANY
		      : s.unreadable ? OWNER_UNREADABLE
				     : OWNER_GONE;
}

static int sock = -1;
static pid_t finder; /* 0: none runs */
static uint64_t next_start_ns;

/* ---- the child */

static struct owner_answer owner_finder_answer_to(int diag, const struct owner_question *q)
{
	struct owner_answer a = { .id = q->id };
	uint32_t inode, uid;

	a.result = owner_finder_socket_find(diag, q, &inode, &uid);
	if (a.result == OWNER_FOUND)
		owner_finder_walk_find(inode, uid, &a);
	return a;
}

static void NORETURN owner_finder_serve(int in, int diag)
{
	struct pollfd p = { .fd = in, .events = POLLIN };
	struct owner_question q;
	struct owner_answer a;
	uint8_t bytes[sizeof(q) + 1]; /* a longer one is seen as such */
	struct err e;
	ssize_t n;

	for (;;) {
		n = recv(in, bytes, sizeof(bytes), MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN && poll(&p, 1, IDLE_MS) > 0)
			continue;
		if (n <= 0 || owner_question_read(bytes, (size_t)n, &q, &e) < 0)
			_exit(0);
		a = owner_finder_answer_to(diag, &q);
		/* If egress does not read, the answer is dropped. */
		(void)send(in, &a, sizeof(a), MSG_DONTWAIT | MSG_NOSIGNAL);
	}
}

/* Without one of the keeper, the number may have been given to another descriptor. */
static bool owner_finder_is_netlink(int fd)
{
	int family = -1;
	socklen_t len = sizeof(family);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len) == 0 && family == AF_NETLINK;
}

/* No other descriptor of PID 1 may stay open in it. */
static void NORETURN owner_finder_run(void)
{
	enum { IN = 3, DIAG, FREE };
	int in = fcntl(sock, F_DUPFD, FREE);
	int diag = owner_finder_is_netlink(INIT_FD_DIAG) ? fcntl(INIT_FD_DIAG, F_DUPFD, FREE) : -1;

	(void)prctl(PR_SET_NAME, "cordon-owners", 0, 0, 0);
	if (in < 0 || dup2(in, IN) < 0 || (diag >= 0 && dup2(diag, DIAG) < 0) ||
	    kernel_close_range(diag >= 0 ? FREE : DIAG, ~0U) < 0)
		_exit(1);
	owner_finder_serve(IN, diag >= 0 ? DIAG : -1);
}

/* ---- PID 1 */

void owner_finder_listen(int fd)
{
	io_close_all(&sock, 1);
	sock = fd;
	if (finder > 0)
		(void)kill(finder, SIGKILL); /* it has the earlier socket */
}

static bool owner_finder_may_start(uint64_t now_ns)
{
	return sock >= 0 && finder == 0 && now_ns >= next_start_ns;
}

struct pollfd owner_finder_poll_fd(uint64_t now_ns)
{
	return (struct pollfd){ owner_finder_may_start(now_ns) ? sock : -1, POLLIN, 0 };
}

uint64_t owner_finder_wake_ns(uint64_t now_ns)
{
	return sock < 0 || finder > 0 || owner_finder_may_start(now_ns) ? 0 : next_start_ns;
}

void owner_finder_on_ready(short revents, uint64_t now_ns)
{
	pid_t pid;

	if ((revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) {
		io_close_all(&sock, 1);
		return;
	}
	if (revents == 0 || !owner_finder_may_start(now_ns))
		return;
	next_start_ns = now_ns + START_MS * CLOCK_MS;
	pid = fork();
	if (pid == 0)
		owner_finder_run();
	if (pid > 0)
		finder = pid;
}

void owner_finder_on_exit(pid_t pid)
{
	if (pid == finder)
		finder = 0;
}
