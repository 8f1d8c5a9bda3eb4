/* flow_relay.c - two stages of a flow relayed unread: dialing, and relaying. Either its first bytes
 * were looked at before, or a rule allows any bytes. */
#include "egress/flow/flow_relay.h"

#include <stdio.h>
#include <stdlib.h>

#include "egress/control/session_limits.h"
#include "egress/control/session_outbound.h"
#include "egress/flow/splice_relay.h"
#include "egress/flow/tls_hello.h"

#define IDLE_MS 900000

static void on_policy_change(struct flow *f, const struct secrets *was);

static void on_end_dialing(struct flow *f, bool cut)
{
	outbound_cancel(&f->outbound);
}

static void on_end_relaying(struct flow *f, bool cut)
{
	splice_relay_free(f->relay);
}

static const struct flow_stage dialing = { .on_end = on_end_dialing,
					   .on_policy_change = on_policy_change,
					   .recorded = true };
static const struct flow_stage relaying = { .on_end = on_end_relaying,
					    .on_policy_change = on_policy_change,
					    .recorded = true };

static uint64_t bytes_left(void *arg, bool out, const char **ret_why)
{
	struct flow *f = arg;

	return session_limits_left(f->session, f->answer.rule, out ? LIMIT_OUT : LIMIT_IN, 1,
				   ret_why);
}

static void on_moved(void *arg, bool out, uint64_t n)
{
	struct flow *f = arg;

	*(out ? &f->out : &f->in) += n;
	session_limits_moved(f->session, f->answer.rule, out ? LIMIT_OUT : LIMIT_IN, n);
	resource_share_turn_moved(&f->session->share, n);
}

static uint64_t turn_left(void *arg)
{
	struct flow *f = arg;

	return resource_share_turn_left(&f->session->share);
}

static void on_relay_end(void *arg, const char *why)
{
	struct flow *f = arg;

	flow_record(f, true, f->cut ? f->cut : why);
	flow_end(f, false); /* frees the relay, too */
}

static void on_connected(struct outbound *o, int fd, const struct ip *ip, const struct err *e)
{
	struct flow *f = o->arg;
	struct loop *l = f->session->egress->loop;
	struct err failed = { 0 };
	struct splice_relay_options p = { .cell = f->fd,
					  .server = fd,
					  .first = f->first,
					  .first_n = f->first_n,
					  .idle_ms = IDLE_MS,
					  .bytes_left = bytes_left,
					  .on_moved = on_moved,
					  .turn_left = turn_left,
					  .on_end = on_relay_end,
					  .arg = f };

	if (fd < 0) {
		if (e->code == ERR_DENIED) {
			flow_refuse(f, e->msg, f->tls ? TLS_ALERT_ACCESS_DENIED : 0);
			return;
		}
		flow_record(f, true, e->msg);
		flow_end(f, true);
		return;
	}
	f->at = *ip;
	f->connected = true;
	loop_remove(l, &f->watch);
	f->fd = -1;
	f->stage = &relaying;
	f->relay = splice_relay_new(l, &p, &failed);
	free(f->first);
	f->first = NULL;
	if (!f->relay) {
		flow_record(f, true, failed.msg);
		flow_end(f, true);
	}
}

/* While egress connects, only the end of the program's side is watched. */
static void on_gone(struct loop_fd *w, uint32_t events)
{
	struct flow *f = w->arg;

	flow_record(f, true, "the program closed the connection before egress was connected");
	flow_end(f, true);
}

/* If the policy's default allows all, ports 80 and 443 are still looked at: the record then has a
 * host name. */
bool flow_is_raw(const struct flow *f)
{
	return f->answer.verdict == POLICY_PERMIT && f->answer.raw &&
	       (f->answer.rule || (f->endpoint.port != 80 && f->endpoint.port != 443));
}

void flow_relay(struct flow *f)
{
	struct policy_target to = endpoint_target(&f->endpoint);
	int alert = f->tls ? TLS_ALERT_ACCESS_DENIED : 0;
	struct err e;
	const char *why;

	if (!flow_count(f, alert))
		return;
	if (!session_limits_any_left(f->session, f->answer.rule, &why) ||
	    !session_limits_request(f->session, f->answer.rule, &why)) {
		flow_refuse(f, why, alert);
		return;
	}
	f->stage = &dialing;
	f->watch = (struct loop_fd){ .fd = -1, .on_ready = on_gone, .arg = f };
	if (loop_add(f->session->egress->loop, &f->watch, f->fd, 0, &e) < 0) {
		flow_refuse(f, e.msg, alert);
		return;
	}
	f->outbound = (struct outbound){ .on_done = on_connected, .arg = f };
	session_outbound(f->session, &to, &f->outbound);
}

/* Does the new policy allow the address of the connection? A flow not yet connected is dialed again
 * by the new policy. */
static bool may_stay(struct flow *f, struct err *ret_why)
{
	struct policy_target to = endpoint_target(&f->endpoint);

	if (f->connected)
		return outbound_complies(f->session->policy, &to, &f->at, ret_why);
	outbound_cancel(&f->outbound);
	session_outbound(f->session, &to, &f->outbound);
	return true;
}

static void on_policy_change(struct flow *f, const struct secrets *was)
{
	struct policy_answer old = f->answer;
	char why[POLICY_REASON_MAX + 32];
	struct err e = { 0 };
	bool unread;

	flow_judge(f);
	unread = f->answer.verdict == POLICY_PERMIT &&
		 (f->answer.raw ||
		  (f->tls && (!f->answer.rule || f->answer.rule->tls != POLICY_TLS_TERMINATE)));
	if (unread && may_stay(f, &e))
		return;
	if (unread)
		(void)snprintf(why, sizeof(why), "the policy changed: %.*s", POLICY_REASON_MAX,
			       e.msg);
	else if (f->answer.verdict == POLICY_REFUSE)
		(void)snprintf(why, sizeof(why), "the policy changed: %s", f->answer.reason);
	else
		(void)snprintf(why, sizeof(why),
			       "the policy changed: its requests must be inspected now");
	f->answer = old; /* the rule that allowed it: the old policy is freed after this */
	flow_record(f, false, why);
	flow_end(f, true);
}
