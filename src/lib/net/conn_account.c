/* conn_account.c - theory of operation: bytes in memory, places for connections, addresses
 *
 * Bytes that wait in memory are counted for an account. That of a connection is its address, until
 * a request belongs to a key (exchange_set_account()). Then it is that key's account, until the
 * request ends. Collected bodies have a bound for each account and for all. Over it a request is
 * refused. Answers in one piece have the same bounds, but they are complete already: over it the
 * longest answer of the account with most bytes is given up. */
#include "lib/net/conn_account.h"

#include <assert.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/hash16.h"
#include "lib/base/rand.h"
#include "lib/net/conn.h"

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

static struct conn *conn_longest_of(const struct server *s, const struct byte_account *of)
{
	struct conn *found = NULL;

	for (struct conn *c = s->first; c; c = c->next)
		if (c->account == of && (!found || c->out.len > found->out.len))
			found = c;
	return found;
}

static const struct byte_account *conn_most_unread(const struct server *s)
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
		longest = conn_longest_of(s, c->account);
	else if (s->all->unread > UNREAD_ALL_MAX)
		longest = conn_longest_of(s, conn_most_unread(s));
	if (!longest)
		return;
	conn_account_answer_sent(longest, longest->out.len);
	fifo_release(&longest->out);
	conn_drop_later(longest);
}

int conn_account_body(struct exchange *x, size_t n)
{
	struct conn *c = x->conn;
	const struct server_options *o = &c->server->options;
	const struct byte_account_bounds max = { o->bodies_one_max, o->bodies_all_max };
	static const int statuses[] = {
		[BYTE_ACCOUNT_ONE_FULL] = 429, [BYTE_ACCOUNT_ALL_FULL] = 503
	};
	enum byte_account_room room = byte_account_add(c->account, c->server->all, max, n);

	if (room != BYTE_ACCOUNT_ROOM)
		return statuses[room];
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
	n = n < x->charged ? n : x->charged; /* all were released in the meantime */
	byte_account_take(x->conn->account, x->conn->server->all, n);
	x->charged -= n;
}

void exchange_release(struct exchange *x)
{
	exchange_unreserve(x, x->charged);
}

static void conn_set_keyed(struct conn *c, bool keyed)
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
	conn_set_keyed(c, true);
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
	conn_set_keyed(c, c->stays_keyed);
}

void conn_account_close(struct conn *c)
{
	conn_account_answer_sent(c, c->out.len);
	conn_set_keyed(c, true);
	peers_leave(&c->server->peers, c->from);
}

/* ---- a place for one more connection, if need be by closing another
 *
 * A connection costs its client nothing, so connections that only wait for their client make place:
 * those without a request in progress, and those with an unread answer. Connections without a shown
 * key go first: they have bounds for each address and for all. The places beyond the bound for all
 * are for clients with a shown key. Called by server.c before a connection is accepted. */

#define WAIT_MIN_MS 1000 /* a connection waiting for less is not closed */

/* Since when it only waits for its client. 0: it does not. */
static uint64_t conn_waits_since(const struct conn *c)
{
	if (c->state == CONN_DISCARD || c->state == CONN_LINGER)
		return c->drop_ns;
	if (c->state != CONN_EXCHANGE)
		return c->read_ns;
	return c->x->answer == ANSWER_ENDED ? c->x->ended_ns : 0;
}

/* The connection waiting longest among those without a key (of one address, if given) or those with
 * one. */
static struct conn *conn_longest(struct server *s, const struct conn_peer *of, bool keyed)
{
	struct conn *found = NULL;
	uint64_t since = UINT64_MAX;

	for (struct conn *c = s->first; c; c = c->next) {
		uint64_t at = conn_waits_since(c);

		if (at == 0 || at >= since || c->keyed != keyed || (of && c->from != of))
			continue;
		found = c;
		since = at;
	}
	return found;
}

static bool conn_end_one(struct server *s, const struct conn_peer *of, bool keyed)
{
	struct conn *c = conn_longest(s, of, keyed);

	if (!c || loop_now_ns(s->loop) < conn_waits_since(c) + WAIT_MIN_MS * CLOCK_MS)
		return false;
	conn_drop(c);
	return true;
}

/* The address with most connections without a shown key. */
static const struct conn_peer *conn_greediest(const struct server *s)
{
	const struct conn_peer *most = NULL;

	for (const struct conn *c = s->first; c; c = c->next)
		if (!most || c->from->unkeyed > most->unkeyed)
			most = c->from;
	return most;
}

/* All of them have waited for less than WAIT_MIN_MS: one of the address with most of them is closed
 * for an address with few. */
static bool conn_end_of_greediest(struct server *s, const struct conn_peer *newcomer)
{
	const struct conn_peer *most = conn_greediest(s);
	struct conn *c;

	if (!most || most == newcomer || most->unkeyed / 2 <= newcomer->unkeyed)
		return false;
	c = conn_longest(s, most, false);
	if (!c)
		return false;
	conn_drop(c);
	return true;
}

bool conn_evict_for(struct server *s, const struct conn_peer *newcomer)
{
	const struct server_options *o = &s->options;

	if (o->unkeyed_per_address > 0 && newcomer->unkeyed >= o->unkeyed_per_address &&
	    !conn_end_one(s, newcomer, false))
		return false;
	if (s->unkeyed < o->unkeyed_max && s->nconns < o->connections_max)
		return true;
	if (conn_end_one(s, NULL, false) || conn_end_of_greediest(s, newcomer))
		return true;
	return s->unkeyed < o->unkeyed_max && conn_end_one(s, NULL, true);
}

/* ---- connections by address */

void peers_init(struct peers *p)
{
	memset(p, 0, sizeof(*p));
	rand_bytes(&p->seed, sizeof(p->seed));
}

static void peers_key_of(const struct addr *a, uint8_t ret[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&a->at;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&a->at;

	memset(ret, 0, 16);
	if (a->at.ss_family == AF_INET) {
		memcpy(ret, mapped, sizeof(mapped));
		memcpy(ret + 12, &v4->sin_addr, 4);
	} else if (a->at.ss_family == AF_INET6) {
		bool is_v4 = IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr);

		memcpy(ret, &v6->sin6_addr, is_v4 ? 16 : 8);
	}
}

static struct conn_peer **peers_bucket_of(struct peers *p, const uint8_t key[16])
{
	return &p->buckets[hash16(key, p->seed) % PEERS_BUCKETS];
}

struct conn_peer *peers_enter(struct peers *p, const struct addr *a)
{
	struct conn_peer **at, *one;
	uint8_t key[16];

	peers_key_of(a, key);
	at = peers_bucket_of(p, key);
	for (one = *at; one != NULL && memcmp(one->key, key, sizeof(key)) != 0; one = one->next) {
	}
	if (one == NULL) {
		one = calloc(1, sizeof(*one));
		if (one == NULL)
			return NULL;
		memcpy(one->key, key, sizeof(key));
		one->local = addr_is_loopback(a);
		one->next = *at;
		*at = one;
	}
	one->conns++;
	return one;
}

void peers_leave(struct peers *p, struct conn_peer *one)
{
	struct conn_peer **at = peers_bucket_of(p, one->key);

	assert(one->conns > 0);
	if (--one->conns > 0)
		return;
	assert(one->unkeyed == 0 && one->account.bodies == 0 && one->account.unread == 0);
	while (*at != one)
		at = &(*at)->next;
	*at = one->next;
	free(one);
}
