/* conn_account.c - theory of operation
 *
 * Bytes that wait in memory are counted for an account. That of a connection is its address, until
 * a request belongs to a key (exchange_set_account()); then it is that key's account, until the
 * request ends. Collected bodies have a bound for each account and for all; over it a request is
 * refused. Answers in one piece have the same bounds, but they are complete already: over it the
 * longest answer of the account that has most is given up. */
#include "conn.h"

#include <assert.h>

#include "clock.h"

#define UNREAD_ALL_MAX ((size_t)512 << 20)
#define UNREAD_ONE_MAX ((size_t)128 << 20)
#define PACE_BYTES ((size_t)64 * 1024) /* bytes of a body per second, at least */

void conn_account_answer_queued(struct conn *c, size_t n)
{
	c->account->unread += n;
	c->server->all->unread += n;
}

void conn_account_answer_sent(struct conn *c, size_t n)
{
	c->account->unread -= n;
	c->server->all->unread -= n;
}

static struct conn *longest_of(const struct server *s, const struct byte_account *of)
{
	struct conn *found = NULL;

	for (struct conn *c = s->first; c; c = c->next)
		if (c->account == of && (!found || c->out.len > found->out.len))
			found = c;
	return found;
}

static const struct byte_account *most_unread(const struct server *s)
{
	const struct byte_account *most = NULL;

	for (struct conn *c = s->first; c; c = c->next)
		if (!most || c->account->unread > most->unread)
			most = c->account;
	return most;
}

void conn_account_relieve(struct conn *c)
{
	struct server *s = c->server;
	struct conn *longest = NULL;

	if (c->account->unread > UNREAD_ONE_MAX)
		longest = longest_of(s, c->account);
	else if (s->all->unread > UNREAD_ALL_MAX)
		longest = longest_of(s, most_unread(s));
	if (!longest)
		return;
	conn_account_answer_sent(longest, longest->out.len);
	fifo_release(&longest->out);
	conn_drop_later(longest);
}

/* The last quarter of all is reserved for accounts that have little. */
int conn_account_body(struct exchange *x, size_t n)
{
	struct conn *c = x->conn;
	const struct server_options *o = &c->server->options;
	size_t one = c->account->bodies + n, all = c->server->all->bodies + n;

	if (o->bodies_one_max > 0 && one > o->bodies_one_max)
		return 429;
	if (o->bodies_all_max > 0 && (all > o->bodies_all_max || (all > o->bodies_all_max / 4 * 3 &&
								  one > o->bodies_all_max / 8)))
		return 503;
	c->account->bodies += n;
	c->server->all->bodies += n;
	x->charged += n;
	return 0;
}

void exchange_set_body_deadline(struct exchange *x, size_t max)
{
	const struct server_options *o = &x->conn->server->options;

	if (x->request.framing == HTTP1_LENGTH && x->request.content_length < max)
		max = (size_t)x->request.content_length;
	x->body_by_ns =
		loop_now_ns(x->conn->loop) + (o->body_ms + max / PACE_BYTES * 1000) * CLOCK_MS;
}

bool exchange_reserve(struct exchange *x, size_t n)
{
	return x->conn->state != CONN_DEAD && conn_account_body(x, n) == 0;
}

void exchange_unreserve(struct exchange *x, size_t n)
{
	n = n < x->charged ? n : x->charged; /* all were released meanwhile */
	x->conn->account->bodies -= n;
	x->conn->server->all->bodies -= n;
	x->charged -= n;
}

void exchange_release(struct exchange *x)
{
	exchange_unreserve(x, x->charged);
}

static void set_keyed(struct conn *c, bool keyed)
{
	if (c->keyed == keyed)
		return;
	c->keyed = keyed;
	c->from->unkeyed += keyed ? -1U : 1U;
	c->server->unkeyed += keyed ? (size_t)-1 : 1U;
}

void exchange_set_account(struct exchange *x, struct byte_account *account, bool keyed)
{
	struct conn *c = x->conn;

	if (c->state == CONN_DEAD)
		return;
	assert(c->out.len == 0 && x->charged == 0);
	c->account = account;
	c->stays_keyed = c->stays_keyed || keyed;
	set_keyed(c, true);
}

void conn_account_open(struct conn *c)
{
	c->account = &c->from->account;
	c->from->unkeyed++;
	c->server->unkeyed++;
}

/* Called when no bytes of the answer wait any more. */
void conn_account_end_exchange(struct exchange *x)
{
	struct conn *c = x->conn;

	exchange_release(x);
	if (c->state == CONN_DEAD)
		return; /* conn_account_close() is called next */
	conn_account_reset(c);
}

void conn_account_reset(struct conn *c)
{
	assert(c->out.len == 0);
	c->account = &c->from->account;
	set_keyed(c, c->stays_keyed);
}

void conn_account_close(struct conn *c)
{
	conn_account_answer_sent(c, c->out.len);
	set_keyed(c, true);
	peers_leave(&c->server->peers, c->from);
}
