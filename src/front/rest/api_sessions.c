/* api_sessions.c - creates, lists, shows, forks, pauses, resumes and ends sessions, and shows their
 * changed files, metrics, ports and MCP servers.
 *
 * A list reads rows in pieces, one a turn, and shows a live session's present state in place of its
 * row. A filter by metadata parses the metadata of each row, so a piece ends after SCAN_MAX bytes
 * of it.
 *
 * Handlers that need the session's programs call request_use(), which resumes a paused one if
 * allowed. The others read the row or the live structure and wait for nothing. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "daemon/session/session_suspend.h"
#include "daemon/store/store_package.h"
#include "front/mcpservers/server_spec.h"
#include "front/mcpservers/servers_part.h"
#include "front/rest/api_handlers.h"
#include "front/rest/list_page.h"
#include "front/web/changes.h"
#include "front/web/json_members.h"
#include "front/web/json_view.h"
#include "front/web/port_url.h"
#include "front/web/reply.h"
#include "front/web/request.h"
#include "front/web/session_request.h"
#include "front/web/spec_session.h"
#include "lib/base/str.h"
#include "lib/base/units.h"
#include "lib/http/url.h"
#include "lib/json/json.h"

/* ---- lists
 *
 * The tenant's sessions, in pages, filtered by state, template and metadata. */

#define WANTED_MAX 8 /* metadata[KEY]=VALUE in one query */
#define WANTED_TEXT_MAX 512
#define SCAN_MAX (64U << 10) /* bytes of metadata that one piece parses, about */
#define SCAN_ROW 256	     /* what a row costs without any */

/* In the order of ended_words. ENDED_UNSAID: the parameter is absent. */
enum { ENDED_ANY, ENDED_NO, ENDED_YES, ENDED_UNSAID };
static const char *const ended_words[] = { "any", "false", "true" };

struct api_sessions_listing {
	struct page_walk list; /* first */
	uint32_t states;       /* a set of the shown ones. 0: all */
	unsigned ended;	       /* a place in ended_words */
	char template[STORE_NAME_MAX];
	size_t scanned; /* in this piece */
	unsigned nwanted;
	char names[WANTED_MAX][WANTED_TEXT_MAX], values[WANTED_MAX][WANTED_TEXT_MAX];
};

/* The KEY of "metadata.KEY" or "metadata[KEY]", OpenAPI's form. NULL: another parameter. */
static const char *metadata_key(char *name)
{
	size_t n = strlen(name);

	if (strncmp(name, "metadata.", 9) == 0)
		return name + 9;
	if (strncmp(name, "metadata[", 9) != 0 || name[n - 1] != ']')
		return NULL;
	name[n - 1] = '\0';
	return name + 9;
}

/* -1: a filter is malformed, or there are too many. */
static int read_wanted(struct api_sessions_listing *l, struct err *e)
{
	struct http1_span rest = exchange_request(l->list.job.r->x)->query, name, value;
	char text[WANTED_TEXT_MAX];
	const char *key;

	while (url_query_next(&rest, &name, &value)) {
		if (url_decode_form(name, text, sizeof(text)) < 0 ||
		    strncmp(text, "metadata", 8) != 0)
			continue;
		key = metadata_key(text);
		if (key == NULL)
			return err_set(e, ERR_INVALID, "a metadata filter is metadata[KEY]=VALUE");
		if (l->nwanted == WANTED_MAX)
			return err_set(e, ERR_INVALID, "at most %d metadata filters", WANTED_MAX);
		if (url_decode_form(value, l->values[l->nwanted], WANTED_TEXT_MAX) < 0)
			return err_set(e, ERR_INVALID,
				       "a metadata filter is malformed or too long");
		str_copy(l->names[l->nwanted++], key);
	}
	return 0;
}

/* All filters must match. */
static bool is_wanted(const struct api_sessions_listing *l, const struct store_session *row)
{
	json_t *metadata;
	unsigned i = 0;

	if (l->nwanted == 0)
		return true;
	metadata = json_loads(row->metadata, 0, NULL);
	while (i < l->nwanted) {
		const char *value = json_string_value(json_object_get(metadata, l->names[i]));

		if (value == NULL || strcmp(value, l->values[i]) != 0)
			break;
		i++;
	}
	json_decref(metadata);
	return i == l->nwanted;
}

/* A paused session may be shown by another word than its row has, so states are compared as shown.
 */
static bool is_in_state(const struct api_sessions_listing *l, const struct store_session *row)
{
	if (l->ended != ENDED_ANY && (l->ended == ENDED_YES) != (row->ended_ms != 0))
		return false;
	return l->states == 0 || (l->states & 1U << session_shown_state(row)) != 0;
}

/* 1: the piece or the page has ended. The row comes again. */
static int on_row(const struct store_session *row, void *cookie)
{
	struct api_sessions_listing *l = cookie;
	struct session *live;

	if (l->scanned > SCAN_MAX || list_job_piece_is_full(&l->list.job))
		return 1;
	row = session_now(l->list.job.r->core, row, &live);
	if (!is_in_state(l, row))
		return 0;
	if (l->nwanted > 0)
		l->scanned += strlen(row->metadata) + SCAN_ROW;
	if (!is_wanted(l, row))
		return 0;
	if (!page_walk_admits(&l->list))
		return 1;
	/* Last known numbers: reading a hundred cgroups takes too long for a list. */
	json_view_session(&l->list.job.j, NULL, row, live, false, false);
	return 0;
}

/* "running,paused" as a set. */
static int read_states(struct request *r, uint32_t *ret, struct err *e)
{
	char text[128];

	if (request_text(r, "state", text, sizeof(text), e) < 0)
		return -1;
	for (char *at = text, *next; *at != '\0'; at = next) {
		size_t n = strcspn(at, ",");
		unsigned s = 0;

		next = at[n] == '\0' ? at + n : at + n + 1;
		at[n] = '\0';
		while (s < SESSION_STATES &&
		       strcmp(session_state_name((enum session_state)s), at) != 0)
			s++;
		if (s == SESSION_STATES)
			return err_set(e, ERR_INVALID, "parameter state: unknown state");
		*ret |= 1U << s;
	}
	return 0;
}

static int read_rows(struct page_walk *p, struct store_looked *ret, struct err *e)
{
	struct api_sessions_listing *l = (struct api_sessions_listing *)p;
	const struct request *r = p->job.r;
	struct store_session_filter filter = {
		.tenant = tenant_row(r->tenant)->id,
		/* Of ended sessions. The others all pass. */
		.states = l->ended == ENDED_NO ? 1U << SESSION_RUNNING : l->states,
		.template = l->template[0] == '\0' ? NULL : l->template,
		.ascending = p->page.ascending,
		.after_ms = p->page.after_ms,
		.after_id = p->page.after_id,
		.limit = LIST_JOB_PIECE,
	};

	l->scanned = 0;
	return store_session_list(core_store(r->core), &filter, on_row, l, ret, e);
}

/* Ended sessions are listed for clients that ask for them, or for states. */
static int read_ended(struct request *r, struct api_sessions_listing *l, struct err *e)
{
	l->ended = ENDED_UNSAID;
	if (request_choice(r, "ended", ended_words, COUNT(ended_words), &l->ended, e) < 0)
		return -1;
	if (l->ended == ENDED_UNSAID)
		l->ended = l->states == 0 ? ENDED_NO : ENDED_ANY;
	return 0;
}

void api_sessions_list(struct request *r)
{
	struct api_sessions_listing *l = page_walk_new(r, sizeof(*l), read_rows);
	struct err e = { 0 };

	if (l == NULL)
		return;
	if (read_states(r, &l->states, &e) < 0 || read_ended(r, l, &e) < 0 ||
	    request_text(r, "template", l->template, sizeof(l->template), &e) < 0 ||
	    read_wanted(l, &e) < 0)
		reply_error(r, &e);
	else
		page_walk_start(&l->list, "sessions");
}

/* ---- forks
 *
 * Forks a session: POST /v1/sessions/{session}/fork {"count", "timeout"}. */

#define FORK_JSON_MAX (16U << 20)

/* {"sessions": [...], "errors": [...]}: one entry in either for each requested session. */
static void on_forked(struct request *r, const struct session_fork *f, const struct err *e)
{
	struct session *s;
	struct json j;

	if (e != NULL) {
		reply_error(r, e);
		return;
	}
	json_init_heap(&j, FORK_JSON_MAX);
	json_open(&j, NULL, '{');
	json_open(&j, "sessions", '[');
	for (unsigned i = 0; i < f->n; i++) {
		s = f->list[i].failed ? NULL : session_find(r->core, f->list[i].id);
		if (s != NULL)
			json_view_session(&j, NULL, session_row(s), s, false, false);
	}
	json_close(&j, ']');
	json_open(&j, "errors", '[');
	for (unsigned i = 0; i < f->n; i++)
		if (f->list[i].failed) {
			json_open(&j, NULL, '{');
			reply_error_member(&j, &f->list[i].err);
			json_close(&j, '}');
		}
	json_close(&j, ']');
	json_view_secrets_found(&j, f->by_snapshot ? &f->made.capture.found : &f->capture.found);
	json_close(&j, '}');
	reply_json(r, 201, &j);
}

/* Without a body one fork is made. */
static int read_body(const uint8_t *body, size_t len, struct capture_answer_fork *ret,
		     struct err *e)
{
	json_t *root = json_members_parse(body, len, e);
	struct json_members m;
	uint64_t count = 1;
	int read;

	*ret = (struct capture_answer_fork){ 0 };
	if (root == NULL)
		return -1;
	json_members_begin(&m, root, "", e);
	json_members_count(&m, "count", 1, SESSION_FORK_MAX, &count);
	json_members_time(&m, "timeout", "timeout_ms", &ret->timeout_ms, &ret->timeout_given);
	ret->count = (unsigned)count;
	read = json_members_end(&m);
	json_decref(root);
	return read;
}

/* on_forked() answers when all forks run or have failed. */
static void fork_on_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct capture_answer_fork asked;
	struct err e = { 0 };
	struct session *s;

	if (read_body(body, len, &asked, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	s = request_session(r);
	if (s != NULL)
		capture_answer_fork(r, s, &asked, on_forked);
}

void api_fork_create(struct request *r)
{
	request_body(r, fork_on_body);
}

/* ---- ports
 *
 * Opens and closes ports of a session for clients without a key (port_url.h). */

/* The member must be there. */
static int read_port(const uint8_t *body, size_t len, uint64_t *ret, struct err *e)
{
	json_t *root = json_members_parse(body, len, e);
	struct json_members m;
	int read;

	if (root == NULL)
		return -1;
	json_members_begin(&m, root, "", e);
	json_members_count(&m, "port", 1, UINT16_MAX, ret);
	if (*ret == 0)
		(void)json_members_fail(&m, "port", "is missing");
	read = json_members_end(&m);
	json_decref(root);
	return read;
}

/* A port that is open already is answered with its URL, too. */
static void on_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct err e = { 0 };
	struct session *s = session_live(r->core, r->tenant, r->session_id, &e);
	char url[PORT_URL_MAX];
	uint64_t port = 0;
	struct json j;

	if (s == NULL || read_port(body, len, &port, &e) < 0 ||
	    port_url_open(s, (unsigned)port, port_url_tls(r->core), request_actor(r), url, &e) <
		    0) {
		reply_error(r, &e);
		return;
	}
	json_init_heap(&j, PORT_URL_MAX + 64);
	json_open(&j, NULL, '{');
	json_uint(&j, "port", port);
	json_text(&j, "url", url);
	json_close(&j, '}');
	reply_json(r, 200, &j);
}

void api_ports_open(struct request *r)
{
	request_body(r, on_body);
}

void api_ports_close(struct request *r)
{
	struct err e = { 0 };
	struct session *s = session_live(r->core, r->tenant, r->session_id, &e);
	uint64_t port;

	if (s == NULL)
		reply_error(r, &e);
	else if (units_count(r->id, 1, UINT16_MAX, &port, &e) < 0)
		reply_code(r, 404, "not_found", "a port is a number from 1 to 65535");
	else if (session_ports_close(s, (unsigned)port, request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		reply_empty(r, 204);
}

/* ---- changed files
 *
 * Lists the changes in the file system of a session since its start (changes.h). */

#define CHANGES_MAX 100000
#define DIFF_JSON_MAX (15U << 20)

/* The state of a listing. no_room: the tenant's memory for answers is full, and why says so. */
struct diff {
	struct changes changes;
	struct json j;
	unsigned shown;
	bool truncated, no_room;
	struct err why;
};

static void diff_release(struct request *r, bool answered)
{
	struct diff *d = r->state;

	changes_release(&d->changes);
	json_release(&d->j);
}

/* Kind T: the cell left out changes below the path. */
static void on_change(struct changes *l, const struct diff_record *c)
{
	struct diff *d = l->r->state;
	char mode[16];

	if (d->no_room)
		return;
	if (c->kind == 'T' || d->shown >= CHANGES_MAX || d->j.len > DIFF_JSON_MAX) {
		d->truncated = true;
		return;
	}
	(void)snprintf(mode, sizeof(mode), "%04o", c->mode & 07777U);
	json_open(&d->j, NULL, '{');
	json_text(&d->j, "kind", diff_record_kind(c));
	json_text(&d->j, "path", c->path);
	json_text(&d->j, "mode", mode);
	json_uint(&d->j, "size", c->size);
	json_close(&d->j, '}');
	d->shown++;
	if (reply_count(l->r, d->j.len, &d->why) == 0)
		return;
	d->no_room = true;
	json_release(&d->j);
}

/* The one end of the listing. */
static void on_end(struct changes *l, const struct err *e)
{
	struct request *r = l->r;
	struct diff *d = r->state;

	if (e == NULL && d->no_room)
		e = &d->why;
	if (e != NULL) {
		reply_error(r, e);
		return;
	}
	json_close(&d->j, ']');
	json_bool(&d->j, "truncated", d->truncated);
	json_close(&d->j, '}');
	reply_json(r, 200, &d->j);
}

static void on_session(struct request *r, struct session *s)
{
	struct diff *d = r->state;

	changes_start(&d->changes, r, s);
}

/* An ended session's kept list needs no cell. */
void api_diff_get(struct request *r)
{
	struct diff *d = request_state(r, sizeof(*d), diff_release);

	if (d == NULL)
		return;
	d->changes.on_change = on_change;
	d->changes.on_end = on_end;
	json_init_heap(&d->j, REPLY_JSON_MAX);
	json_open(&d->j, NULL, '{');
	json_open(&d->j, "changes", '[');
	if (!changes_read_kept(&d->changes, r))
		request_use(r, on_session);
}

/* ---- metrics
 *
 * Resources that one session uses, now and over the last minutes. */

#define METRICS_JSON_MAX (64U << 10)

static void write_now(struct json *j, const struct session_sample *n)
{
	json_open(j, "now", '{');
	json_view_time(j, "time", n->time_ms);
	json_uint(j, "cpu_ms", n->cpu_us / 1000);
	json_uint(j, "memory_bytes", n->memory_bytes);
	json_uint(j, "memory_peak_bytes", n->memory_peak_bytes);
	json_uint(j, "pids", n->pids);
	json_uint(j, "disk_bytes", n->disk_bytes);
	json_uint(j, "inodes", n->inodes);
	json_close(j, '}');
}

/* A point of the last minutes has fewer members than the present one. */
static void write_past(struct json *j, const struct session_sample *n)
{
	json_open(j, NULL, '{');
	json_view_time(j, "time", n->time_ms);
	json_uint(j, "cpu_ms", n->cpu_us / 1000);
	json_uint(j, "memory_bytes", n->memory_bytes);
	json_uint(j, "pids", n->pids);
	json_uint(j, "disk_bytes", n->disk_bytes);
	json_close(j, '}');
}

static void write_packages(struct json *j, const struct store_package_sum *sum)
{
	json_open(j, "packages", '{');
	json_uint(j, "downloaded", sum->downloads);
	json_uint(j, "refused", sum->refusals);
	json_uint(j, "hash_mismatches", sum->mismatches);
	json_uint(j, "bytes", sum->bytes);
	json_uint(j, "cache_hits", sum->hits);
	json_close(j, '}');
}

/* Only a live session has metrics. api_resources.c has those of ended ones. */
void api_metrics_get(struct request *r)
{
	struct session_sample now = { 0 }, past[SESSION_SAMPLES];
	struct store_package_sum packages;
	struct err e = { 0 };
	struct session *s = session_live(r->core, r->tenant, r->session_id, &e);
	struct json j;
	size_t n;

	if (s == NULL ||
	    store_package_sum_get(core_store(r->core), session_row(s)->id, &packages, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	session_sample_now(s, &now);
	n = session_sample_history(s, past);
	json_init_heap(&j, METRICS_JSON_MAX);
	json_open(&j, NULL, '{');
	write_now(&j, &now);
	json_view_limits(&j, "limits", &session_row(s)->limits);
	json_open(&j, "history", '[');
	for (size_t i = 0; i < n; i++)
		write_past(&j, &past[i]);
	json_close(&j, ']');
	write_packages(&j, &packages);
	json_close(&j, '}');
	reply_json(r, 200, &j);
}

/* ---- mcp
 *
 * The MCP servers of a session. Calls go to its own endpoint (mcpservers). */

/* ---- the MCP servers of a session
 *
 * The MCP servers of a session as the native interface shows them. */

struct core;
struct json;

/* changed: the tool has another definition than at first. */
static void write_tools(struct json *j, const struct server_link *k)
{
	char rule[TOOL_POLICY_WORD_MAX];

	json_open(j, "tools", '[');
	for (size_t i = 0; i < k->peer.tools.n; i++) {
		const char *name = k->peer.tools.tools[i].name;

		json_open(j, NULL, '{');
		json_text(j, "name", name);
		json_bool(j, "allowed", tool_policy_allows(&k->spec.policy, name, rule));
		json_text(j, "rule", rule);
		json_bool(j, "changed", tool_pins_changed(&k->pins, name));
		json_close(j, '}');
	}
	json_close(j, ']');
}

/* The member "servers" of GET /v1/sessions/{id}/mcp. */
static void servers_view_write(struct json *j, struct core *core, const char *session_id)
{
	json_open(j, "servers", '[');
	for (const struct server_link *k = servers_next(core, session_id, NULL); k != NULL;
	     k = servers_next(core, session_id, k)) {
		json_open(j, NULL, '{');
		json_text(j, "name", k->spec.name);
		json_text(j, "session_id", session_row(k->session)->id);
		json_text(j, "state", server_link_state(k));
		json_text(j, "error", k->failure[0] == '\0' ? NULL : k->failure);
		json_text(j, "version", k->peer.version);
		json_text(j, "pin", k->spec.strict ? "strict" : "warn");
		write_tools(j, k);
		json_close(j, '}');
	}
	json_close(j, ']');
}

#define SERVERS_MAX (8U << 20)

void api_mcp_get(struct request *r)
{
	struct session *live = NULL;
	struct err e = { 0 };
	struct json j;

	if (request_owns(r, &live, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	json_init_heap(&j, SERVERS_MAX);
	json_open(&j, NULL, '{');
	servers_view_write(&j, r->core, r->session_id);
	json_close(&j, '}');
	reply_json(r, 200, &j);
}

/* ---- show, change, end
 *
 * The handlers below answer with the session itself. Changes that take time end by the request's
 * wait. */

#define SESSION_JSON_MAX (256U << 10)
/* Keys of scope read see no URLs of ports. */
void api_sessions_reply(struct request *r, int status, struct session *s, bool fresh)
{
	struct json j;

	json_init_heap(&j, SESSION_JSON_MAX);
	json_view_session(&j, NULL, session_row(s), s, !fresh, (r->scopes & TENANT_SESSIONS) != 0);
	reply_json(r, status, &j);
}

void api_sessions_reply_row(struct request *r, int status, const struct store_session *row)
{
	struct json j;

	json_init_heap(&j, SESSION_JSON_MAX);
	json_view_session(&j, NULL, row, NULL, false, false);
	reply_json(r, status, &j);
}

/* ---- show */

void api_sessions_get(struct request *r)
{
	struct session *live = NULL;
	struct store_session row = { 0 };
	struct err e = { 0 };

	if (request_owns(r, &live, &e) < 0 ||
	    (live == NULL && session_get(r->core, r->tenant, r->session_id, &row, &e) < 0)) {
		reply_error(r, &e);
	} else if (live != NULL) {
		api_sessions_reply(r, 200, live, false);
	} else {
		api_sessions_reply_row(r, 200, &row);
		store_session_release(&row);
	}
}

/* ---- change */

void api_sessions_delete(struct request *r)
{
	struct err e = { 0 };

	if (session_delete(r->core, r->tenant, r->session_id, request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		reply_empty(r, 204);
}

/* The answer shows the session after the change. */
static void on_changed(struct completion *w, const struct err *e)
{
	struct request *r = w->arg;

	if (e != NULL)
		reply_error(r, e);
	else
		api_sessions_get(r);
}

/* how ends the request's wait once. */
static void sessions_change(struct request *r,
			    void (*how)(struct session *s, const struct store_actor *who,
					struct completion *w))
{
	struct err e = { 0 };
	struct session *s = session_live(r->core, r->tenant, r->session_id, &e);

	if (s == NULL) {
		reply_error(r, &e);
		return;
	}
	r->wait.on_done = on_changed;
	how(s, request_actor(r), &r->wait);
}

static void pause_without_memory(struct session *s, const struct store_actor *who,
				 struct completion *w)
{
	session_cold_pause(s, COLD_CAPTURE, who, w);
}

/* memory is true by default: the processes stay. */
static int read_pause(const uint8_t *body, size_t len, bool *ret_memory, struct err *e)
{
	json_t *root = json_members_parse(body, len, e);
	struct json_members m;
	int read;

	if (root == NULL)
		return -1;
	json_members_begin(&m, root, "", e);
	json_members_bool(&m, "memory", ret_memory);
	read = json_members_end(&m);
	json_decref(root);
	return read;
}

static void on_pause_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct err e = { 0 };
	bool memory = true;

	if (len > 0 && read_pause(body, len, &memory, &e) < 0)
		reply_error(r, &e);
	else
		sessions_change(r, memory ? session_pause : pause_without_memory);
}

void api_sessions_pause(struct request *r)
{
	request_body(r, on_pause_body);
}

void api_sessions_reset(struct request *r)
{
	sessions_change(r, session_cold_reset);
}

void api_sessions_resume(struct request *r)
{
	sessions_change(r, session_resume);
}

/* The member must be there, perhaps as 0. */
static int read_timeout(const uint8_t *body, size_t len, uint64_t *ret, struct err *e)
{
	json_t *root = json_members_parse(body, len, e);
	bool given = false;
	struct json_members m;
	int read;

	if (root == NULL)
		return -1;
	json_members_begin(&m, root, "", e);
	json_members_time(&m, "timeout", "timeout_ms", ret, &given);
	if (!given)
		(void)json_members_fail(&m, "timeout", "is missing");
	read = json_members_end(&m);
	json_decref(root);
	return read;
}

static void on_timeout_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct err e = { 0 };
	struct session *s = session_live(r->core, r->tenant, r->session_id, &e);
	uint64_t ms = 0;

	if (s == NULL || read_timeout(body, len, &ms, &e) < 0 ||
	    session_set_timeout(s, ms, request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		api_sessions_reply(r, 200, s, false);
}

void api_sessions_timeout(struct request *r)
{
	request_body(r, on_timeout_body);
}
