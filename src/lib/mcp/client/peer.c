#include "lib/mcp/client/peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/base/str.h"
#include "lib/json/json_size.h"

/* Between two lists that the server caused: twice as long each time, until it is quiet. */
#define RELIST_NS (1000 * CLOCK_MS)
#define RELIST_DOUBLES 6
#define WORDS_MAX 150 /* of a message of the server in why it failed */

void peer_init(struct peer *p, const struct peer_events *events, void *arg)
{
	*p = (struct peer){ .events = events, .arg = arg, .name = "", .client = "cordon" };
	p->setup_ms = 30000;
	p->line_max = PEER_LINE_MAX;
	p->values_max = SIZE_MAX;
	buf_init(&p->out, PEER_OUT_MAX);
	buf_init(&p->in, PEER_LINE_MAX);
}

void peer_release(struct peer *p)
{
	peer_lost(p, "the connection to the server was closed");
	buf_release(&p->out);
	buf_release(&p->in);
	tool_list_clear(&p->tools);
	tool_list_clear(&p->fresh);
}

/* ---- calls
 *
 * A call is in p->calls from peer_call() until its end. It leaves the list before its callback is
 * called. */

/* The call belongs to its owner again, who may free it or begin it again. */
static void peer_take_out(struct peer_call *c)
{
	LIST_REMOVE(c);
	c->peer->ncalls--;
	c->peer = NULL;
}

/* The callback may begin or cancel any call of this peer, so callers hold no other call across it.
 */
void peer_end_call(struct peer_call *c, const struct peer_answer *a)
{
	peer_take_out(c);
	c->on_done(c, a);
}

/* The line is written first. A failure leaves the call not begun. */
int peer_call(struct peer *p, struct peer_call *c, const char *tool, struct json_value arguments,
	      uint64_t timeout_ms, struct err *e)
{
	if (p->state != PEER_READY && p->state != PEER_LISTING)
		return err_set(e, ERR_CONFLICT, "server %s is not running now", p->name);
	if (p->ncalls >= PEER_CALLS_MAX)
		return err_set(e, ERR_LIMIT, "server %s has %u calls under way", p->name,
			       PEER_CALLS_MAX);
	c->id = ++p->next_id;
	if (peer_write_call(p, c->id, tool, arguments, c->on_progress != NULL, e) < 0)
		return -1;
	c->deadline_ns = clock_now_ns() + timeout_ms * CLOCK_MS;
	c->peer = p;
	p->ncalls++;
	LIST_PUSH(&p->calls, c);
	return 0;
}

void peer_cancel(struct peer_call *c)
{
	if (c->peer == NULL)
		return;
	peer_write_cancelled(c->peer, c->id);
	peer_take_out(c);
}

struct peer_call *peer_find_call(struct peer *p, uint64_t id)
{
	struct peer_call *c = p->calls;

	while (c != NULL && c->id != id)
		c = c->next;
	return c;
}

/* ---- becoming ready
 *
 * The steps are initialize or server/discover, then tools/list page by page. One request is
 * open at a time. The first steps share a deadline, and so do the pages of a list. */

/* The owner ends the connection. Calls that wait end by peer_lost() then. */
void peer_fail(struct peer *p, const char *why)
{
	struct err e;

	/* Part of it may be the server's words. */
	(void)err_set(&e, ERR_SYSTEM, "%s", why);
	err_sanitize(&e);
	p->state = PEER_FAILED;
	str_copy(p->failure, e.msg);
	p->events->on_failed(p);
}

/* The three functions peer_ask_...() begin a step. step_id is the id of its request, and an answer
 * with another id is no step's. */
static void peer_ask_initialize(struct peer *p)
{
	p->state = PEER_INITIALIZING;
	p->era = PEER_LEGACY;
	p->tried_initialize = true;
	p->step_id = ++p->next_id;
	peer_write_initialize(p, p->step_id);
}

static void peer_ask_discover(struct peer *p)
{
	p->state = PEER_DISCOVERING;
	p->era = PEER_MODERN;
	p->tried_discover = true;
	p->step_id = ++p->next_id;
	peer_write_discover(p, p->step_id);
}

static void peer_ask_tools(struct peer *p, struct json_value cursor)
{
	p->state = PEER_LISTING;
	p->step_id = ++p->next_id;
	peer_write_list(p, p->step_id, cursor);
}

/* The old list stays in use until the new one is complete. */
static void peer_list_again(struct peer *p)
{
	p->changed = false;
	p->pages = 0;
	p->step_deadline_ns = clock_now_ns() + p->setup_ms * CLOCK_MS;
	tool_list_clear(&p->fresh);
	peer_ask_tools(p, (struct json_value){ 0 });
}

/* Buffers and flags of an earlier connection are cleared. The tools stay listed. */
void peer_begin(struct peer *p)
{
	p->tried_initialize = p->tried_discover = p->changed = p->skipping = false;
	p->failure[0] = '\0';
	p->version[0] = '\0';
	p->pages = 0;
	p->noise = p->noise_bytes = 0;
	buf_clear(&p->in);
	buf_clear(&p->out);
	tool_list_clear(&p->fresh);
	p->step_deadline_ns = clock_now_ns() + p->setup_ms * CLOCK_MS;
	if (p->modern_first)
		peer_ask_discover(p);
	else
		peer_ask_initialize(p);
}

/* The list moves from fresh to tools, with its memory. */
static void peer_set_ready(struct peer *p)
{
	tool_list_clear(&p->tools);
	p->tools = p->fresh;
	p->fresh = (struct tool_list){ 0 };
	p->state = PEER_READY;
	p->step_id = 0;
	p->listed_at_ns = clock_now_ns();
	p->events->on_tools(p);
}

/* Copy a short text of the server. A longer text, or one with escapes, becomes "". */
static void peer_copy_text(struct json_value v, char *ret, size_t cap)
{
	bool fits = v.kind == JSON_READ_TEXT && v.n - 2 < cap && memchr(v.p, '\\', v.n) == NULL;

	ret[0] = '\0';
	if (fits) {
		memcpy(ret, v.p + 1, v.n - 2);
		ret[v.n - 2] = '\0';
	}
}

/* A server without tools is ready with an empty list. */
static void peer_list_if_it_has_tools(struct peer *p, struct json_value result)
{
	struct json_value can = json_read_member(result, "capabilities");

	if (json_read_member(can, "tools").kind != JSON_READ_OBJECT)
		peer_set_ready(p);
	else
		peer_list_again(p);
}

static void on_initialized(struct peer *p, struct json_value result)
{
	peer_copy_text(json_read_member(result, "protocolVersion"), p->version, sizeof(p->version));
	if (p->events->on_words != NULL)
		p->events->on_words(p, p->version);
	peer_write_initialized(p);
	peer_list_if_it_has_tools(p, result);
}

/* A server of the newer protocol that lacks this version may still know the older one. */
static void on_discovered(struct peer *p, struct json_value result)
{
	struct json_value versions = json_read_member(result, "supportedVersions"), name, v;
	const char *at = NULL;

	while (json_read_next(versions, &at, &name, &v)) {
		if (!json_read_is(v, PEER_MODERN_VERSION))
			continue;
		str_copy(p->version, PEER_MODERN_VERSION);
		peer_list_if_it_has_tools(p, result);
		return;
	}
	if (!p->tried_initialize)
		peer_ask_initialize(p);
	else
		peer_fail(p, "it supports none of the protocol versions that are known here");
}

/* The cursor is copied before the owner is asked, because the answer's text is valid in this call
 * only. A cursor that is too long ends the list. */
static void on_page(struct peer *p, struct json_value result)
{
	struct json_value cursor = json_read_member(result, "nextCursor");
	size_t first = p->fresh.n;
	struct err e;

	if (tool_list_add(&p->fresh, json_read_member(result, "tools"), &e) < 0) {
		peer_fail(p, e.msg);
		return;
	}
	p->cursor[0] = '\0';
	if (cursor.kind == JSON_READ_TEXT && cursor.n > 2 && cursor.n < sizeof(p->cursor)) {
		memcpy(p->cursor, cursor.p, cursor.n);
		p->cursor[cursor.n] = '\0';
	}
	p->page_waits = true;
	if (p->events->on_page != NULL)
		p->events->on_page(p, first);
	else
		peer_page_done(p);
}

/* End the list at the last page, at PEER_PAGES_MAX, or when it is full. */
void peer_page_done(struct peer *p)
{
	if (!p->page_waits)
		return;
	p->page_waits = false;
	if (p->cursor[0] != '\0' && ++p->pages < PEER_PAGES_MAX && !tool_list_full(&p->fresh))
		peer_ask_tools(p,
			       (struct json_value){ JSON_READ_TEXT, p->cursor, strlen(p->cursor) });
	else
		peer_set_ready(p);
}

/* A refused first step leads to the other one, each at most once. */
static void on_step_error(struct peer *p, const char *message)
{
	char why[200];

	if (p->state == PEER_INITIALIZING && !p->tried_discover) {
		peer_ask_discover(p);
		return;
	}
	if (p->state == PEER_DISCOVERING && !p->tried_initialize) {
		peer_ask_initialize(p);
		return;
	}
	/* A long message is left out: a cut one could have a part of a secret, which the mask does
	 * not find. */
	(void)snprintf(why, sizeof(why), "it refuses %s: %s",
		       p->state == PEER_LISTING ? "tools/list" : "initialize and server/discover",
		       strlen(message) < WORDS_MAX ? message : "its message is too long");
	peer_fail(p, why);
}

static void on_step_result(struct peer *p, struct json_value result)
{
	if (result.kind != JSON_READ_OBJECT) {
		on_step_error(p, "its answer has no result");
		return;
	}
	if (p->state == PEER_INITIALIZING)
		on_initialized(p, result);
	else if (p->state == PEER_DISCOVERING)
		on_discovered(p, result);
	else
		on_page(p, result);
}

/* ---- messages of the server
 *
 * A message is an answer to a step, an answer to a call, a notification or a request. Whatever fits
 * none of these is noise. */

/* The message of an error, decoded. The buffer is the caller's. */
static const char *peer_error_text(struct peer *p, struct json_value error, struct buf *b)
{
	const char *text;
	struct err e;

	if (json_read_text(json_read_member(error, "message"), b, &e) < 0)
		return "an error without a message";
	text = buf_text(b); /* has its NUL */
	if (p->events->on_words != NULL && b->len > 0)
		p->events->on_words(p, (char *)b->data);
	return text;
}

/* Codes that are no number of 32 bits become an internal error. */
static int64_t peer_error_code(struct json_value error)
{
	struct json_value v = json_read_member(error, "code");
	uint64_t n = 0;
	bool negative = v.kind == JSON_READ_NUMBER && v.p[0] == '-';

	if (negative) {
		v.p++;
		v.n--;
	}
	if (!json_read_uint(v, &n) || n > INT32_MAX)
		return -32603;
	return negative ? -(int64_t)n : (int64_t)n;
}

/* The known members of a message, each as it came first. */
struct message {
	struct json_value method, id, params, result, error;
};

/* The first one counts, as everywhere in json_read.h. */
static void peer_take_member(struct json_value *to, struct json_value v)
{
	if (to->kind == JSON_READ_NONE)
		*to = v;
}

/* One walk: a message may have PEER_LINK_MAX bytes. */
static void peer_read_message(struct json_value from, struct message *ret)
{
	struct json_value name, v;
	const char *at = NULL;

	*ret = (struct message){ 0 };
	while (json_read_next(from, &at, &name, &v)) {
		if (json_read_is(name, "id"))
			peer_take_member(&ret->id, v);
		else if (json_read_is(name, "method"))
			peer_take_member(&ret->method, v);
		else if (json_read_is(name, "params"))
			peer_take_member(&ret->params, v);
		else if (json_read_is(name, "result"))
			peer_take_member(&ret->result, v);
		else if (json_read_is(name, "error"))
			peer_take_member(&ret->error, v);
	}
}

static void on_call_answer(struct peer_call *c, const struct message *m)
{
	struct buf text = BUF_INIT(4096);
	struct peer_answer a = { .end = PEER_RESULT, .result = m->result };

	if (m->error.kind == JSON_READ_OBJECT) {
		a.end = PEER_ERROR;
		a.code = peer_error_code(m->error);
		a.message = peer_error_text(c->peer, m->error, &text);
	} else if (m->result.kind != JSON_READ_OBJECT) {
		a.end = PEER_LOST;
		a.message = "the answer of the server has no result";
	}
	peer_end_call(c, &a);
	buf_release(&text);
}

void peer_ignore(struct peer *p, size_t n)
{
	p->ignored++;
	p->noise++;
	p->noise_bytes += n;
}

/* An id of no call and no step is noise. A call that was cancelled has such an id. */
static void on_answer(struct peer *p, const struct message *m, size_t n)
{
	struct buf text = BUF_INIT(4096);
	struct peer_call *c;
	uint64_t id;

	if (!json_read_uint(m->id, &id) || id == 0) {
		peer_ignore(p, n);
		return;
	}
	if (id == p->step_id) {
		p->step_id = 0;
		if (m->error.kind == JSON_READ_OBJECT)
			on_step_error(p, peer_error_text(p, m->error, &text));
		else
			on_step_result(p, m->result);
		buf_release(&text);
		return;
	}
	c = peer_find_call(p, id);
	if (c != NULL)
		on_call_answer(c, m);
	else
		peer_ignore(p, n);
}

/* The token of progress is the id of its call, as peer_write_call() has sent it. */
static void on_notification(struct peer *p, const struct message *m, size_t n)
{
	struct peer_call *c = NULL;
	uint64_t token;

	if (json_read_is(m->method, "notifications/tools/list_changed")) {
		if (p->changed) /* told already: as good as not asked for */
			peer_ignore(p, n);
		p->changed = true;
		return;
	}
	if (json_read_is(m->method, "notifications/progress") &&
	    json_read_uint(json_read_member(m->params, "progressToken"), &token))
		c = peer_find_call(p, token);
	if (c != NULL && c->on_progress != NULL)
		c->on_progress(c, m->params);
	else
		peer_ignore(p, n);
}

/* The request counts as noise, and is answered so that the server does not wait. */
static void on_request(struct peer *p, const struct message *m, size_t n)
{
	peer_ignore(p, n);
	peer_write_answer(p, m->id, json_read_is(m->method, "ping") ? "ping" : "");
}

void peer_on_message(struct peer *p, const char *line, size_t n)
{
	struct json_value value;
	struct message m;
	struct err e;

	if (!json_size_fits(line, n, PEER_DEPTH_MAX, p->values_max)) {
		peer_on_unread(p, line, n);
		return;
	}
	if (json_read(line, n, PEER_DEPTH_MAX, &value, &e) < 0 || value.kind != JSON_READ_OBJECT) {
		peer_ignore(p, n);
		return;
	}
	peer_read_message(value, &m);
	if (m.method.kind != JSON_READ_TEXT)
		on_answer(p, &m, n);
	else if (m.id.kind == JSON_READ_NUMBER || m.id.kind == JSON_READ_TEXT)
		on_request(p, &m, n);
	else
		on_notification(p, &m, n);
}

/* ---- time, and the end */

static void peer_expire_calls(struct peer *p, uint64_t now)
{
	struct peer_answer a = { .end = PEER_LOST, .message = "the server did not answer in time" };
	struct peer_call *c = p->calls;

	while (c != NULL) {
		if (c->deadline_ns > now) {
			c = c->next;
			continue;
		}
		peer_write_cancelled(p, c->id);
		peer_end_call(c, &a);
		c = p->calls; /* the callback may have cancelled any */
	}
}

/* A server that says so again and again is asked less often each time. A quiet one begins at the
 * shortest wait. */
static void peer_list_if_changed(struct peer *p, uint64_t now)
{
	uint64_t wait = RELIST_NS << p->relists, since = now - p->listed_at_ns;

	if (p->state != PEER_READY || !p->changed || since <= wait)
		return;
	if (since > 2 * wait)
		p->relists = 0;
	else if (p->relists < RELIST_DOUBLES)
		p->relists++;
	peer_list_again(p);
}

/* The counters of noise fade, so that only a steady stream of it adds up. */
void peer_tick(struct peer *p)
{
	uint64_t now = clock_now_ns();

	p->noise -= p->noise / 16;
	p->noise_bytes -= p->noise_bytes / 16;
	peer_expire_calls(p, now);
	if (p->step_id != 0 && now > p->step_deadline_ns) {
		p->step_id = 0;
		peer_fail(p, "it did not answer in time");
		return;
	}
	peer_list_if_changed(p, now);
}

/* A callback cannot begin a call here, because the state is PEER_IDLE. */
void peer_lost(struct peer *p, const char *why)
{
	struct peer_answer a = { .end = PEER_LOST, .message = why };

	p->state = PEER_IDLE;
	p->step_id = 0;
	p->skipping = p->no_room = p->page_waits = false;
	buf_release(&p->in);
	buf_release(&p->out);
	while (p->calls != NULL)
		peer_end_call(p->calls, &a);
}
