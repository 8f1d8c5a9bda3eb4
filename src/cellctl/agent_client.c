/* agent_client.c - theory of operation
 *
 * Out: each request is a block of a queue, composed once, sent as far as the socket accepts it, and
 * wiped when it is sent. No block is moved or copied: a request costs the same whatever waits
 * before it. Descriptors belong to a block, and are sent with its first byte. In: every message of
 * PID 1 has the same size, so one read receives at most one message. Descriptors arrive with the
 * first byte of their message. */
#include "agent_client.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "agent_fds.h"
#include "clock.h"
#include "untrusted_fd.h"
#include "io.h"

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

static void free_block(struct agent_block *b)
{
	explicit_bzero(b->bytes, b->len); /* the environment of a program may hold secrets */
	io_close_all(b->fds, b->nfds);
	free(b);
}

/* Counts n bytes less. */
static void settle(struct agent *a, size_t n)
{
	a->out_bytes -= n;
	if (a->account != NULL)
		a->account->bytes -= n;
}

/* Takes the first block away, sent or not. */
static void drop_first(struct agent *a)
{
	struct agent_block *b = a->out;

	settle(a, b->len);
	a->out = b->next;
	if (a->out == NULL)
		a->out_end = &a->out;
	a->fds_wait = a->fds_wait && b->nfds == 0;
	free_block(b);
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
		drop_first(a);
}

/* A request that a client makes again later is refused while many bytes wait (AGENT_OUT_BUSY); one
 * that ends or continues what was begun is not. */
static int check_room(const struct agent *a, bool can_wait, size_t n, struct err *e)
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
		return err_set(e, ERR_LIMIT, "PID 1 does not read requests: %zu bytes are queued",
			       a->out_bytes);
	return 0;
}

/* Appends a block of n bytes to the queue; NULL on failure. */
static uint8_t *reserve(struct agent *a, bool can_wait, size_t n, struct err *e)
{
	struct agent_block *b;

	if (check_room(a, can_wait, n, e) < 0)
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

/* Gives n descriptors to the request that was queued last; they are taken. */
static void attach(struct agent *a, int *fds, size_t n)
{
	struct agent_block *b =
		(struct agent_block *)((char *)a->out_end - offsetof(struct agent_block, next));

	for (size_t i = 0; i < n; i++)
		b->fds[i] = TAKE_FD(fds[i]);
	b->nfds = (uint32_t)n;
	a->fds_wait = a->fds_wait || n > 0;
}

/* One sendmsg(2). */
static ssize_t send_some(const struct agent *a, struct agent_block *b)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(b->fds))];
	} control;
	size_t size = b->nfds * sizeof(int);
	struct iovec iov = { .iov_base = b->bytes + b->at, .iov_len = b->len - b->at };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (size > 0 && b->at == 0) {
		memset(&control, 0, sizeof(control));
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = (__typeof__(control.head.cmsg_len))CMSG_LEN(size);
		memcpy(CMSG_DATA(&control.head), b->fds, size);
		m.msg_control = &control;
		m.msg_controllen = (__typeof__(m.msg_controllen))CMSG_SPACE(size);
	}
	return sendmsg(a->sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int agent_flush(struct agent *a, struct err *e)
{
	while (a->out != NULL) {
		struct agent_block *b = a->out;
		ssize_t n = send_some(a, b);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return 1;
		if (n < 0)
			return err_sys(e, "PID 1: send");
		b->at += (size_t)n;
		if (b->at == b->len)
			drop_first(a);
	}
	return 0;
}

static int flush_queue(struct agent *a, struct err *e)
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
	at = reserve(a, true, FRAME_HEAD + len, e);
	if (at == NULL)
		return -1;
	frame_head(at, AGENT_SPAWN, (uint32_t)len);
	agent_spawn_write(s, at + FRAME_HEAD);
	return flush_queue(a, e);
}

/* Requests that a client makes again later. SIGKILL ends what was begun. */
static bool can_wait(enum agent_type type, const struct agent_order *o)
{
	return type == AGENT_DIAL || type == AGENT_RESIZE || type == AGENT_STAT ||
	       (type == AGENT_SIGNAL && o->sig != SIGKILL);
}

static int queue_order(struct agent *a, enum agent_type type, const struct agent_order *o,
		       struct err *e)
{
	uint8_t *at;

	at = reserve(a, can_wait(type, o), FRAME_HEAD + sizeof(*o), e);
	if (at == NULL)
		return -1;
	frame_head(at, (uint16_t)type, sizeof(*o));
	memcpy(at + FRAME_HEAD, o, sizeof(*o));
	return 0;
}

static int send_order(struct agent *a, enum agent_type type, const struct agent_order *o,
		      struct err *e)
{
	return queue_order(a, type, o, e) < 0 ? -1 : flush_queue(a, e);
}

int agent_send_signal(struct agent *a, uint32_t handle, int sig, struct err *e)
{
	return send_order(a, AGENT_SIGNAL, &(struct agent_order){ .handle = handle, .sig = sig },
			  e);
}

int agent_send_kill_all(struct agent *a, struct err *e)
{
	return send_order(a, AGENT_KILL_ALL, &(struct agent_order){ 0 }, e);
}

int agent_send_kill_tree(struct agent *a, uint32_t handle, uint64_t mark, struct err *e)
{
	return send_order(a, AGENT_KILL_TREE, &(struct agent_order){ .handle = handle, .ms = mark },
			  e);
}

int agent_send_close_stdin(struct agent *a, uint32_t handle, struct err *e)
{
	return send_order(a, AGENT_CLOSE_STDIN, &(struct agent_order){ .handle = handle }, e);
}

int agent_send_resize(struct agent *a, uint32_t handle, uint16_t rows, uint16_t cols, struct err *e)
{
	const struct agent_order o = { .handle = handle, .rows = rows, .cols = cols };

	return send_order(a, AGENT_RESIZE, &o, e);
}

int agent_send_forget(struct agent *a, uint32_t handle, struct err *e)
{
	return send_order(a, AGENT_FORGET, &(struct agent_order){ .handle = handle }, e);
}

static uint64_t bounded(uint64_t ms)
{
	return ms < AGENT_TIME_MAX_MS ? ms : AGENT_TIME_MAX_MS;
}

int agent_send_paused(struct agent *a, uint64_t ms, struct err *e)
{
	return send_order(a, AGENT_PAUSED, &(struct agent_order){ .ms = bounded(ms) }, e);
}

int agent_send_lease(struct agent *a, uint64_t ms, struct err *e)
{
	return send_order(a, AGENT_LEASE, &(struct agent_order){ .ms = bounded(ms) }, e);
}

int agent_queue_deadline(struct agent *a, uint64_t ms, struct err *e)
{
	return queue_order(a, AGENT_DEADLINE, &(struct agent_order){ .ms = bounded(ms) }, e);
}

int agent_send_stat(struct agent *a, struct err *e)
{
	return send_order(a, AGENT_STAT, &(struct agent_order){ 0 }, e);
}

int agent_send_end(struct agent *a, struct err *e)
{
	return send_order(a, AGENT_END, &(struct agent_order){ 0 }, e);
}

int agent_send_dial(struct agent *a, uint32_t handle, uint16_t port, struct err *e)
{
	return send_order(a, AGENT_DIAL, &(struct agent_order){ .handle = handle, .port = port },
			  e);
}

/* Sends an order with a descriptor, which is taken over in any case. */
static int send_order_fd(struct agent *a, enum agent_type type, const struct agent_order *o, int fd,
			 struct err *e)
{
	OWN_FD mine = fd;

	if (queue_order(a, type, o, e) < 0)
		return -1;
	attach(a, &mine, 1);
	return flush_queue(a, e);
}

int agent_send_listen_egress(struct agent *a, int owners, struct err *e)
{
	/* Descriptors of one request can wait to be sent: this one is not needed as much. */
	if (owners >= 0 && a->fds_wait)
		io_close_all(&owners, 1);
	if (owners < 0)
		return send_order(a, AGENT_LISTEN_EGRESS, &(struct agent_order){ 0 }, e);
	return send_order_fd(a, AGENT_LISTEN_EGRESS, &(struct agent_order){ 0 }, owners, e);
}

int agent_send_linger(struct agent *a, int fd, uint64_t lease_ms, struct err *e)
{
	const struct agent_order o = { .ms = bounded(lease_ms) };

	if (!a->fds_wait)
		return send_order_fd(a, AGENT_LINGER, &o, fd, e);
	io_close_all(&fd, 1);
	return err_set(e, ERR_CONFLICT, "PID 1 has not received the previous socket yet");
}

/* BOOT or RESUME. */
static int queue_boot(struct agent *a, enum agent_type type, const struct boot_request *r,
		      struct err *e)
{
	uint8_t body[BOOT_REQUEST_MAX], *at;
	size_t len = boot_request_write(r, (uint16_t)type, body);

	if (len == 0)
		return err_set(e, ERR_INVALID, "the request for a guest has values out of range");
	at = reserve(a, false, FRAME_HEAD + len, e);
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
		len = queue_boot(a, AGENT_BOOT, r, e);
	if (len < 0) {
		io_close_all(fds, n);
		return -1;
	}
	attach(a, fds, n);
	return flush_queue(a, e);
}

int agent_send_resume(struct agent *a, const struct boot_request *r, struct err *e)
{
	return queue_boot(a, AGENT_RESUME, r, e) < 0 ? -1 : flush_queue(a, e);
}

int agent_send_snapshot(struct agent *a, bool stay, uint64_t changes_max, struct err *e)
{
	const struct agent_order o = { .ms = changes_max / AGENT_PAGE * AGENT_PAGE |
					     (stay ? AGENT_STAY : 0) };

	return send_order(a, AGENT_SNAPSHOT, &o, e);
}

void agent_read_text(const struct agent *a, const struct agent_event *v, char *ret, size_t cap)
{
	bool some = (v->flags & AGENT_HAS_TEXT) != 0 && a->nfds == 1;
	ssize_t n = some ? pread(a->fds[0], ret, cap - 1, 0) : 0;

	ret[n < 0 ? 0 : n] = '\0';
}

/* Reads the message in the buffer, if it is complete. An error in its head is found as soon as the
 * head is complete. */
static int take(struct agent *a, enum agent_type *ret_type, struct agent_event *ret, struct err *e)
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
static int fill(struct agent *a, struct err *e)
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

/* Until there is something to read or to be sent, or the time is over. */
static void wait_for(const struct agent *a, bool more, uint64_t now, uint64_t end)
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
		int got = take(a, ret_type, ret, e), more;

		if (got != 0)
			return got;
		/* An error here is ignored: messages that PID 1 sent before it exited are received
		 * first. */
		more = agent_flush(a, &(struct err){ 0 });
		got = fill(a, e);
		if (got < 0)
			return -1;
		if (got == 0 && now >= end)
			return 0;
		if (got == 0)
			wait_for(a, more > 0, now, end);
	}
}
