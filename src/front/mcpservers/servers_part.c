#include "front/mcpservers/servers_part.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/session/session_stop.h"
#include "daemon/store/store_session.h"
#include "daemon/tenant/tenant.h"
#include "front/mcpservers/kept_pins.h"
#include "front/web/spec_session.h"
#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/base/log.h"
#include "lib/base/str.h"

#define SETUP_NS (60000 * CLOCK_MS) /* until all servers of a session listed their tools */
#define EXTEND_MS 60000ULL	    /* before its deadline a server's session is extended */

/* The part's data for the core. */
struct node {
	struct server_link *links;
	bool making; /* the session of a server is being made */
};

/* The state of a session with servers, or of a server's own session. */
struct servers_part_state {
	struct server_link *link;
	struct session *session;
	struct loop_task make;
	bool pending; /* its servers are being started */
	size_t nservers;
	uint64_t deadline_ns;
	struct err cause; /* why they cannot be. ERR_NONE: they can */
};

static struct node *node_of(const struct core *c)
{
	return *session_parts_of_core(c, &servers_part);
}

static struct servers_part_state *state_of(const struct session *s)
{
	return *session_parts_of(s, &servers_part);
}

/* A session without MCP servers has no state. */
static struct servers_part_state *make_state(struct session *s)
{
	void **at = session_parts_of(s, &servers_part);
	struct servers_part_state *st = *at;

	if (st == NULL) {
		st = calloc(1, sizeof(*st));
		assert(st != NULL);
		st->session = s;
		*at = st;
	}
	return st;
}

/* ---- finding
 *
 * The links are few, so they are searched in order. Callers do not keep a link over a turn. */

/* The first server whose name comes after that one. "": of all. */
static struct server_link *servers_part_after(struct core *c, const char *session_id,
					      const char *name)
{
	struct server_link *best = NULL;

	for (struct server_link *v = node_of(c)->links; v != NULL; v = v->next) {
		if (strcmp(v->spec.owner, session_id) == 0 && strcmp(v->spec.name, name) > 0 &&
		    (best == NULL || strcmp(v->spec.name, best->spec.name) < 0))
			best = v;
	}
	return best;
}

struct server_link *servers_next(struct core *c, const char *session_id,
				 const struct server_link *k)
{
	return servers_part_after(c, session_id, k == NULL ? "" : k->spec.name);
}

struct server_link *servers_find(struct core *c, const char *session_id, const char *name, size_t n)
{
	for (struct server_link *v = node_of(c)->links; v != NULL; v = v->next) {
		if (strcmp(v->spec.owner, session_id) == 0 && strlen(v->spec.name) == n &&
		    memcmp(v->spec.name, name, n) == 0)
			return v;
	}
	return NULL;
}

/* ---- is a session with servers ready?
 *
 * on_started() sets pending. Each server reports by on_news(), and on_make() looks at all of them
 * in a turn of its own: the session is settled, or fails with the first cause. */

/* Its servers end with it (on_ending()). */
static void give_up(struct servers_part_state *st)
{
	st->pending = false;
	(void)err_wrap(&st->cause, "mcp");
	session_fail(st->session, &st->cause, "an MCP server could not be started");
}

/* One of its servers cannot be used. The session ends in a later turn of the loop: the callers are
 * in the middle of something. */
static void on_failure(struct core *c, const char *owner_id, const struct err *why)
{
	struct session *owner = session_find(c, owner_id);
	struct servers_part_state *st = owner == NULL ? NULL : state_of(owner);

	if (st == NULL || !st->pending || st->cause.code != ERR_NONE)
		return;
	st->cause = *why;
	loop_defer(core_loop(c), &st->make);
}

/* was_ready: the server has listed its tools at least once. */
static void check_ready(struct servers_part_state *st)
{
	struct core *c = session_core(st->session);
	const char *id = session_row(st->session)->id;
	size_t ready = 0;

	for (struct server_link *k = servers_next(c, id, NULL); k != NULL;
	     k = servers_next(c, id, k))
		ready += k->was_ready;
	if (ready < st->nservers)
		return;
	st->pending = false;
	session_parts_settled(st->session);
}

/* The tools are known, or the link has failed. */
static void on_news(struct server_link *k)
{
	struct core *c = session_core(k->session);
	struct session *owner = session_find(c, k->spec.owner);
	struct servers_part_state *st = owner == NULL ? NULL : state_of(owner);
	struct err e;

	if (st == NULL || !st->pending)
		return;
	if (k->failure[0] != '\0') {
		(void)err_set(&e, ERR_CONFLICT, "%s", k->failure);
		on_failure(c, k->spec.owner, &e);
	} else {
		loop_defer(core_loop(c), &st->make);
	}
}

/* ---- making the sessions of servers
 *
 * make_servers() makes all sessions in one turn. Each reports by on_made(). */

/* The session of a server runs, or never will. */
static void on_made(struct completion *w, const struct err *e)
{
	struct server_link *k = w->arg;
	struct err why;

	if (e == NULL) {
		server_link_start(k);
		return;
	}
	why = *e;
	(void)err_wrap(&why, "server %s", k->spec.name);
	on_failure(session_core(k->session), k->spec.owner, &why);
}

/* From here on on_free() frees the link. */
static void servers_part_attach(struct server_link *k, struct session *s)
{
	make_state(s)->link = k;
	k->session = s;
	k->on_news = on_news;
	LIST_PUSH(&node_of(session_core(s))->links, k);
}

/* -1: nothing was made, and k is the caller's to free. */
static int start_session(struct session *owner, struct server_link *k, struct spec_session *spec,
			 struct err *e)
{
	struct core *c = session_core(owner);
	uint64_t timeout_ms = session_row(owner)->timeout_ms;
	const struct err *why;
	struct session *made;
	unsigned retry_s;
	int created;

	k->made = (struct completion){ .on_done = on_made, .arg = k };
	/* It lives as long as its owner: see keep_alive(). */
	if (!spec->spec.timeout_given || timeout_ms == 0 || spec->spec.timeout_ms < timeout_ms)
		spec->spec.timeout_ms = timeout_ms;
	spec->spec.timeout_given = true;
	if (!spec->spec.idle_given)
		spec->spec.idle_given = true; /* none */
	spec->spec.actor = session_actor(owner);
	spec->spec.usual_level = session_level(owner)->name; /* not weaker than its owner */
	node_of(c)->making = true;
	created =
		session_create(c, session_tenant(owner), &spec->spec, &k->made, &made, &retry_s, e);
	node_of(c)->making = false;
	if (created < 0)
		return -1;
	if (!completion_is_waiting(&k->made)) {
		/* It failed at once, and is freed. */
		why = completion_early_error(&k->made);
		(void)err_set(e, ERR_SYSTEM, "its session has ended");
		if (why != NULL)
			*e = *why;
		completion_cancel(&k->made);
		return -1;
	}
	servers_part_attach(k, made);
	return 0;
}

/* The body was checked when the owner was created, and is read again here. */
static int make_server(struct session *owner, const char *name, json_t *server, struct err *e)
{
	OWN_MEM char *body = NULL, *client = NULL;
	struct server_link *k = NULL;
	struct server_spec kept = { 0 };
	struct spec_session spec = { 0 };
	int made = server_spec_session(session_row(owner)->id, name, server, &body, &client, e);

	if (made == 0 && !server_spec_read(client, &kept))
		made = err_set(e, ERR_INVALID, "malformed");
	if (made == 0)
		made = spec_session_read(body, strlen(body), &spec, e);
	if (made == 0)
		made = spec_volumes_find(&spec, session_core(owner), session_tenant(owner), e);
	if (made == 0) {
		k = server_link_new(core_loop(session_core(owner)), &kept);
		spec.spec.client = client;
		if (k == NULL)
			made = err_set(e, ERR_SYSTEM, "out of memory");
		else
			made = start_session(owner, k, &spec, e);
	}
	if (made < 0 && k != NULL)
		server_link_free(k);
	free(kept.gateway);
	spec_session_release(&spec);
	return made;
}

/* The first failure ends the owner. */
static void make_servers(struct servers_part_state *st)
{
	json_t *servers = server_spec_servers(session_row(st->session)->client), *server;
	const char *name;

	st->nservers = json_object_size(servers);
	json_object_foreach(servers, name, server)
	{
		if (make_server(st->session, name, server, &st->cause) == 0) {
			st->cause.code = ERR_NONE;
			continue;
		}
		(void)err_wrap(&st->cause, "server %s", name);
		break;
	}
	json_decref(servers);
	if (st->cause.code != ERR_NONE)
		give_up(st);
}

/* Runs after each piece of news, and once for the start. */
static void on_make(struct loop_task *t)
{
	struct servers_part_state *st = t->arg;

	if (!st->pending)
		return;
	if (st->cause.code != ERR_NONE)
		give_up(st);
	else if (servers_next(session_core(st->session), session_row(st->session)->id, NULL) ==
		 NULL)
		make_servers(st);
	else
		check_ready(st);
}

/* ---- hooks
 *
 * Called by session_hooks.h for every session. Most sessions have nothing to do with MCP servers,
 * so each hook looks for the state first. */

/* Pins of sessions that are gone are swept out. */
static int servers_part_setup(struct core *c, struct err *e)
{
	void **at = session_parts_of_core(c, &servers_part);

	*at = calloc(1, sizeof(struct node));
	if (*at == NULL)
		return err_set(e, ERR_SYSTEM, "MCP servers: out of memory");
	return store_mcp_pin_sweep(core_store(c), e);
}

static void servers_part_release(struct core *c)
{
	void **at = session_parts_of_core(c, &servers_part);

	free(*at);
	*at = NULL;
}

/* A fork of a server's session would be taken for that session after a restart, and outlive the
 * session that the server belongs to. */
static int servers_part_check(struct session *s, struct err *e)
{
	struct server_spec spec;

	if (node_of(session_core(s))->making || !server_spec_read(session_row(s)->client, &spec))
		return 0;
	free(spec.gateway);
	return err_set(e, ERR_CONFLICT, "the session of an MCP server cannot be forked");
}

/* A session that a server runs in, and that this daemon did not make. */
static void servers_part_adopt(struct session *s)
{
	struct server_spec spec;
	struct server_link *k;

	if (state_of(s) != NULL || !server_spec_read(session_row(s)->client, &spec))
		return;
	/* A fork that an earlier version made has the same text. */
	k = servers_find(session_core(s), spec.owner, spec.name, strlen(spec.name)) != NULL
		    ? NULL
		    : server_link_new(core_loop(session_core(s)), &spec);
	free(spec.gateway);
	if (k == NULL)
		return;
	k->was_ready = true; /* its program may be started again */
	kept_pins_read(session_core(s), session_row(s)->id, &k->pins);
	servers_part_attach(k, s);
	server_link_start(k);
}

/* The servers are made in a turn of their own: the caller is in the middle of a start. */
static void on_started(struct session *s)
{
	struct core *c = session_core(s);
	struct servers_part_state *st;
	json_t *servers = server_spec_servers(session_row(s)->client);

	if (servers == NULL || servers_next(c, session_row(s)->id, NULL) != NULL) {
		json_decref(servers);
		return;
	}
	json_decref(servers);
	st = make_state(s);
	st->make = (struct loop_task){ .on_run = on_make, .arg = st };
	st->pending = true;
	st->deadline_ns = loop_now_ns(core_loop(c)) + SETUP_NS;
	loop_defer(core_loop(c), &st->make);
}

/* A creation answers only when every part is ready. */
static bool is_ready(const struct session *s)
{
	const struct servers_part_state *st = state_of(s);

	return st == NULL || !st->pending;
}

/* By more than is looked ahead: each extension is a write of the store. */
static void servers_part_extend(struct session *s)
{
	uint64_t timeout_ms = session_row(s)->timeout_ms;
	struct err e;

	if (timeout_ms < 2 * EXTEND_MS && session_extend(s, 2 * EXTEND_MS, NULL, &e) == 0)
		return;
	IGNORED(session_extend(s, timeout_ms, NULL, &e), "it is tried again in a second");
}

/* The session of a server lives as long as the one that it belongs to. */
static void keep_alive(struct server_link *k)
{
	struct core *c = session_core(k->session);
	const struct store_session *row = session_row(k->session);
	struct err e;

	if (row->state >= SESSION_ENDING || !core_recovered(c))
		return;
	if (session_find(c, k->spec.owner) == NULL) {
		log_info("ending the session of an MCP server whose session is gone",
			 "session_id=%s", row->id);
		IGNORED(session_delete(c, session_tenant(k->session), row->id, NULL, &e),
			"it is tried again in a second");
	} else if (row->deadline_ms > 0 && row->deadline_ms < core_now_ms() + EXTEND_MS &&
		   row->timeout_ms > 0) {
		servers_part_extend(k->session);
	}
}

/* Once a second for each live session. */
static void on_session_second(struct session *s)
{
	struct servers_part_state *st = state_of(s);

	if (st == NULL)
		return;
	if (st->link != NULL)
		keep_alive(st->link);
	else if (st->pending && loop_now_ns(core_loop(session_core(s))) > st->deadline_ns &&
		 st->cause.code == ERR_NONE) {
		(void)err_set_reason(&st->cause, REASON_TIMEOUT,
				     "its servers did not list their tools within 60 s");
		loop_defer(core_loop(session_core(s)), &st->make);
	}
}

/* One after the other: each call may end others, and a link of a queued session is freed by it. */
static void end_servers(struct session *s)
{
	struct core *c = session_core(s);
	char id[STORE_ID_MAX], name[JOIN_SERVER_MAX + 1] = "";
	struct server_link *k;
	struct err e;

	(void)err_set_reason(&e, REASON_GONE, "the session that it belongs to ends");
	str_copy(id, session_row(s)->id);
	while ((k = servers_part_after(c, id, name)) != NULL) {
		str_copy(name, k->spec.name);
		if (!session_drop_queued(k->session, &e))
			session_stop(k->session, SESSION_DELETED,
				     "the session that it belongs to ends");
	}
}

static void on_cell_gone(struct session *s, const struct err *why)
{
	struct servers_part_state *st = state_of(s);

	if (st != NULL && st->link != NULL)
		server_link_cell_gone(st->link);
}

static void on_ending(struct session *s, const struct err *why)
{
	struct servers_part_state *st = state_of(s);

	if (st != NULL) {
		st->pending = false;
		if (st->link != NULL) {
			server_link_end(st->link, "the session of the server has ended");
			return;
		}
	}
	end_servers(s);
}

/* The owner learns of a server that never ran. */
static void on_free(struct session *s, const struct err *why)
{
	void **at = session_parts_of(s, &servers_part);
	struct servers_part_state *st = *at;
	struct err e;

	if (st == NULL)
		return;
	loop_task_cancel(core_loop(session_core(s)), &st->make);
	if (st->link != NULL) {
		/* Also of one that never ran: while it was queued, for example. */
		(void)err_set(&e, ERR_CONFLICT, "server %s: its session has ended",
			      st->link->spec.name);
		if (why != NULL) {
			e = *why;
			(void)err_wrap(&e, "server %s", st->link->spec.name);
		}
		on_failure(session_core(s), st->link->spec.owner, &e);
		LIST_REMOVE(st->link);
		server_link_free(st->link);
	}
	free(st);
	*at = NULL;
}

const struct session_part servers_part = {
	.name = "mcp servers",
	.setup = servers_part_setup,
	.release = servers_part_release,
	.check = servers_part_check,
	.on_started = on_started,
	.is_ready = is_ready,
	.on_adopted = servers_part_adopt,
	.on_session_second = on_session_second,
	.on_cell_gone = on_cell_gone,
	.on_ending = on_ending,
	.on_free = on_free,
};
