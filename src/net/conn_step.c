/* conn_step.c - theory of operation
 *
 * The steps of a connection: from head to exchange to answer to the next head, or to its end. Each
 * step does one thing and returns whether there may be another; advance() in conn.c takes them.
 * After any callback of a handler the step returns, since everything may have changed. */
#include "conn.h"

#include <string.h>
#include <sys/socket.h>

#include "clock.h"
#include "tls.h"

static void make_id(struct server *s, char ret[24])
{
	static const char digits[] = "0123456789abcdef";
	uint64_t id =
		s->ids++ * 0x9e3779b97f4a7c15ULL; /* an odd factor: an id comes again after 2^64 */

	memcpy(ret, "req_", 4);
	for (int i = 0; i < 16; i++)
		ret[4 + i] = digits[id >> (60 - 4 * i) & 15];
	ret[20] = '\0';
}

/* The exchange keeps a copy of the head: the buffer is used for the body. */
static struct exchange *new_exchange(struct conn *c, size_t head_len)
{
	struct exchange *x = malloc(sizeof(*x) + head_len);

	if (!x)
		return NULL;
	memset(x, 0, sizeof(*x));
	memcpy(x->head, fifo_bytes(&c->in), head_len);
	x->conn = c;
	x->began_ns = loop_now_ns(c->loop);
	make_id(c->server, x->id);
	return x;
}

static void free_exchange(struct exchange *x)
{
	request_body_forget_turn(x);
	conn_account_end_exchange(x);
	fifo_release(&x->collected);
	fifo_release(&x->headers);
	ws_conn_free(x->ws);
	free(x);
}

/* head_len 0: there will be no complete head; status and words say why. */
static void begin_exchange(struct conn *c, size_t head_len, int status, const char *words)
{
	struct http1_fault fault = { status, words };
	struct exchange *x = new_exchange(c, head_len);
	int n = -1;

	if (!x) {
		conn_drop_later(c);
		return;
	}
	c->x = x;
	c->state = CONN_EXCHANGE;
	c->scanned = 0;
	c->body = (struct request_body){ .done = true };
	if (head_len > 0)
		n = http1_request_read(x->head, head_len, &x->request, &fault);
	if (n <= 0) {
		memset(&x->request, 0, sizeof(x->request));
		response_refuse(x, n < 0 ? fault.status : 400, n < 0 ? fault.words : "bad head");
		return;
	}
	fifo_consume(&c->in, (size_t)n);
	x->bodiless = x->request.method == HTTP1_HEAD;
	x->close = !x->request.keep_alive || c->server->draining;
	request_body_start(c, &x->request);
	if (x->request.method == HTTP1_CONNECT)
		response_refuse(x, 501, "this server is not a proxy");
	else
		c->server->options.on_request(x, c->server->options.arg);
}

void conn_step_refuse_head(struct conn *c, int status, const char *words)
{
	begin_exchange(c, 0, status, words);
}

static bool step_head(struct conn *c)
{
	size_t max = c->server->options.head_max;
	int n;

	if (c->server->draining && c->in.len == 0 && c->served) {
		c->drop_pending = true;
		return true;
	}
	n = c->in.len == 0 ? 0
			   : http1_head_end((const char *)fifo_bytes(&c->in),
					    c->in.len < max ? c->in.len : max, &c->scanned);
	if (n > 0)
		begin_exchange(c, (size_t)n, 0, NULL);
	else if (n < 0)
		begin_exchange(c, 0, 400,
			       "the request's head contains control bytes, or a CR or LF alone");
	else if (c->in.len >= max)
		begin_exchange(c, 0, 431, "the request's head is too long");
	else if (c->ended)
		c->drop_pending = true;
	else
		return false;
	return true;
}

static void log_exchange(const struct exchange *x, int status)
{
	const struct server_options *o = &x->conn->server->options;

	if (o->on_answered)
		o->on_answered(x, status, x->bytes_out, clock_now_ns() - x->began_ns, o->arg);
}

/* Closing with unread input would send a reset, and the peer might lose what it has not read. */
static void linger(struct conn *c)
{
	tls_close(c->tls); /* sends close_notify; further input need not be decrypted */
	c->tls = NULL;
	(void)shutdown(c->fd, SHUT_WR);
	c->state = CONN_LINGER;
	c->discarded = 0;
	c->read_ns = c->drop_ns = loop_now_ns(c->loop);
}

/* The answer was sent: ends the exchange; the connection is kept or closed. */
static void finish_exchange(struct conn *c)
{
	struct exchange *x = c->x;
	bool close = x->close || c->server->draining;
	bool unread = x->truncated || !c->body.done || x->ws || x->tunnel;

	log_exchange(x, x->status);
	if (x->on_done)
		x->on_done(x, !x->ws || !x->truncated);
	c->x = NULL;
	free_exchange(x);
	c->discarded = 0;
	c->served = true;
	c->read_ns = c->drop_ns = loop_now_ns(c->loop);
	if (!close) {
		c->state = c->body.done ? CONN_HEAD : CONN_DISCARD;
	} else if (unread && !c->ended) {
		linger(c);
	} else {
		c->drop_pending = true;
	}
}

void conn_step_drop_exchange(struct conn *c)
{
	struct exchange *x = c->x;

	if (!x)
		return;
	if (x->on_end)
		x->on_end(x, false);
	x->on_end = NULL;
	log_exchange(x, 0);
	if (x->on_done)
		x->on_done(x, false);
	c->x = NULL;
	free_exchange(x);
}

void conn_step_cut_exchange(struct conn *c)
{
	c->state = CONN_DEAD; /* callbacks cannot write any more */
	conn_account_answer_sent(c, c->out.len);
	fifo_release(&c->out);
	conn_step_drop_exchange(c);
	c->drop_pending = c->cut = false;
	conn_account_reset(c);
	linger(c);
}

/* Is the peer gone while its exchange is under way? A body is still read to its end, since all of
 * it may be here already. */
static bool client_gone(const struct conn *c)
{
	if (c->x->tunnel)
		return false; /* of a tunnel: its handler decides, as one direction may go on */
	if (request_body_waits_for_turn(c->x))
		return false; /* it gets an answer if the handler has one at once */
	if (c->ended)
		return c->in.len == 0 || c->x->ws || !c->x->on_data;
	return c->hung_up && (c->body.done || !c->x->on_data) && !c->x->ws;
}

static bool step_input(struct conn *c)
{
	if (c->x->tunnel)
		return tunnel_step(c);
	return c->x->ws ? ws_conn_step(c) : request_body_deliver(c);
}

/* Revoked by exchange_revoke(): its key is gone, or the server ends. */
static void end_revoked(struct conn *c)
{
	struct exchange *x = c->x;
	int status = x->revoked;

	x->revoked = 0;
	if (x->answer == ANSWER_ENDED)
		return;
	if (status == 503 && x->on_drain && x->answer == ANSWER_NONE)
		x->on_drain(x);
	else if (x->ws)
		ws_conn_revoke(c);
	else if (x->answer == ANSWER_NONE)
		request_body_fault(c, status, x->why_revoked);
	else
		exchange_abort(x);
}

static bool step_exchange(struct conn *c)
{
	struct exchange *x = c->x;

	if (x->revoked) {
		end_revoked(c);
		return true;
	}
	if (step_input(c))
		return true;
	conn_flush(c);
	tunnel_shut(c);
	if (c->drop_pending)
		return true;
	if (x->answer == ANSWER_ENDED && c->out.len == 0) {
		finish_exchange(c);
		return true;
	}
	if (x->starved && x->answer != ANSWER_ENDED && c->out.len <= CONN_OUT_MAX / 2) {
		x->starved = false;
		if (x->on_writable) {
			x->on_writable(x);
			return true;
		}
	}
	if (!client_gone(c))
		return false;
	c->drop_pending = true;
	return true;
}

static bool step_linger(struct conn *c)
{
	c->discarded += c->in.len;
	fifo_consume(&c->in, c->in.len);
	if (!c->ended && c->discarded <= CONN_DISCARD_MAX)
		return false;
	c->drop_pending = true;
	return true;
}

bool conn_step_take(struct conn *c)
{
	switch (c->state) {
	case CONN_HEAD:
		return step_head(c);
	case CONN_EXCHANGE:
		return step_exchange(c);
	case CONN_DISCARD:
		return request_body_discard(c);
	case CONN_LINGER:
		return step_linger(c);
	case CONN_DEAD:
		break;
	}
	return false;
}
