/* flow_pass.c - connections that are passed on unseen: what they are was looked at before, or the
 * rule says that it does not matter. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "flow_inside.h"
#include "tls_hello.h"
#include "session_limits.h"
#include "splice_relay.h"

static uint64_t on_left(void *arg, bool out, const char **ret_why)
{
	struct flow *f = arg;

	return limits_left(f->session, f->answer.rule, out ? USED_OUT : USED_IN, 1, ret_why);
}

static void on_moved(void *arg, bool out, uint64_t n)
{
	struct flow *f = arg;

	*(out ? &f->out : &f->in) += n;
	limits_moved(f->session, f->answer.rule, out ? USED_OUT : USED_IN, n);
	share_turn_moved(f->session, n);
}

static uint64_t on_turn(void *arg)
{
	struct flow *f = arg;

	return share_turn_left(f->session);
}

static void on_over(void *arg, const char *why)
{
	struct flow *f = arg;

	flow_record(f, true, f->cut ? f->cut : why);
	flow_end(f, false); /* frees the pass, too */
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
					  .idle_ms = FLOW_PASS_IDLE_MS,
					  .left = on_left,
					  .moved = on_moved,
					  .turn = on_turn,
					  .over = on_over,
					  .arg = f };

	if (fd < 0) {
		if (e->code == ERR_DENIED) {
			flow_refuse(f, e->msg, f->tls ? HELLO_ACCESS_DENIED : 0);
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
	f->state = FLOW_PASS;
	f->pass = splice_relay_new(l, &p, &failed);
	free(f->first);
	f->first = NULL;
	if (!f->pass) {
		flow_record(f, true, failed.msg);
		flow_end(f, true);
	}
}

/* While it is being connected only its end matters. */
static void on_gone(struct loop_fd *w, uint32_t events)
{
	struct flow *f = w->arg;

	(void)events;
	flow_record(f, true, "the program gave up before it was connected");
	flow_end(f, true);
}

/* By the default everything is allowed, but where nearly all is TLS or HTTP it is looked at, for
 * the record. */
bool flow_is_raw(const struct flow *f)
{
	return f->answer.verdict == POLICY_PERMIT && f->answer.raw &&
	       (f->answer.rule || (f->endpoint.port != 80 && f->endpoint.port != 443));
}

void flow_pass(struct flow *f)
{
	struct policy_target to = endpoint_target(&f->endpoint);
	int alert = f->tls ? HELLO_ACCESS_DENIED : 0;
	struct err e;
	const char *why;

	if (!flow_count(f, alert))
		return;
	if (!limits_any_left(f->session, f->answer.rule, &why) ||
	    !limits_request(f->session, f->answer.rule, &why)) {
		flow_refuse(f, why, alert);
		return;
	}
	f->state = FLOW_DIAL;
	f->watch = (struct loop_fd){ .fd = -1, .ready = on_gone, .arg = f };
	if (loop_add(f->session->egress->loop, &f->watch, f->fd, 0, &e) < 0) {
		flow_refuse(f, e.msg, alert);
		return;
	}
	f->outbound = (struct outbound){ .done = on_connected, .arg = f };
	outbound_start(f->session, &to, &f->outbound);
}

/* Where it leads may be denied now. What is not connected yet begins anew, by the new policy. */
static bool leads_on(struct flow *f, struct err *ret_why)
{
	struct policy_target to = endpoint_target(&f->endpoint);

	if (f->connected)
		return outbound_complies(f->session, &to, &f->at, ret_why);
	outbound_cancel(&f->outbound);
	outbound_start(f->session, &to, &f->outbound);
	return true;
}

void flow_pass_recheck(struct flow *f)
{
	struct policy_answer old = f->answer;
	char why[POLICY_REASON_MAX + 32];
	struct err e = { 0 };
	bool unseen;

	flow_judge(f);
	unseen = f->answer.verdict == POLICY_PERMIT &&
		 (f->answer.raw ||
		  (f->tls && (!f->answer.rule || f->answer.rule->tls != POLICY_TLS_TERMINATE)));
	if (unseen && leads_on(f, &e))
		return;
	if (unseen)
		(void)snprintf(why, sizeof(why), "the policy changed: %.*s", POLICY_REASON_MAX,
			       e.msg);
	else if (f->answer.verdict == POLICY_REFUSE)
		(void)snprintf(why, sizeof(why), "the policy changed: %s", f->answer.reason);
	else
		(void)snprintf(why, sizeof(why), "the policy changed: it must be looked at now");
	f->answer = old; /* by which it was there; it lives until this is over */
	flow_record(f, false, why);
	flow_end(f, true);
}
