/* gateway.c - theory of operation
 *
 * A gateway is two streams and a state. On every event (bytes, room, a connection, a timer)
 * gateway_advance() makes steps until nothing moves, then sets what to wait for. A request is open
 * from its head to the end of its answer (`has_request`). gateway_done() ends and records it.
 * Between requests only the two streams are left of the last one.
 *
 * Bounds: one head, GATEWAY_STREAM_IN_MAX and GATEWAY_STREAM_OUT_MAX each way. Bytes that cannot be
 * sent on are not read: the kernel's buffers fill, and the sender waits. */
#include "egress/gateway/gateway.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "egress/gateway/gateway_answer.h"
#include "egress/gateway/gateway_body.h"
#include "egress/gateway/gateway_end.h"
#include "egress/gateway/gateway_file.h"
#include "egress/gateway/gateway_judge.h"
#include "egress/gateway/gateway_request.h"
#include "egress/gateway/gateway_server.h"
#include "egress/gateway/gateway_splice.h"
#include "egress/gateway/gateway_tap.h"
#include "egress/gateway/llm_call.h"
#include "lib/base/clock.h"

#define ROUNDS_MAX 32 /* steps per call: then other connections are served */
#define DROP_MAX ((size_t)64 * 1024)
#define IDLE_MAX                                                                        \
	((size_t)16 * 1024) /* bytes of input kept while a request waits for its answer \
			     */

/* ---- steps: each returns whether anything moved */

static bool step_handshake(struct gateway *x)
{
	struct err e = { 0 };
	int done = gateway_stream_handshake(&x->cell, &e);

	if (done == 0)
		return false;
	if (done > 0) {
		x->state = GATEWAY_HEAD;
		gateway_wait(x, GATEWAY_HEAD_MS);
		return true;
	}
	flow_record(x->flow, true,
		    "the program ended the TLS handshake: it does not trust this node's egress CA, "
		    "or pins certificates (which needs a rule with tls pass)");
	x->over = true;
	return true;
}

static void bad_head(struct gateway *x, int status, const char *words)
{
	x->has_request = true;
	x->start_ns = loop_now_ns(x->loop);
	x->endpoint = x->flow->endpoint;
	memset(&x->r, 0, sizeof(x->r));
	/* not done: so the connection is closed after the answer */
	x->out = (struct gateway_body){ 0 };
	gateway_fail(x, status, words);
}

static int head_end(struct gateway *x)
{
	if (x->cell.in.len == 0)
		return 0;
	return http1_head_end((char *)fifo_bytes(&x->cell.in), x->cell.in.len, &x->scanned);
}

/* The head is not complete: reads more of it. */
static bool read_head(struct gateway *x)
{
	bool began = x->cell.in.len == 0, filled;

	if (x->cell.in.len >= FLOW_HEAD_MAX) {
		bad_head(x, 431, "the head of the request is too long");
		return true;
	}
	filled = gateway_stream_fill(&x->cell, FLOW_HEAD_MAX);
	if (x->cell.write_broken || x->cell.broken || (x->cell.ended && !filled) ||
	    (x->cell.ended && x->cell.in.len == 0))
		x->over = true;
	else if (began && x->cell.in.len > 0 && !x->first)
		gateway_wait(x, GATEWAY_HEAD_MS);
	return filled || x->over;
}

static bool step_head(struct gateway *x)
{
	bool moved = gateway_stream_flush(&x->cell);
	int n;

	if (gateway_stream_room(&x->cell) == 0 && !x->cell.write_broken)
		return moved; /* the program does not read its answers: no more requests are read */
	n = x->cell.write_broken ? 0 : head_end(x);
	if (n == 0)
		return read_head(x) || moved;
	x->first = false;
	if (n < 0)
		bad_head(x, 400,
			 "the head of the request contains a control byte, or a CR or LF alone");
	else
		gateway_request(x, (size_t)n);
	return true;
}

static bool step_collect(struct gateway *x)
{
	bool moved = gateway_stream_flush(&x->cell);

	moved = gateway_stream_fill(&x->cell, GATEWAY_STREAM_IN_MAX) || moved;
	if (x->cell.broken || x->cell.write_broken) {
		gateway_client_gone(x);
		return true;
	}
	if (moved)
		gateway_wait(x, GATEWAY_ANSWER_MS);
	gateway_collect(x);
	return moved || x->state != GATEWAY_COLLECT;
}

static bool step_exchange(struct gateway *x)
{
	bool moved = gateway_body_out(x);

	if (x->over || (x->state != GATEWAY_EXCHANGE && x->state != GATEWAY_TUNNEL))
		return true;
	/* Reads the next request, or the end of the connection, so that epoll does not report it
	 * again. */
	if (x->out.done && x->cell.in.len == 0)
		moved = gateway_stream_fill(&x->cell, FLOW_HEAD_MAX) || moved;
	moved = gateway_answer(x) || moved;
	if (x->over || (x->state != GATEWAY_EXCHANGE && x->state != GATEWAY_TUNNEL))
		return true;
	if (x->cell.broken || x->cell.write_broken) {
		gateway_client_gone(x);
		return true;
	}
	if (moved)
		gateway_wait(x, x->state == GATEWAY_TUNNEL ? GATEWAY_TUNNEL_MS : GATEWAY_ANSWER_MS);
	return moved;
}

static bool step_dial(struct gateway *x)
{
	if (x->cell.broken) {
		gateway_client_gone(x);
		return true;
	}
	return gateway_dial_step(x);
}

/* The gate continues by itself. Only the program's end is noticed here. */
static bool step_package(struct gateway *x)
{
	bool moved = false;

	if (x->out.done && x->cell.in.len == 0)
		moved = gateway_stream_fill(&x->cell, FLOW_HEAD_MAX);
	if (x->cell.broken || x->cell.write_broken || x->cell.ended) {
		gateway_client_gone(x);
		return true;
	}
	return moved;
}

static bool step_linger(struct gateway *x)
{
	bool moved = gateway_stream_flush(&x->cell);

	moved = gateway_stream_fill(&x->cell, DROP_MAX) || moved;
	fifo_consume(&x->cell.in, x->cell.in.len);
	if (x->cell.ended || x->cell.broken || x->cell.write_broken)
		x->over = true;
	return moved || x->over;
}

static bool gateway_step(struct gateway *x)
{
	switch (x->state) {
	case GATEWAY_HANDSHAKE:
		return step_handshake(x);
	case GATEWAY_HEAD:
		return step_head(x);
	case GATEWAY_COLLECT:
		return step_collect(x);
	case GATEWAY_PACKAGE:
		return step_package(x);
	case GATEWAY_DIAL:
		return step_dial(x);
	case GATEWAY_EXCHANGE:
	case GATEWAY_TUNNEL:
		return step_exchange(x);
	case GATEWAY_FILE:
		return gateway_file_step(x);
	case GATEWAY_LINGER:
		return step_linger(x);
	}
	return false;
}

/* ---- events */

static bool wants_cell(const struct gateway *x)
{
	switch (x->state) {
	case GATEWAY_DIAL:
		return false;
	case GATEWAY_PACKAGE:
		return x->out.done && x->cell.in.len == 0;
	case GATEWAY_EXCHANGE:
	case GATEWAY_TUNNEL:
		return x->cell.in.len < GATEWAY_STREAM_IN_MAX &&
		       (!x->out.done || x->cell.in.len == 0);
	case GATEWAY_FILE:
		return x->cell.in.len == 0;
	case GATEWAY_HEAD:
		return gateway_stream_room(&x->cell) > 0;
	case GATEWAY_HANDSHAKE:
	case GATEWAY_COLLECT:
	case GATEWAY_LINGER:
		break;
	}
	return true;
}

static void gateway_arm(struct gateway *x)
{
	gateway_stream_arm(&x->cell, wants_cell(x));
	if (x->up)
		gateway_stream_arm(&x->up->stream, x->up->stream.in.len < GATEWAY_STREAM_IN_MAX &&
							   x->piped == 0 &&
							   gateway_stream_room(&x->cell) > 0);
}

static size_t memory_of(const struct gateway *x)
{
	const struct gateway_stream *up = x->up ? &x->up->stream : NULL;

	return sizeof(*x) + x->cell.in.size + x->cell.out.size +
	       (up ? sizeof(*x->up) + up->in.size + up->out.size : 0) + x->head.size +
	       x->text.size + x->ask.size + x->collected.size + mask_stream_memory(&x->masked) +
	       llm_call_memory(x->model) + gateway_tap_memory(x) +
	       (x->gate ? x->gate->memory(x) : 0);
}

static bool gateway_recount(struct gateway *x)
{
	size_t before = x->memory;

	x->memory = memory_of(x);
	return resource_share_memory(&x->session->share, before, x->memory);
}

/* Both sides can make buffers grow. Over the session's or tenant's bound, the request that grows
 * fails. */
static void count_memory(struct gateway *x)
{
	if (x->has_request && x->out.done && x->cell.in.len == 0 && x->cell.in.size > IDLE_MAX)
		fifo_release(&x->cell.in); /* the next bytes belong to another request */
	if (gateway_recount(x) || !x->has_request || x->over)
		return;
	x->r.keep_alive = false;
	gateway_fail(x, 503, "requests of this session or its tenant use too much memory");
	if (x->state == GATEWAY_LINGER)
		fifo_release(&x->cell.in);
	(void)gateway_recount(x);
}

static void gateway_advance(struct gateway *x)
{
	int rounds = 0;

	while (!x->over && rounds < ROUNDS_MAX &&
	       resource_share_turn_left(&x->session->share) > 0 && gateway_step(x))
		rounds++;
	count_memory(x);
	if (x->over) {
		flow_end(x->flow, x->reset); /* frees x */
		return;
	}
	gateway_arm(x);
	if (rounds == ROUNDS_MAX || resource_share_turn_left(&x->session->share) == 0)
		gateway_defer(x);
}

static void on_ready(struct gateway_stream *s)
{
	gateway_advance(s->arg);
}

static void on_task(struct loop_task *t)
{
	gateway_advance(t->arg);
}

static void on_timer(struct loop_timer *t)
{
	struct gateway *x = t->arg;

	if (loop_now_ns(x->loop) < x->deadline_ns) {
		loop_timer_set(x->loop, t, x->deadline_ns);
		return;
	}
	switch (x->state) {
	case GATEWAY_HEAD:
		if (x->cell.in.len > 0)
			bad_head(x, 408, "the head of the request took too long");
		else
			x->over = true;
		break;
	case GATEWAY_COLLECT:
		gateway_fail(x, 408, "the body of the request took too long");
		break;
	case GATEWAY_PACKAGE:
		gateway_fail(x, 504, "the registry or the package cache took too long");
		break;
	case GATEWAY_DIAL:
	case GATEWAY_EXCHANGE:
		gateway_fail(x, 504, "the server took too long");
		break;
	case GATEWAY_FILE:
		gateway_fail(x, 504, "the program took too long to read the answer");
		break;
	case GATEWAY_TUNNEL:
		gateway_set_reason(x, "the connection was idle for too long");
		x->over = true;
		break;
	case GATEWAY_HANDSHAKE:
		flow_record(x->flow, true, "the program's TLS handshake took too long");
		x->over = true;
		break;
	case GATEWAY_LINGER:
		x->over = true;
		break;
	}
	gateway_advance(x);
}

/* May the request, with the secrets put into it, continue to its server by the new policy? If it is
 * not connected yet, it is dialed again. */
static bool may_stay(struct gateway *x)
{
	struct policy_target to = endpoint_target(&x->endpoint);
	bool has_secret = *secrets_use_here(&x->use) != '\0';
	struct err e = { 0 };

	if (has_secret) /* a sent secret must not be sent again */
		x->retriable = false;
	if (has_secret && x->state == GATEWAY_DIAL) {
		gateway_set_reason(x, "a secret in the request may have changed");
		return false;
	}
	if (x->up && !outbound_complies(x->session->policy, &to, &x->up->at, &e)) {
		gateway_set_reason(x, e.msg);
		return false;
	}
	if (x->outbound.call) {
		outbound_cancel(&x->outbound);
		gateway_dial(x, true);
	}
	return true;
}

static bool has_secrets(struct gateway *x, const struct secrets *was)
{
	x->use.rule = x->rule;
	x->use.now_ms = clock_wall_ms();
	if (!secrets_revoked(was, x->session->secrets, &x->use))
		return true;
	gateway_set_reason(
		x,
		"a secret in the request was removed or replaced, or is no longer allowed in it");
	return false;
}

static bool may_have_packages(struct gateway *x)
{
	return x->gate != NULL ? x->gate->on_policy_change(x)
			       : x->session->egress->package_stays(x);
}

static void on_policy_change(struct flow *f, const struct secrets *was)
{
	struct gateway *x = f->gateway;
	const struct policy_rule *old = x->rule;
	char why[sizeof(x->reason)];

	x->flow->answer.rule = NULL; /* belongs to the old policy */
	x->mask = NULL;		     /* belongs to the old secrets */
	if (!x->has_request)
		return;
	if (!x->allowed) {	/* a page that explains the refusal is on its way */
		x->rule = NULL; /* belongs to the old policy */
		flow_end(x->flow, true);
		return;
	}
	gateway_find_known(x);
	x->mask = x->answered && x->server_knows ? secrets_mask(x->session->secrets) : NULL;
	if (gateway_judge(x) && has_secrets(x, was) && may_have_packages(x) && may_stay(x))
		return;
	(void)snprintf(why, sizeof(why), "the policy changed: %.*s", POLICY_REASON_MAX, x->reason);
	gateway_set_reason(x, why);
	x->rule = old; /* the rule that allowed it, for the record */
	x->allowed = false;
	flow_end(x->flow, true);
}

/* An open request is recorded as cut. */
static void on_end(struct flow *f, bool reset)
{
	struct gateway *x = f->gateway;

	if (x->has_request) {
		if (f->cut)
			gateway_set_reason(x, f->cut);
		gateway_tap_end(x);
		gateway_record(x);
	}
	loop_timer_cancel(x->loop, &x->timer);
	loop_task_cancel(x->loop, &x->task);
	gateway_drop_server(x);
	gateway_stream_close(&x->cell, reset);
	gateway_clear_request(x);
	buf_release(&x->head);
	buf_release(&x->text);
	buf_release(&x->ask);
	gateway_splice_end(x);
	(void)resource_share_memory(&x->session->share, x->memory, 0);
	free(x);
	f->gateway = NULL;
}

static const struct flow_stage stage = { .on_end = on_end, .on_policy_change = on_policy_change };

static int gateway_begin_flow(struct flow *f, struct tls *tls, bool server_tls, struct err *e)
{
	struct gateway *x = calloc(1, sizeof(*x));

	if (!x)
		return err_set(e, ERR_SYSTEM, "out of memory");
	x->flow = f;
	x->session = f->session;
	x->loop = f->session->egress->loop;
	x->tls = server_tls;
	x->first = true;
	x->timer = (struct loop_timer){ .on_expire = on_timer, .arg = x };
	x->task = (struct loop_task){ .on_run = on_task, .arg = x };
	buf_init(&x->head, FLOW_HEAD_MAX);
	buf_init(&x->text, (size_t)3 * FLOW_HEAD_MAX);
	buf_init(&x->ask, (size_t)4 * FLOW_HEAD_MAX);
	buf_init(&x->collected, SECRETS_BODY_MAX);
	if (gateway_stream_open(&x->cell, x->loop, TAKE_FD(f->fd), e) < 0) {
		free(x);
		return -1;
	}
	gateway_stream_watch(&x->cell, on_ready, x);
	if (tls && gateway_stream_secure(&x->cell, tls, NULL, e) < 0) {
		gateway_stream_close(&x->cell, true);
		free(x);
		return -1;
	}
	f->gateway = x;
	f->stage = &stage;
	x->state = tls ? GATEWAY_HANDSHAKE : GATEWAY_HEAD;
	gateway_wait(x, tls ? GATEWAY_HANDSHAKE_MS : GATEWAY_HEAD_MS);
	gateway_defer(x); /* the bytes looked at are still in the socket */
	return 0;
}

int gateway_start(struct flow *f, struct tls *tls, struct err *e)
{
	return gateway_begin_flow(f, tls, tls != NULL, e);
}

int gateway_start_internal(struct flow *f, bool tls, struct err *e)
{
	return gateway_begin_flow(f, NULL, tls, e);
}
