/* datagrams.c - theory of operation
 *
 * A table of fixed size for each session, made at its first datagram. A timer of one second starts
 * with the first entry. When it expires, each entry becomes one record, and the table is empty
 * again. Datagrams to further destinations within that second are counted together: they become one
 * record without an address. So a session makes DESTINATIONS + 1 of these records a second at most,
 * with any traffic. */
#include "egress/flow/datagrams.h"

#include <stdlib.h>
#include <string.h>

#include "egress/control/access_record.h"
#include "lib/base/clock.h"

#define DESTINATIONS 32
#define RECORD_NS (1000 * CLOCK_MS)
#define REASON "datagrams other than DNS queries do not leave a session"

struct datagram_destination {
	struct ip ip;
	uint16_t port;
	uint64_t datagrams, bytes;
	uint64_t first_ns, last_ns;
};

struct datagrams {
	struct egress_session *session;
	struct loop_timer timer;
	struct datagram_destination at[DESTINATIONS];
	size_t n;
	struct datagram_destination others; /* without address and port */
};

static void datagrams_record(struct egress_session *session, const struct datagram_destination *d,
			     bool others)
{
	const struct access_record r = { .kind = ACCESS_RECORD_DATAGRAM,
					 .start_ns = d->first_ns,
					 .end_ns = d->last_ns,
					 .ip = others ? NULL : &d->ip,
					 .port = d->port,
					 .scheme = "udp",
					 .reason = others ? REASON "; these had other destinations"
							  : REASON,
					 .bytes_out = d->bytes,
					 .datagrams = d->datagrams };

	access_record_send(session, &r);
}

static void record_all(struct datagrams *t)
{
	for (size_t i = 0; i < t->n; i++)
		datagrams_record(t->session, &t->at[i], false);
	if (t->others.datagrams > 0)
		datagrams_record(t->session, &t->others, true);
	t->n = 0;
	memset(&t->others, 0, sizeof(t->others));
}

static void on_timer(struct loop_timer *timer)
{
	record_all(timer->arg);
}

static struct datagrams *table_of(struct egress_session *session)
{
	struct datagrams *t = session->datagrams;

	if (t != NULL)
		return t;
	t = calloc(1, sizeof(*t));
	if (t == NULL)
		return NULL;
	t->session = session;
	t->timer = (struct loop_timer){ .on_expire = on_timer, .arg = t };
	session->datagrams = t;
	return t;
}

/* Its entry, a new one, or the one of all others. */
static struct datagram_destination *datagrams_find(struct datagrams *t, const struct ip *to,
						   uint16_t port)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->at[i].port == port && memcmp(&t->at[i].ip, to, sizeof(*to)) == 0)
			return &t->at[i];
	if (t->n == DESTINATIONS)
		return &t->others;
	t->at[t->n] = (struct datagram_destination){ .ip = *to, .port = port };
	return &t->at[t->n++];
}

void datagrams_note(struct egress_session *session, const struct ip *to, uint16_t port, size_t len)
{
	struct datagrams *t = table_of(session);
	uint64_t now = clock_now_ns();
	struct datagram_destination *d;

	if (t == NULL) {
		session->records_lost++;
		return;
	}
	if (t->n == 0)
		loop_timer_set(session->egress->loop, &t->timer, now + RECORD_NS);
	d = datagrams_find(t, to, port);
	if (d->datagrams++ == 0)
		d->first_ns = now;
	d->last_ns = now;
	d->bytes += len;
}

void datagrams_release(struct egress_session *session)
{
	struct datagrams *t = session->datagrams;

	if (t == NULL)
		return;
	loop_timer_cancel(session->egress->loop, &t->timer);
	record_all(t);
	free(t);
	session->datagrams = NULL;
}
