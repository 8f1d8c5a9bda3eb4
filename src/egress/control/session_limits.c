/* session_limits.c - theory of operation
 *
 * The caller asks how many bytes may be moved right before it moves them, and counts them right
 * after, in one thread: so all connections together never exceed a limit. The bytes that
 * session_limits_left() allows have been claimed from cordond before (limit_usage.h): the message
 * is in the channel's socket when it returns, unless the socket is full. */
#include "egress/control/session_limits.h"

#include "egress/control/session_counts.h"
#include "lib/base/clock.h"

#define MINUTE_NS (60000 * CLOCK_MS)

int session_limits_renew(struct egress_session *session, struct err *e)
{
	return limit_usage_renew(&session->used, session->policy) < 0
		       ? err_set(e, ERR_SYSTEM, "out of memory")
		       : 0;
}

/* ---- connections */

static bool room_for_connection(const struct policy_limits *l, const struct limit_usage *u)
{
	return l->connections == 0 || u->connections < l->connections;
}

bool session_limits_connection(struct egress_session *session, const char **ret_why)
{
	*ret_why = "this session has too many connections";
	if (!room_for_connection(policy_limits(session->policy), &session->used.own))
		return false;
	session->used.own.connections++;
	session->counts.connections++;
	return true;
}

void session_limits_connection_over(struct egress_session *session)
{
	session->used.own.connections--;
}

bool session_limits_connection_by(struct egress_session *session, const struct policy_rule *rule,
				  struct limit_usage **by, const char **ret_why)
{
	struct limit_usage *u = limit_usage_of(&session->used, rule);

	if (u == *by)
		return true;
	*ret_why = "the rule's limit of connections is reached";
	if (u != NULL && !room_for_connection(&rule->limits, u))
		return false;
	if (*by != NULL)
		(*by)->connections--;
	if (u != NULL)
		u->connections++;
	*by = u;
	return true;
}

/* ---- requests: a bucket that holds a minute's worth and fills evenly */

static bool take_request(const struct policy_limits *l, struct limit_usage *u, uint64_t now)
{
	uint64_t each;

	if (l->requests_per_minute == 0)
		return true;
	each = MINUTE_NS / l->requests_per_minute;
	if (u->full_ns < now)
		u->full_ns = now;
	if (u->full_ns - now + each > MINUTE_NS)
		return false;
	u->full_ns += each;
	return true;
}

bool session_limits_request(struct egress_session *session, const struct policy_rule *rule,
			    const char **ret_why)
{
	uint64_t now = loop_now_ns(session->egress->loop);
	struct limit_usage *of_rule = limit_usage_of(&session->used, rule);

	*ret_why = "the rule's limit of requests per minute is reached";
	if (of_rule != NULL && !take_request(&rule->limits, of_rule, now))
		return false;
	*ret_why = "this session's limit of requests per minute is reached";
	if (!take_request(policy_limits(session->policy), &session->used.own, now))
		return false;
	session->counts.requests++;
	return true;
}

/* ---- bytes */

static uint64_t limit_of(const struct policy_limits *l, enum limit_way way)
{
	return way == LIMIT_OUT ? l->bytes_out : l->bytes_in;
}

uint64_t session_limits_left(struct egress_session *session, const struct policy_rule *rule,
			     enum limit_way way, uint64_t want, const char **ret_why)
{
	struct limit_usage *own = &session->used.own,
			   *of_rule = limit_usage_of(&session->used, rule);
	uint64_t left =
		limit_usage_left(own, way, limit_of(policy_limits(session->policy), way), want);
	uint64_t by_rule = of_rule == NULL ? UINT64_MAX
					   : limit_usage_left(of_rule, way,
							      limit_of(&rule->limits, way), want);

	*ret_why = left <= by_rule ? "this session's limit of bytes is reached"
				   : "the rule's limit of bytes is reached";
	if (own->due || (of_rule != NULL && of_rule->due))
		session_counts_claim(session, of_rule);
	return left < by_rule ? left : by_rule;
}

bool session_limits_any_left(struct egress_session *session, const struct policy_rule *rule,
			     const char **ret_why)
{
	return session_limits_left(session, rule, LIMIT_OUT, 1, ret_why) > 0 &&
	       session_limits_left(session, rule, LIMIT_IN, 1, ret_why) > 0;
}

void session_limits_moved(struct egress_session *session, const struct policy_rule *rule,
			  enum limit_way way, uint64_t n)
{
	struct limit_usage *of_rule = limit_usage_of(&session->used, rule);

	limit_usage_moved(&session->used.own, way, n);
	if (of_rule != NULL) {
		limit_usage_moved(of_rule, way, n);
		session->used.unsent = session->used.unsent || of_rule->unsent;
	}
	*(way == LIMIT_OUT ? &session->counts.bytes_out : &session->counts.bytes_in) += n;
}
