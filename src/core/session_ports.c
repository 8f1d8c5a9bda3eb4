/* session_ports.c - see session_ports.h. */
#include "session_ports.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core_private.h"
#include "event_log.h"
#include "grant.h"
#include "hex.h"
#include "rand.h"

#define ENTRY_MAX (6 + SESSION_PORTS_OPENING) /* "65535:", the id, and a space for its NUL */

static_assert(SESSION_PORTS_MAX * ENTRY_MAX < STORE_PORTS_MAX, "a row has room for all");

static void add(struct store_session *row, unsigned port, char ret[SESSION_PORTS_OPENING])
{
	uint8_t bytes[(SESSION_PORTS_OPENING - 1) / 2];
	size_t n = strlen(row->ports);

	rand_bytes(bytes, sizeof(bytes));
	hex_encode(bytes, sizeof(bytes), ret);
	(void)snprintf(row->ports + n, sizeof(row->ports) - n, "%u:%s ", port, ret);
}

void session_ports_init(struct store_session *row, const uint16_t *ports, size_t n)
{
	char opening[SESSION_PORTS_OPENING];

	row->ports[0] = '\0';
	for (size_t i = 0; i < n && i < SESSION_PORTS_MAX; i++)
		add(row, ports[i], opening);
}

bool session_ports_next(const char **at, unsigned *ret_port, char ret[SESSION_PORTS_OPENING])
{
	const char *p = *at;
	unsigned port = 0;

	for (; *p >= '0' && *p <= '9' && port <= UINT16_MAX; p++)
		port = port * 10 + (unsigned)(*p - '0');
	if (port == 0 || port > UINT16_MAX || *p++ != ':' ||
	    strspn(p, "0123456789abcdef") != SESSION_PORTS_OPENING - 1 ||
	    p[SESSION_PORTS_OPENING - 1] != ' ')
		return false;
	memcpy(ret, p, SESSION_PORTS_OPENING - 1);
	ret[SESSION_PORTS_OPENING - 1] = '\0';
	*ret_port = port;
	*at = p + SESSION_PORTS_OPENING;
	return true;
}

bool session_ports_find(const struct store_session *row, unsigned port,
			char ret[SESSION_PORTS_OPENING])
{
	const char *at = row->ports;
	unsigned one;

	while (session_ports_next(&at, &one, ret))
		if (one == port)
			return true;
	return false;
}

static unsigned count(const struct store_session *row)
{
	char opening[SESSION_PORTS_OPENING];
	const char *at = row->ports;
	unsigned n = 0, port;

	while (session_ports_next(&at, &port, opening))
		n++;
	return n;
}

/* Stores the ports of the row; on failure they are as before. */
static int save(struct session *s, const char before[STORE_PORTS_MAX], const char *event,
		unsigned port, const struct store_actor *who, struct err *e)
{
	struct core *c = s->core;

	if (store_begin(c->store, e) == 0 &&
	    store_session_update_ports(c->store, &s->row, e) == 0 &&
	    event_log_append(c, who, s->row.tenant, s->row.id, "", event, e, "port\t%u\n", port) ==
		    0 &&
	    store_commit(c->store, e) == 0)
		return 0;
	store_rollback(c->store);
	memcpy(s->row.ports, before, STORE_PORTS_MAX);
	return -1;
}

int session_ports_open(struct session *s, unsigned port, const struct store_actor *who,
		       char ret[SESSION_PORTS_OPENING], struct err *e)
{
	char before[STORE_PORTS_MAX];

	if (session_ports_find(&s->row, port, ret))
		return 0;
	if (count(&s->row) >= SESSION_PORTS_MAX)
		return err_set(e, ERR_LIMIT,
			       "port: at most %d ports of a session are open: close one",
			       SESSION_PORTS_MAX);
	memcpy(before, s->row.ports, sizeof(before));
	add(&s->row, port, ret);
	return save(s, before, "session.port_opened", port, who, e);
}

int session_ports_close(struct session *s, unsigned port, const struct store_actor *who,
			struct err *e)
{
	char before[STORE_PORTS_MAX], opening[SESSION_PORTS_OPENING], one[SESSION_PORTS_OPENING];
	const char *at = before;
	unsigned p;
	size_t n = 0;

	if (!session_ports_find(&s->row, port, opening))
		return err_set(e, ERR_NOT_FOUND, "port %u of the session is not open", port);
	memcpy(before, s->row.ports, sizeof(before));
	s->row.ports[0] = '\0';
	while (session_ports_next(&at, &p, one))
		if (p != port)
			n += (size_t)snprintf(s->row.ports + n, sizeof(s->row.ports) - n, "%u:%s ",
					      p, one);
	if (save(s, before, "session.port_closed", port, who, e) < 0)
		return -1;
	grant_revoke_opening(s->core, s->tenant, opening);
	return 0;
}
