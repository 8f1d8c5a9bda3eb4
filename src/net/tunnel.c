/* tunnel.c - an exchange that was upgraded to another protocol: bytes both ways.
 *
 * Output is a stream without framing (exchange_write()). Input is delivered as it comes; while the
 * handler cannot take it nothing is read, so that the peer's socket holds it back. The directions
 * end separately: the end of the peer's is reported by on_end, the other is ended by
 * exchange_shut(). */
#include "conn.h"

#include <assert.h>
#include <errno.h>
#include <sys/socket.h>

#include "tls.h"

void exchange_upgrade(struct exchange *x,
		      size_t (*on_data)(struct exchange *x, const uint8_t *data, size_t len),
		      void (*on_end)(struct exchange *x, bool ok))
{
	if (x->refused || exchange_misused(x, x->answer != ANSWER_NONE || x->on_data, __func__))
		return;
	assert(x->request.framing == HTTP1_NO_BODY);
	x->status = 101;
	response_send(x, NULL, EXCHANGE_CHUNKED, NULL, 0);
	/* What follows is not HTTP: it has no framing, and no request comes after it. */
	x->close = true;
	x->chunked = false;
	x->bodiless = false;
	x->answer = ANSWER_BEGUN;
	x->tunnel = true;
	x->on_data = on_data;
	x->on_end = on_end;
	conn_wake(x->conn);
}

void exchange_shut(struct exchange *x)
{
	if (x->refused)
		return;
	assert(x->tunnel);
	x->shut = true;
	conn_wake(x->conn);
}

bool tunnel_wants_input(const struct conn *c)
{
	return c->x->on_data && !c->x->paused && c->x->answer != ANSWER_ENDED && c->in.len == 0;
}

static void end_input(struct exchange *x)
{
	void (*on_end)(struct exchange * x, bool ok) = x->on_end;

	x->on_data = NULL;
	x->on_end = NULL;
	if (on_end)
		on_end(x, true);
}

bool tunnel_step(struct conn *c)
{
	struct exchange *x = c->x;
	size_t n;

	if (!x->on_data || x->paused || x->answer == ANSWER_ENDED)
		return false;
	if (c->in.len > 0) {
		n = x->on_data(x, fifo_bytes(&c->in), c->in.len);
		assert(n <= c->in.len);
		x->paused = n < c->in.len;
		fifo_consume(&c->in, n);
		return true;
	}
	if (!c->ended)
		return false;
	end_input(x);
	return true;
}

/* The handler may be too slow for it now, but still want it; so the handler ends the tunnel. */
bool tunnel_has_tail(const struct conn *c)
{
	return c->x && c->x->tunnel;
}

void tunnel_shut(struct conn *c)
{
	struct exchange *x = c->x;

	if (!x->tunnel || !x->shut || x->shut_done || c->drop_pending || c->out.len > 0)
		return;
	if (!c->tls)
		(void)shutdown(c->fd, SHUT_WR); /* fails only if the peer is gone */
	else if (tls_shut(c->tls) < 0) {
		if (errno != EAGAIN && errno != EINTR)
			conn_drop_later(c);
		return;
	}
	x->shut_done = true;
}
