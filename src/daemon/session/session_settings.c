/* session_settings.c - changes of a live session that clients ask for (session.h): its timeout, its
 * network settings, its policy, its ports. Each change is written to the store before it takes
 * effect, and a failed write leaves the session unchanged. */
#include "daemon/session/session_settings.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/audit/audit_leaf.h"
#include "daemon/cells/live_cell.h"
#include "daemon/node/core.h"
#include "daemon/node/core_private.h"
#include "daemon/session/session.h"
#include "daemon/session/session_save.h"
#include "daemon/session/session_spec.h"
#include "daemon/tenant/allow.h"
#include "daemon/tenant/event_log.h"
#include "daemon/tenant/grant.h"
#include "lib/base/hex.h"
#include "lib/base/rand.h"

#define SESSION_PORTS_OPENING 17 /* an id: 16 hexadecimal digits, NUL */

#define ENTRY_MAX (6 + SESSION_PORTS_OPENING) /* "65535:", the id, and a space for its NUL */

static_assert(SESSION_PORTS_MAX * ENTRY_MAX < STORE_PORTS_MAX, "a row has room for all");

/* An opening is 64 random bits: the URL made of it is the only credential of its visitors. */
static void settings_add(struct store_session *row, unsigned port, char ret[SESSION_PORTS_OPENING])
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
		settings_add(row, ports[i], opening);
}

/* The row may have been edited in the store, so each entry is checked before it is copied. */
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

static unsigned settings_count(const struct store_session *row)
{
	char opening[SESSION_PORTS_OPENING];
	const char *at = row->ports;
	unsigned n = 0, port;

	while (session_ports_next(&at, &port, opening))
		n++;
	return n;
}

/* Store the ports of the row. On failure they are as before. */
static int settings_save(struct session *s, const char before[STORE_PORTS_MAX], const char *event,
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
	if (settings_count(&s->row) >= SESSION_PORTS_MAX)
		return err_set(e, ERR_LIMIT,
			       "port: at most %d ports of a session are open: close one",
			       SESSION_PORTS_MAX);
	memcpy(before, s->row.ports, sizeof(before));
	settings_add(&s->row, port, ret);
	return settings_save(s, before, "session.port_opened", port, who, e);
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
	if (settings_save(s, before, "session.port_closed", port, who, e) < 0)
		return -1;
	/* Requests in progress by this URL end, too. */
	grant_revoke_opening(s->core, s->tenant, opening);
	return 0;
}

/* Write settings and state. On failure the row is as before. */
static int save_settings(struct session *s, const struct store_session *before, struct err *e)
{
	if (store_begin(s->core->store, e) == 0 &&
	    store_session_update_settings(s->core->store, &s->row, e) == 0 &&
	    store_session_update_state(s->core->store, &s->row, e) == 0 &&
	    store_commit(s->core->store, e) == 0)
		return 0;
	store_rollback(s->core->store);
	s->row = *before;
	return -1;
}

/* The row's timeout, counted from now. */
static int settings_timeout(struct session *s, uint64_t timeout_ms, const struct store_actor *who,
			    struct err *e)
{
	uint64_t max = 0;

	if (allow_timeout_max(s->core, s->tenant, who, &max, e) < 0)
		return -1;
	if (max > 0 && (timeout_ms > max || timeout_ms == 0))
		return err_set(
			e, ERR_INVALID,
			"timeout: at most %llu s (session_timeout_max, or what the key and its "
			"tenant are allowed)",
			(unsigned long long)max / 1000);
	s->row.timeout_ms = timeout_ms;
	s->row.deadline_ms = timeout_ms == 0 ? 0 : core_now_ms() + timeout_ms;
	/* A paused session's time starts when it continues. */
	if (s->row.state != SESSION_RUNNING)
		s->row.deadline_ms = 0;
	return 0;
}

static void settings_changed(struct session *s)
{
	session_touch(s);
	if (s->cell != NULL) /* PID 1 knows the deadline before the client is answered */
		live_cell_flush(s->cell);
}

int session_set_timeout(struct session *s, uint64_t timeout_ms, const struct store_actor *who,
			struct err *e)
{
	struct store_session before;

	session_timer_check_clock(s->core);
	before = s->row;
	if (settings_timeout(s, timeout_ms, who, e) < 0 || save_settings(s, &before, e) < 0)
		return -1;
	settings_changed(s);
	return 0;
}

static int settings_actions(struct session *s, const struct session_change *change, struct err *e)
{
	bool given = change->on_timeout >= 0 || change->on_idle >= 0;

	if (given && s->row.keep_ms > 0)
		return err_set(e, ERR_INVALID,
			       "on_timeout and on_idle: a persistent session is always stopped "
			       "with its files");
	if (change->on_timeout >= 0)
		s->row.on_timeout = (uint32_t)change->on_timeout;
	if (change->on_idle >= 0)
		s->row.on_idle = (uint32_t)change->on_idle;
	if (change->idle_given)
		s->row.idle_ms = change->idle_ms;
	return session_spec_check_pause(s->core, &s->row, e);
}

/* With its event, which names the changed settings. */
static int settings_record(struct session *s, const struct session_change *change,
			   const struct store_actor *who, struct err *e)
{
	struct store *store = s->core->store;
	char members[64];

	(void)snprintf(
		members, sizeof(members), "%s%s%s%s%s", change->metadata != NULL ? " metadata" : "",
		change->timeout_given ? " timeout" : "", change->idle_given ? " idle_timeout" : "",
		change->on_timeout >= 0 ? " on_timeout" : "",
		change->on_idle >= 0 ? " on_idle" : "");
	if (store_begin(store, e) == 0 && store_session_update_settings(store, &s->row, e) == 0 &&
	    store_session_update_state(store, &s->row, e) == 0 &&
	    event_log_append(s->core, who, s->row.tenant, s->row.id, "", "session.changed", e,
			     "members\t%s\n", members[0] == '\0' ? "" : members + 1) == 0 &&
	    store_commit(store, e) == 0)
		return 0;
	store_rollback(store);
	return -1;
}

int session_change(struct session *s, const struct session_change *change,
		   const struct store_actor *who, struct err *e)
{
	struct store_session before;
	char *metadata = NULL;

	if (change->metadata != NULL && (metadata = strdup(change->metadata)) == NULL)
		return err_sys(e, "allocate");
	session_timer_check_clock(s->core);
	before = s->row;
	if (metadata != NULL)
		s->row.metadata = metadata;
	if ((change->timeout_given && settings_timeout(s, change->timeout_ms, who, e) < 0) ||
	    settings_actions(s, change, e) < 0 || settings_record(s, change, who, e) < 0) {
		s->row = before;
		free(metadata);
		return -1;
	}
	if (metadata != NULL) {
		free(s->metadata);
		s->metadata = metadata;
	}
	settings_changed(s);
	return 0;
}

int session_extend(struct session *s, uint64_t timeout_ms, const struct store_actor *who,
		   struct err *e)
{
	session_timer_check_clock(s->core);
	if (s->row.state == SESSION_RUNNING &&
	    (s->row.deadline_ms == 0 || s->row.deadline_ms >= core_now_ms() + timeout_ms)) {
		session_touch(s);
		return 0;
	}
	return session_set_timeout(s, timeout_ms, who, e);
}

int session_set_network(struct session *s, const char *network, struct err *e)
{
	struct store_session before = s->row;
	char *copy = strdup(network);

	if (copy == NULL)
		return err_sys(e, "allocate");
	s->row.network = copy;
	if (save_settings(s, &before, e) < 0) {
		free(copy);
		return -1;
	}
	free(s->network);
	s->network = copy;
	session_touch(s);
	return 0;
}

void session_policy_hash(const struct store_session *row, char ret[2 * SHA256_SIZE + 1])
{
	uint8_t hash[SHA256_SIZE];
	struct sha256 sum;

	sha256_init(&sum);
	if (row->network != NULL)
		audit_leaf_hash_policy(&sum, row->network, "egressProxy");
	sha256_add(&sum, "\n", 1);
	if (row->policy != NULL)
		audit_leaf_hash_policy(&sum, row->policy, "proxy");
	sha256_end(&sum, hash);
	hex_encode(hash, sizeof(hash), ret);
}

/* The old text stays allocated until the commit, because the row points to it again after a
 * failure. */
int session_save_policy(struct session *s, const char *document, const char *name,
			const struct store_actor *who, struct err *e)
{
	struct store_session before = s->row;
	struct core *c = s->core;
	char *copy = strdup(document), hash[2 * SHA256_SIZE + 1];

	if (copy == NULL)
		return err_sys(e, "allocate");
	s->row.policy = copy;
	session_policy_hash(&s->row, hash);
	if (store_begin(c->store, e) < 0 ||
	    store_session_update_settings(c->store, &s->row, e) < 0 ||
	    event_log_append(c, who, s->row.tenant, s->row.id, "", "session.network", e,
			     "policy\t%s\npolicy_sha256\t%s\n", name, hash) < 0 ||
	    store_commit(c->store, e) < 0) {
		store_rollback(c->store);
		s->row = before;
		free(copy);
		return -1;
	}
	free(s->policy);
	s->policy = copy;
	session_touch(s);
	return 0;
}
