/* agent_client.c - theory of operation
 *
 * Out: each request is a block of a queue, composed once, sent as far as the socket accepts it, and
 * wiped when it is sent. No block is moved or copied: a request costs the same whatever waits
 * before it. Descriptors belong to a block, and are sent with its first byte. In: every message of
 * PID 1 has the same size, so one read receives at most one message. Descriptors arrive with the
 * first byte of their message. */
#include "cell/cellctl/agent_client.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/untrusted_fd.h"

/* Descriptors that come with an event. The cell may have taken PID 1 over, so their number, kind
 * and direction (agent_msg.h) are checked before the caller gets the event, and they are made
 * non-blocking. */

/* A descriptor from a cell could be anything: a terminal of another user, a file that blocks. Only
 * pipes and the master side of a PTY are accepted. */
static int agent_fds_check_fd(int fd, bool master, int direction, struct err *e)
{
	struct stat st;
	int flags = fcntl(fd, F_GETFL);

	if (fstat(fd, &st) < 0 || flags < 0)
		return err_sys(e, "descriptor from PID 1");
	if (master ? !S_ISCHR(st.st_mode) || st.st_rdev != makedev(5, 2) : !S_ISFIFO(st.st_mode))
		return err_set(e, ERR_INVALID, "PID 1 sent a descriptor that is not a %s",
			       master ? "PTY" : "pipe");
	/* With O_PATH the flags are not equal to a direction alone. */
	if ((flags & (O_ACCMODE | O_PATH)) != direction)
		return err_set(e, ERR_INVALID, "PID 1 sent a pipe of the wrong direction");
	if (fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return err_sys(e, "descriptor from PID 1");
	return 0;
}

static bool agent_fds_option_is(int fd, int name, int a, int b)
{
	int value = -1;
	socklen_t len = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, name, &value, &len) == 0 && (value == a || value == b);
}

/* Accept only TCP or UDP over IP. F_SETFL with O_NONBLOCK alone also clears O_ASYNC. SO_LINGER
 * would make close(2) block. */
static int agent_fds_check_socket(int fd, bool tcp, bool listens, struct err *e)
{
	const struct linger no = { 0 };
	int type = tcp ? SOCK_STREAM : SOCK_DGRAM, protocol = tcp ? IPPROTO_TCP : IPPROTO_UDP;

	if (!agent_fds_option_is(fd, SO_DOMAIN, AF_INET, AF_INET6) ||
	    !agent_fds_option_is(fd, SO_TYPE, type, type) ||
	    !agent_fds_option_is(fd, SO_PROTOCOL, protocol, protocol) ||
	    !agent_fds_option_is(fd, SO_ACCEPTCONN, listens, listens))
		return err_set(e, ERR_INVALID, "PID 1 sent a descriptor that is not a %s",
			       !tcp	 ? "UDP socket"
			       : listens ? "listening TCP socket"
					 : "TCP connection");
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_LINGER, &no, sizeof(no)) < 0)
		return err_sys(e, "socket from PID 1");
	return 0;
}

/* Only a memory file can have these seals: reading it never blocks, and no process can change it.
 */
static int agent_fds_check_sealed(int fd, uint64_t max, struct err *e)
{
	const int all = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (fstat(fd, &st) < 0 || seals < 0 || (seals & all) != all || !S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "PID 1 sent a descriptor that is not a sealed file");
	if (st.st_size < 0 || (uint64_t)st.st_size > max)
		return err_set(e, ERR_INVALID, "PID 1 sent a file of %lld bytes",
			       (long long)st.st_size);
	return 0;
}

static int agent_fds_check(const struct agent *a, enum agent_type type, const struct agent_event *v,
			   struct err *e)
{
	bool master = (v->flags & (AGENT_IS_TTY | AGENT_IS_HELD)) == AGENT_IS_TTY;
	bool input = (v->flags & AGENT_HAS_STDIN) != 0;

	if (a->nfds != agent_event_fds(type, v))
		return err_set(e, ERR_INVALID, "PID 1 sent %u descriptors", a->nfds);
	if (type == AGENT_DIALED)
		return a->nfds == 0 ? 0 : agent_fds_check_socket(a->fds[0], true, false, e);
	if (type == AGENT_EGRESS_LISTENS && a->nfds == 2)
		return agent_fds_check_socket(a->fds[0], true, true, e) < 0
			       ? -1
			       : agent_fds_check_socket(a->fds[1], false, false, e);
	if (type == AGENT_BOOTED || type == AGENT_GUEST)
		return a->nfds == 0 ? 0 : agent_fds_check_sealed(a->fds[0], BOOT_TEXT_MAX, e);
	if (type == AGENT_SNAPSHOT_DONE && a->nfds == 2)
		return agent_fds_check_sealed(a->fds[0], BOOT_MEMORY_MAX, e) < 0
			       ? -1
			       : agent_fds_check_sealed(a->fds[1], BOOT_MEMORY_MAX, e);
	for (uint32_t i = 0; i < a->nfds; i++) {
		int direction = master ? O_RDWR : i == 0 && input ? O_WRONLY : O_RDONLY;

		if (agent_fds_check_fd(a->fds[i], master, direction, e) < 0)
			return -1;
	}
	return 0;
}

void agent_init(struct agent *a, int sock)
{
	memset(a, 0, sizeof(*a));
	a->sock = sock;
	a->out_end = &a->out;
}

struct agent_block {
	struct agent_block *next;
	size_t len, at;	       /* bytes[at .. len) wait */
	int fds[BOOT_FDS_MAX]; /* owned: sent with the first byte */
	uint32_t nfds;
	uint8_t bytes[];
};

static void agent_free_block(struct agent_block *b)
{
	explicit_bzero(b->bytes, b->len); /* the environment of a program may hold secrets */
	io_close_all(b->fds, b->nfds);
	free(b);
}

/* Count n bytes less. */
static void agent_settle(struct agent *a, size_t n)
{
	a->out_bytes -= n;
	if (a->account != NULL)
		a->account->bytes -= n;
}

/* Take the first block away, sent or not. */
static void agent_drop_first(struct agent *a)
{
	struct agent_block *b = a->out;

	agent_settle(a, b->len);
	a->out = b->next;
	if (a->out == NULL)
		a->out_end = &a->out;
	a->fds_wait = a->fds_wait && b->nfds == 0;
	agent_free_block(b);
}

void agent_count_for(struct agent *a, struct agent_account *account)
{
	if (a->account != NULL)
		a->account->bytes -= a->out_bytes;
	a->account = account;
	if (account != NULL)
		account->bytes += a->out_bytes;
}

void agent_take_stdio(struct agent *a, const struct agent_event *v, int *in, int *outs, size_t n)
{
	unsigned at = 0;

	*in = (v->flags & AGENT_HAS_STDIN) != 0 && at < a->nfds ? a->fds[at++] : -1;
	for (size_t i = 0; i < n; i++)
		outs[i] = at < a->nfds ? a->fds[at++] : -1;
	untrusted_close(a->fds + at, a->nfds - at);
	a->nfds = 0;
}

void agent_release(struct agent *a)
{
	if (a->sock >= 0)
		untrusted_drain(a->sock);
	io_close_all(&a->sock, 1);
	untrusted_close(a->fds, a->nfds);
	a->nfds = a->have = 0;
	while (a->out != NULL)
		agent_drop_first(a);
}

/* A request that a client makes again later is refused while many bytes wait (AGENT_OUT_BUSY). A
 * request that ends or continues earlier work is not refused. */
static int agent_check_room(const struct agent *a, bool can_wait, size_t n, struct err *e)
{
	const struct agent_account *of = a->account;

	if (can_wait && a->out_bytes >= AGENT_OUT_BUSY)
		return err_set_reason(e, REASON_UNAVAILABLE,
				      "PID 1 of the session does not read its requests, %zu bytes "
				      "wait: try again later",
				      a->out_bytes);
	if (can_wait && of != NULL && (a->out_bytes > 0 || n > AGENT_OUT_BUSY) &&
	    of->bytes + n > of->max)
		return err_set_reason(e, REASON_UNAVAILABLE,
				      "the PID 1s of the tenant's sessions do not read their "
				      "requests, %zu bytes wait: try again later",
				      of->bytes);
	if (a->out_bytes + n > AGENT_OUT_MAX)
		return err_set_reason(e, REASON_UNAVAILABLE,
				      "PID 1 does not read requests: %zu bytes are queued",
				      a->out_bytes);
	return 0;
}

/* Append a block of n bytes to the queue. NULL on failure. */
static uint8_t *agent_reserve(struct agent *a, bool can_wait, size_t n, struct err *e)
{
	struct agent_block *b;

	if (agent_check_room(a, can_wait, n, e) < 0)
		return NULL;
	b = malloc(sizeof(*b) + n);
	if (b == NULL) {
		(void)err_sys(e, "allocate the send buffer");
		return NULL;
	}
	b->next = NULL;
	b->len = n;
	b->at = b->nfds = 0;
	*a->out_end = b;
	a->out_end = &b->next;
	a->out_bytes += n;
	if (a->account != NULL)
		a->account->bytes += n;
	return b->bytes;
}

/* Attach n descriptors to the last queued request, which owns them from now on. */
static void agent_attach(struct agent *a, int *fds, size_t n)
{
	struct agent_block *b =
		(struct agent_block *)((char *)a->out_end - offsetof(struct agent_block, next));

	for (size_t i = 0; i < n; i++)
		b->fds[i] = TAKE_FD(fds[i]);
	b->nfds = (uint32_t)n;
	a->fds_wait = a->fds_wait || n > 0;
}

#define AGENT_AT_ONCE 8

/* One sendmsg(2): the first block, and those after it up to one with descriptors, which come with
 * the first byte of theirs. */
static ssize_t agent_send_some(const struct agent *a, struct agent_block *b)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(b->fds))];
	} control;
	size_t size = b->nfds * sizeof(int);
	struct iovec iov[AGENT_AT_ONCE];
	struct msghdr m = { .msg_iov = iov };

	if (size > 0 && b->at == 0) {
		memset(&control, 0, sizeof(control));
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = (__typeof__(control.head.cmsg_len))CMSG_LEN(size);
		memcpy(CMSG_DATA(&control.head), b->fds, size);
		m.msg_control = &control;
		m.msg_controllen = (__typeof__(m.msg_controllen))CMSG_SPACE(size);
	}
	do {
		iov[m.msg_iovlen++] =
			(struct iovec){ .iov_base = b->bytes + b->at, .iov_len = b->len - b->at };
		b = b->next;
	} while (b != NULL && b->nfds == 0 && m.msg_iovlen < AGENT_AT_ONCE);
	return sendmsg(a->sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int agent_flush(struct agent *a, struct err *e)
{
	while (a->out != NULL) {
		struct agent_block *b = a->out;
		ssize_t n = agent_send_some(a, b);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return 1;
		if (n < 0) {
			(void)err_sys(e, "PID 1: send");
			/* It has ended, and its end of input is not read yet. */
			if (e->sys == EPIPE || e->sys == ECONNRESET)
				e->reason = REASON_PEER_DIED;
			return -1;
		}
		for (size_t sent = (size_t)n; sent > 0;) {
			size_t part = a->out->len - a->out->at;

			if (part > sent)
				part = sent;
			a->out->at += part;
			sent -= part;
			if (a->out->at == a->out->len)
				agent_drop_first(a);
		}
	}
	return 0;
}

static int agent_flush_queue(struct agent *a, struct err *e)
{
	return agent_flush(a, e) < 0 ? -1 : 0;
}

int agent_send_spawn(struct agent *a, const struct agent_spawn *s, struct err *e)
{
	size_t len = agent_spawn_size(s);
	uint8_t *at;

	if (len == 0)
		return err_set(e, ERR_LIMIT, "arguments and environment are larger than %u MiB",
			       AGENT_REQUEST_MAX >> 20);
	at = agent_reserve(a, true, FRAME_HEAD + len, e);
	if (at == NULL)
		return -1;
	frame_head(at, AGENT_SPAWN, (uint32_t)len);
	agent_spawn_write(s, at + FRAME_HEAD);
	return agent_flush_queue(a, e);
}

/* Requests that a client makes again later. SIGKILL ends a program. */
static bool agent_can_wait(enum agent_type type, const struct agent_order *o)
{
	return type == AGENT_DIAL || type == AGENT_RESIZE || type == AGENT_STAT ||
	       (type == AGENT_SIGNAL && o->sig != SIGKILL);
}

static int agent_queue_order(struct agent *a, enum agent_type type, const struct agent_order *o,
			     struct err *e)
{
	uint8_t *at;

	at = agent_reserve(a, agent_can_wait(type, o), FRAME_HEAD + sizeof(*o), e);
	if (at == NULL)
		return -1;
	frame_head(at, (uint16_t)type, sizeof(*o));
	memcpy(at + FRAME_HEAD, o, sizeof(*o));
	return 0;
}

static int agent_send_order(struct agent *a, enum agent_type type, const struct agent_order *o,
			    struct err *e)
{
	return agent_queue_order(a, type, o, e) < 0 ? -1 : agent_flush_queue(a, e);
}

int agent_send_signal(struct agent *a, uint32_t handle, int sig, struct err *e)
{
	return agent_send_order(a, AGENT_SIGNAL,
				&(struct agent_order){ .handle = handle, .sig = sig }, e);
}

int agent_send_kill_all(struct agent *a, struct err *e)
{
	return agent_send_order(a, AGENT_KILL_ALL, &(struct agent_order){ 0 }, e);
}

int agent_send_kill_tree(struct agent *a, uint32_t handle, uint64_t mark, struct err *e)
{
	return agent_send_order(a, AGENT_KILL_TREE,
				&(struct agent_order){ .handle = handle, .ms = mark }, e);
}

int agent_send_close_stdin(struct agent *a, uint32_t handle, struct err *e)
{
	return agent_send_order(a, AGENT_CLOSE_STDIN, &(struct agent_order){ .handle = handle }, e);
}

int agent_send_resize(struct agent *a, uint32_t handle, uint16_t rows, uint16_t cols, struct err *e)
{
	const struct agent_order o = { .handle = handle, .rows = rows, .cols = cols };

	return agent_send_order(a, AGENT_RESIZE, &o, e);
}

int agent_send_forget(struct agent *a, uint32_t handle, struct err *e)
{
	return agent_send_order(a, AGENT_FORGET, &(struct agent_order){ .handle = handle }, e);
}

int agent_queue_forget(struct agent *a, uint32_t handle, struct err *e)
{
	return agent_queue_order(a, AGENT_FORGET, &(struct agent_order){ .handle = handle }, e);
}

static uint64_t agent_bounded(uint64_t ms)
{
	return ms < AGENT_TIME_MAX_MS ? ms : AGENT_TIME_MAX_MS;
}

int agent_send_paused(struct agent *a, uint64_t ms, struct err *e)
{
	return agent_send_order(a, AGENT_PAUSED, &(struct agent_order){ .ms = agent_bounded(ms) },
				e);
}

int agent_send_lease(struct agent *a, uint64_t ms, struct err *e)
{
	return agent_send_order(a, AGENT_LEASE, &(struct agent_order){ .ms = agent_bounded(ms) },
				e);
}

int agent_queue_deadline(struct agent *a, uint64_t ms, struct err *e)
{
	return agent_queue_order(a, AGENT_DEADLINE,
				 &(struct agent_order){ .ms = agent_bounded(ms) }, e);
}

int agent_send_stat(struct agent *a, struct err *e)
{
	return agent_send_order(a, AGENT_STAT, &(struct agent_order){ 0 }, e);
}

int agent_send_end(struct agent *a, struct err *e)
{
	return agent_send_order(a, AGENT_END, &(struct agent_order){ 0 }, e);
}

int agent_send_dial(struct agent *a, uint32_t handle, uint16_t port, struct err *e)
{
	return agent_send_order(a, AGENT_DIAL,
				&(struct agent_order){ .handle = handle, .port = port }, e);
}

/* Send an order with a descriptor, which it owns in any case. */
static int agent_send_order_fd(struct agent *a, enum agent_type type, const struct agent_order *o,
			       int fd, struct err *e)
{
	OWN_FD mine = fd;

	if (agent_queue_order(a, type, o, e) < 0)
		return -1;
	agent_attach(a, &mine, 1);
	return agent_flush_queue(a, e);
}

int agent_send_listen_egress(struct agent *a, int owners, struct err *e)
{
	/* Descriptors of one request can wait to be sent: this one is not needed as much. */
	if (owners >= 0 && a->fds_wait)
		io_close_all(&owners, 1);
	if (owners < 0)
		return agent_send_order(a, AGENT_LISTEN_EGRESS, &(struct agent_order){ 0 }, e);
	return agent_send_order_fd(a, AGENT_LISTEN_EGRESS, &(struct agent_order){ 0 }, owners, e);
}

int agent_send_linger(struct agent *a, int fd, uint64_t lease_ms, struct err *e)
{
	const struct agent_order o = { .ms = agent_bounded(lease_ms) };

	if (!a->fds_wait)
		return agent_send_order_fd(a, AGENT_LINGER, &o, fd, e);
	io_close_all(&fd, 1);
	return err_set(e, ERR_CONFLICT, "PID 1 has not received the previous socket yet");
}

/* BOOT or RESUME. */
static int agent_queue_boot(struct agent *a, enum agent_type type, const struct boot_request *r,
			    struct err *e)
{
	uint8_t body[BOOT_REQUEST_MAX], *at;
	size_t len = boot_request_write(r, (uint16_t)type, body);

	if (len == 0)
		return err_set(e, ERR_INVALID, "the request for a guest has values out of range");
	at = agent_reserve(a, false, FRAME_HEAD + len, e);
	if (at == NULL)
		return -1;
	frame_head(at, (uint16_t)type, (uint32_t)len);
	memcpy(at + FRAME_HEAD, body, len);
	return (int)len;
}

int agent_send_boot(struct agent *a, const struct boot_request *r, int *fds, struct err *e)
{
	size_t n = boot_fds_count(r->fds);
	int len = -1;

	if (a->fds_wait)
		(void)err_set(e, ERR_CONFLICT, "PID 1 has not received the previous socket yet");
	else
		len = agent_queue_boot(a, AGENT_BOOT, r, e);
	if (len < 0) {
		io_close_all(fds, n);
		return -1;
	}
	agent_attach(a, fds, n);
	return agent_flush_queue(a, e);
}

int agent_send_resume(struct agent *a, const struct boot_request *r, struct err *e)
{
	return agent_queue_boot(a, AGENT_RESUME, r, e) < 0 ? -1 : agent_flush_queue(a, e);
}

int agent_send_snapshot(struct agent *a, bool stay, uint64_t changes_max, struct err *e)
{
	const struct agent_order o = { .ms = changes_max / AGENT_PAGE * AGENT_PAGE |
					     (stay ? AGENT_STAY : 0) };

	return agent_send_order(a, AGENT_SNAPSHOT, &o, e);
}

void agent_read_text(const struct agent *a, const struct agent_event *v, char *ret, size_t cap)
{
	bool some = (v->flags & AGENT_HAS_TEXT) != 0 && a->nfds == 1;
	ssize_t n = some ? pread(a->fds[0], ret, cap - 1, 0) : 0;

	ret[n < 0 ? 0 : n] = '\0';
}

/* Read the message in the buffer, if it is complete. An error in its head is found as soon as the
 * head is complete. */
static int agent_take(struct agent *a, enum agent_type *ret_type, struct agent_event *ret,
		      struct err *e)
{
	struct frame f;
	int n = frame_read(a->bytes, a->have, sizeof(*ret), &f, e);

	if (n <= 0)
		return n;
	if (agent_event_read(&f, ret, e) < 0 ||
	    agent_fds_check(a, (enum agent_type)f.type, ret, e) < 0)
		return -1;
	*ret_type = (enum agent_type)f.type;
	a->have = 0;
	return 1;
}

/* 0: there is nothing to read. */
static int agent_fill(struct agent *a, struct err *e)
{
	int fds[AGENT_FDS];
	size_t nfds = 0;
	struct err why = { 0 };
	ssize_t n = untrusted_recv_fds(a->sock, a->bytes + a->have, sizeof(a->bytes) - a->have, fds,
				       AGENT_FDS, &nfds, &why);

	if (n < 0 && why.code == ERR_SYSTEM && why.sys == EAGAIN)
		return 0;
	if (n < 0) {
		*e = why;
		return -1;
	}
	if (n == 0)
		return err_set(e, ERR_SYSTEM, "PID 1 has exited");
	a->have += (uint32_t)n;
	if (a->nfds + nfds > AGENT_FDS) {
		untrusted_close(fds, nfds);
		return err_set(e, ERR_INVALID, "PID 1 sent too many descriptors");
	}
	memcpy(a->fds + a->nfds, fds, nfds * sizeof(int));
	a->nfds += (uint32_t)nfds;
	return 1;
}

/* Wait until there are bytes to read or room to send, or the time has passed. */
static void agent_wait_for(const struct agent *a, bool more, uint64_t now, uint64_t end)
{
	struct pollfd p = { .fd = a->sock, .events = POLLIN | (more ? POLLOUT : 0) };

	(void)poll(&p, 1, (int)((end - now) / CLOCK_MS) + 1);
}

int agent_next(struct agent *a, int wait_ms, enum agent_type *ret_type, struct agent_event *ret,
	       struct err *e)
{
	const uint64_t end = wait_ms == 0 ? 0 : clock_now_ns() + (unsigned)wait_ms * CLOCK_MS;

	if (a->have == 0 && a->nfds > 0) {
		untrusted_close(a->fds, a->nfds);
		a->nfds = 0;
	}
	for (;;) {
		uint64_t now = wait_ms == 0 ? 0 : clock_now_ns();
		int got = agent_take(a, ret_type, ret, e), more;

		if (got != 0)
			return got;
		/* An error here is ignored: messages that PID 1 sent before it exited are received
		 * first. */
		more = agent_flush(a, &(struct err){ 0 });
		got = agent_fill(a, e);
		if (got < 0)
			return -1;
		if (got == 0 && now >= end)
			return 0;
		if (got == 0)
			agent_wait_for(a, more > 0, now, end);
	}
}
