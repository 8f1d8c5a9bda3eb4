/* owner_query.c - theory of operation
 *
 * A question is asked when a connection is accepted, and the connection waits for the answer, some
 * tens of microseconds, for at most OWNER_WAIT_MS (flow_accept.c): a program whose connection is
 * answered at once may be gone before it was looked for. A cell that did not answer in time
 * once, because it hangs or because it wants to, makes no connection wait until it answers again.
 *
 * A port may be used again by another program as soon as a connection is reset. So an answer counts
 * only if the connection that it is for is still established: then no other socket of the cell can
 * have had its addresses and ports in between. */
#include "egress/flow/owner_query.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "egress/flow/flow.h"
#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/base/untrusted_fd.h"

#define ANSWERS_PER_TURN 64
#define UNANSWERED_MAX EGRESS_SESSION_FLOWS_MAX
#define FORGET_NS (1000 * CLOCK_MS) /* questions without an answer count for this long */

static struct flow *owner_query_find(const struct egress_session *session, uint64_t id)
{
	struct flow *f = session->flows;

	while (f != NULL && f->owner.id != id)
		f = f->next;
	return f;
}

static bool is_established(int fd)
{
	uint8_t state = 0; /* the first member of struct tcp_info */
	socklen_t len = sizeof(state);

	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &state, &len) == 0 &&
	       (state == TCP_ESTABLISHED || state == TCP_CLOSE_WAIT);
}

static void owner_query_settle(struct flow *f, const struct owner_answer *a)
{
	f->owner.id = 0;
	f->owner.result = (enum owner_result)a->result;
	f->owner.mark = a->mark;
	if (a->result == OWNER_FOUND && !is_established(f->fd)) {
		f->owner.result = OWNER_GONE;
		f->owner.mark = 0;
	}
	f->owner.on_answer(f);
}

static void on_answer(struct egress_session *session, const struct owner_answer *a)
{
	struct flow *f = a->id == 0 ? NULL : owner_query_find(session, a->id);

	session->owners.slow = false;
	if (session->owners.unanswered > 0)
		session->owners.unanswered--;
	if (f != NULL)
		owner_query_settle(f, a);
}

/* The cell has closed the socket, or does not keep to the protocol. */
static void give_up_all(struct egress_session *session)
{
	const struct owner_answer none = { .result = OWNER_UNSUPPORTED };
	owner_query_close(session);
	LIST_WALK_ENDING(struct flow, f, session->flows) {
		/* alone: a settled flow ends itself at most */
		if (f->owner.id != 0)
			owner_query_settle(f, &none);
	}
}

static void on_ready(struct loop_fd *w, uint32_t events)
{
	struct egress_session *session = w->arg;
	uint8_t bytes[sizeof(struct owner_answer) + 1]; /* a longer one is seen as such */
	struct owner_answer a;
	struct err e;

	for (unsigned i = 0; i < ANSWERS_PER_TURN; i++) {
		size_t nfds;
		ssize_t n = untrusted_recv_fds(session->owners.sock, bytes, sizeof(bytes), NULL, 0,
					       &nfds, &e);

		if (n < 0 && e.code == ERR_SYSTEM && e.sys == EAGAIN)
			return;
		if (n <= 0 || owner_answer_read(bytes, (size_t)n, &a, &e) < 0) {
			give_up_all(session);
			return;
		}
		on_answer(session, &a);
		if (session->owners.unanswered == 0)
			return; /* usually there are no more */
	}
}

static bool is_usable(int sock)
{
	int family = 0, type = 0;
	socklen_t len = sizeof(int);

	return getsockopt(sock, SOL_SOCKET, SO_DOMAIN, &family, &len) == 0 && family == AF_UNIX &&
	       getsockopt(sock, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_SEQPACKET;
}

void owner_query_open(struct egress_session *session, int sock)
{
	struct owner_link *l = &session->owners;
	struct err e;

	owner_query_close(session);
	l->slow = false;
	l->unanswered = 0;
	if (sock < 0)
		return;
	l->sock = sock;
	l->watch = (struct loop_fd){ .fd = -1, .on_ready = on_ready, .arg = session };
	if (!is_usable(sock) || loop_add(session->egress->loop, &l->watch, sock, EPOLLIN, &e) < 0)
		owner_query_close(session);
}

void owner_query_close(struct egress_session *session)
{
	loop_remove(session->egress->loop, &session->owners.watch);
	untrusted_close(&session->owners.sock, 1);
}

static bool may_ask(struct owner_link *l, uint64_t now)
{
	if (l->unanswered > 0 && now - l->asked_ns > FORGET_NS)
		l->unanswered = 0;
	return l->unanswered < (l->slow ? 1 : UNANSWERED_MAX);
}

bool owner_query_ask(struct flow *f, const struct ip *from, uint16_t from_port, const struct ip *to,
		     uint16_t to_port)
{
	struct owner_link *l = &f->session->owners;
	uint64_t now = loop_now_ns(f->session->egress->loop);
	struct owner_question q = { .id = ++l->last_id,
				    .from_port = from_port,
				    .to_port = to_port };

	f->owner.result = OWNER_UNSUPPORTED;
	if (l->sock < 0)
		return false;
	f->owner.result = l->slow ? OWNER_LATE : OWNER_TOO_MANY;
	memcpy(q.from, from->b, sizeof(q.from));
	memcpy(q.to, to->b, sizeof(q.to));
	if (!may_ask(l, now) ||
	    send(l->sock, &q, sizeof(q), MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof(q))
		return false;
	l->asked_ns = now;
	l->unanswered++;
	if (l->slow)
		return false;
	f->owner.id = q.id;
	return true;
}

void owner_query_give_up(struct flow *f)
{
	f->owner.id = 0;
	f->owner.result = OWNER_LATE;
	f->session->owners.slow = true;
}
