/* conn_evict.c - theory of operation
 *
 * Which connection is closed when a new one comes and there is no place. A connection costs its
 * client nothing, so those that only wait for their client make place: without a request under way,
 * or with an answer that is not read. First those that have not shown a key, which have bounds for
 * each address and for all; the places beyond the bound for all are for clients that have. Called
 * by server.c before a connection is accepted. */
#include "conn.h"

#include "clock.h"

#define WAIT_MIN_MS 1000 /* a connection that has waited for less is not closed */

/* Since when it only waits for its client; 0: it does not. */
static uint64_t waits_since(const struct conn *c)
{
	if (c->state == CONN_DISCARD || c->state == CONN_LINGER)
		return c->drop_ns;
	if (c->state != CONN_EXCHANGE)
		return c->read_ns;
	return c->x->answer == ANSWER_ENDED ? c->x->ended_ns : 0;
}

/* The one that has waited longest, of those without a key (of one address, if given) or of those
 * with one. */
static struct conn *longest(struct server *s, const struct peer *of, bool keyed)
{
	struct conn *found = NULL;
	uint64_t since = UINT64_MAX;

	for (struct conn *c = s->first; c; c = c->next) {
		uint64_t at = waits_since(c);

		if (at == 0 || at >= since || c->keyed != keyed || (of && c->from != of))
			continue;
		found = c;
		since = at;
	}
	return found;
}

static bool end_one(struct server *s, const struct peer *of, bool keyed)
{
	struct conn *c = longest(s, of, keyed);

	if (!c || loop_now_ns(s->loop) < waits_since(c) + WAIT_MIN_MS * CLOCK_MS)
		return false;
	conn_drop(c);
	return true;
}

/* The address with most connections that have not shown a key. */
static const struct peer *greediest(const struct server *s)
{
	const struct peer *most = NULL;

	for (const struct conn *c = s->first; c; c = c->next)
		if (!most || c->from->unkeyed > most->unkeyed)
			most = c->from;
	return most;
}

/* All of them have waited for less than WAIT_MIN_MS: one of the address with most of them is closed
 * for an address that has few. */
static bool end_of_greediest(struct server *s, const struct peer *newcomer)
{
	const struct peer *most = greediest(s);
	struct conn *c;

	if (!most || most == newcomer || most->unkeyed / 2 <= newcomer->unkeyed)
		return false;
	c = longest(s, most, false);
	if (!c)
		return false;
	conn_drop(c);
	return true;
}

bool conn_evict_for(struct server *s, const struct peer *newcomer)
{
	const struct server_options *o = &s->options;

	if (o->unkeyed_per_address > 0 && newcomer->unkeyed >= o->unkeyed_per_address &&
	    !end_one(s, newcomer, false))
		return false;
	if (s->unkeyed < o->unkeyed_max && s->nconns < o->connections_max)
		return true;
	if (end_one(s, NULL, false) || end_of_greediest(s, newcomer))
		return true;
	return s->unkeyed < o->unkeyed_max && end_one(s, NULL, true);
}
