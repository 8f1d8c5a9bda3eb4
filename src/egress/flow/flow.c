/* flow.c - the list of flows, their end and their records. See flow.h. */
#include "egress/flow/flow.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "egress/control/access_record.h"
#include "egress/control/session_limits.h"
#include "egress/flow/tls_hello.h"
#include "lib/base/clock.h"
#include "lib/base/list.h"

#define RECHECK_NS (25 * CLOCK_MS) /* of processor time, in one turn */

void flow_reset_fd(int fd)
{
	const struct linger now = { .l_onoff = 1 };

	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	fd_close(fd);
}

struct flow *flow_new(struct egress_session *session, int fd)
{
	struct flow *f = calloc(1, sizeof(*f));

	if (!f) {
		resource_share_give_fds(&session->share, RESOURCE_SHARE_FLOW_FDS);
		flow_reset_fd(fd);
		return NULL;
	}
	f->session = session;
	f->fd = fd;
	f->watch.fd = -1;
	f->outbound.fd = -1;
	f->start_ns = loop_now_ns(session->egress->loop);
	f->next = session->flows;
	if (f->next)
		f->next->prev = f;
	session->flows = f;
	session->nflows++;
	return f;
}

void flow_end(struct flow *f, bool cut)
{
	struct egress_session *session = f->session;
	struct loop *l = session->egress->loop;

	loop_timer_cancel(l, &f->timer);
	loop_remove(l, &f->watch);
	if (f->stage)
		f->stage->on_end(f, cut);
	free(f->first);
	if (f->fd >= 0 && cut)
		flow_reset_fd(f->fd);
	else if (f->fd >= 0)
		fd_close(f->fd);
	if (f->counted)
		session_limits_connection_over(session);
	if (f->counted_by)
		f->counted_by->connections--;
	resource_share_give_fds(&session->share, RESOURCE_SHARE_FLOW_FDS);
	LIST_GONE(f);
	*(f->prev ? &f->prev->next : &session->flows) = f->next;
	if (f->next)
		f->next->prev = f->prev;
	session->nflows--;
	free(f);
}

void flow_record(struct flow *f, bool allowed, const char *reason)
{
	struct access_record r = { .kind = ACCESS_RECORD_CONNECT,
				   .start_ns = f->start_ns,
				   .owner = &f->owner,
				   .name = f->endpoint.host[0] ? f->endpoint.host : NULL,
				   .port = f->endpoint.port,
				   .scheme = f->scheme,
				   .tls = f->tls,
				   .allowed = allowed,
				   .rule = f->answer.rule,
				   .reason = reason,
				   .bytes_out = f->out,
				   .bytes_in = f->in,
				   .proxied = f->proxied };

	if (!r.name && f->sni[0])
		r.name = f->sni;
	if (f->connected)
		r.ip = &f->at;
	else if (!f->endpoint.by_name && !f->endpoint.host[0])
		r.ip = &f->endpoint.ip;
	access_record_send(f->session, &r);
}

/* Bytes already here are read first: close(2) with unread bytes sends a reset, which may overtake
 * the alert. */
static void send_alert(int fd, int description)
{
	uint8_t alert[TLS_HELLO_ALERT_LEN], rest[TLS_HELLO_MAX];

	tls_hello_alert(alert, description);
	for (int i = 0; i < 4 && recv(fd, rest, sizeof(rest), MSG_DONTWAIT) > 0; i++)
		continue;
	(void)send(fd, alert, sizeof(alert), MSG_NOSIGNAL | MSG_DONTWAIT);
	(void)shutdown(fd, SHUT_WR);
}

void flow_refuse(struct flow *f, const char *reason, int alert)
{
	flow_record(f, false, reason);
	if (alert > 0)
		send_alert(f->fd, alert);
	flow_end(f, alert <= 0);
}

bool flow_count(struct flow *f, int alert)
{
	const char *why;

	if (f->counted)
		return true;
	f->counted = session_limits_connection(f->session, &why);
	if (f->counted && flow_count_by(f, f->answer.rule, &why))
		return true;
	flow_refuse(f, why, alert);
	return false;
}

bool flow_count_by(struct flow *f, const struct policy_rule *rule, const char **ret_why)
{
	return session_limits_connection_by(f->session, rule, &f->counted_by, ret_why);
}

void flow_judge(struct flow *f)
{
	struct policy_target to = endpoint_target(&f->endpoint);

	f->answer = (struct policy_answer){ .verdict = POLICY_REFUSE };
	if (!f->endpoint.no_name) {
		policy_connect(f->session->policy, &to, &f->answer);
		return;
	}
	(void)snprintf(f->answer.reason, sizeof(f->answer.reason),
		       "no host name has this address (any more): resolve the name again");
}

static void cut_one(struct flow *f, const char *why)
{
	f->cut = why;
	if (f->stage->recorded)
		flow_record(f, true, f->cut);
	flow_end(f, true);
}

/* All in one turn, since the old policy ends with it. So those are cut that a long policy leaves no
 * time for. */
void flow_recheck_all(struct egress_session *session, const struct secrets *was)
{
	uint64_t since_ns = resource_share_cpu_ns();

	/* alone: a stage ends its own flow at most */
	LIST_WALK_ENDING(struct flow, f, session->flows) {
		if (resource_share_cpu_ns() - since_ns < RECHECK_NS)
			f->stage->on_policy_change(f, was);
		else
			cut_one(f, "the policy changed, and takes too long to compare");
	}
}

void flow_cut_all(struct egress_session *session)
{
	while (session->flows)
		cut_one(session->flows, "the session's network was closed");
}
