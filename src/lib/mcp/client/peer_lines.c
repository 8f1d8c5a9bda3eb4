/* peer_lines.c - the lines of a server and of its client. The output of a server is divided into
 * messages: one line each, bounded. A longer one, or one with too many values, is skipped, and ends
 * the call that it seems to answer. Called by the owner of the peer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/json/json.h"
#include "lib/mcp/client/peer.h"

/* The id of a message of which only the ends are known. It may be wrong: then the server has given
 * one of its own calls a bad answer, as it can at any time. 0: there is none. Ids of calls begin at
 * 1. */
static uint64_t peer_guess_id(const char *bytes, size_t n)
{
	char text[PEER_EDGE + 1];
	const char *at;

	memcpy(text, bytes, n);
	text[n] = '\0';
	at = strstr(text, "\"id\":");
	return at == NULL ? 0 : strtoull(at + 5, NULL, 10);
}

/* The ends of the message are in head and tail. */
static void peer_end_skipped(struct peer *p, const char *why, size_t n)
{
	struct peer_answer a = { .end = PEER_LOST, .message = why };
	uint64_t id = peer_guess_id(p->head, p->nhead);
	struct peer_call *c;

	if (id == 0)
		id = peer_guess_id(p->tail, p->ntail);
	peer_ignore(p, n);
	if (id != 0 && id == p->step_id) {
		peer_fail(p, why);
		return;
	}
	c = peer_find_call(p, id);
	if (c != NULL)
		peer_end_call(c, &a);
}

static void on_skipped(struct peer *p)
{
	char why[120];

	if (p->no_room)
		(void)snprintf(why, sizeof(why),
			       "there is no room for the answer of the server beside others of "
			       "this tenant (tenant_bodies_max)");
	else
		(void)snprintf(why, sizeof(why), "the answer of the server is longer than %zu MiB",
			       p->line_max >> 20);
	peer_end_skipped(p, why, p->skipped);
}

bool peer_may_wait(struct peer *p, size_t n)
{
	return p->events->may_wait == NULL || p->events->may_wait(p, p->in.len + p->out.len + n);
}

void peer_on_unread(struct peer *p, const char *line, size_t n)
{
	char why[100];

	p->nhead = p->ntail = n < PEER_EDGE ? n : PEER_EDGE;
	memcpy(p->head, line, p->nhead);
	memcpy(p->tail, line + n - p->ntail, p->ntail);
	(void)snprintf(why, sizeof(why),
		       "the answer of the server has more than %zu values or %d levels",
		       p->values_max, PEER_DEPTH_MAX);
	peer_end_skipped(p, why, n);
}

/* Keep the last bytes of a skipped message. */
static void peer_keep_tail(struct peer *p, const char *bytes, size_t n)
{
	if (n >= PEER_EDGE) {
		memcpy(p->tail, bytes + n - PEER_EDGE, PEER_EDGE);
		p->ntail = PEER_EDGE;
		return;
	}
	if (p->ntail + n > PEER_EDGE) {
		memmove(p->tail, p->tail + p->ntail + n - PEER_EDGE, PEER_EDGE - n);
		p->ntail = PEER_EDGE - n;
	}
	memcpy(p->tail + p->ntail, bytes, n);
	p->ntail += n;
}

/* The first bytes are kept for the id, the rest of the memory is given back at once. */
static void peer_begin_skip(struct peer *p)
{
	p->skipping = true;
	p->skipped = p->in.len;
	p->nhead = p->in.len < PEER_EDGE ? p->in.len : PEER_EDGE;
	p->ntail = 0;
	if (p->nhead > 0)
		memcpy(p->head, p->in.data, p->nhead);
	buf_release(&p->in);
}

/* A piece of a message without its end. */
static void peer_add_piece(struct peer *p, const char *bytes, size_t n)
{
	struct err e;

	p->no_room = p->no_room || (!p->skipping && !peer_may_wait(p, n));
	if (!p->skipping &&
	    (p->no_room || p->in.len + n > p->line_max || buf_add(&p->in, bytes, n, &e) < 0))
		peer_begin_skip(p);
	if (!p->skipping)
		return;
	p->skipped += n;
	peer_keep_tail(p, bytes, n);
}

/* bytes are the last piece, without the newline. A buffered message is released after it was read.
 */
static void peer_end_line(struct peer *p, const char *bytes, size_t n)
{
	/* A line that came whole is read where it is. */
	if (p->in.len == 0 && !p->skipping) {
		if (n > 0)
			peer_on_message(p, bytes, n);
		return;
	}
	peer_add_piece(p, bytes, n);
	if (p->skipping) {
		p->skipping = false;
		on_skipped(p);
		p->no_room = false;
	} else {
		peer_on_message(p, (const char *)p->in.data, p->in.len);
	}
	buf_release(&p->in);
}

/* A message may end the connection or fail the peer. Then the rest of the bytes is dropped. */
void peer_feed(struct peer *p, const void *bytes, size_t n)
{
	const char *at = bytes, *end = at + n, *newline;

	while (at < end && p->state != PEER_IDLE && p->state != PEER_FAILED) {
		newline = memchr(at, '\n', (size_t)(end - at));
		if (newline == NULL) {
			peer_add_piece(p, at, (size_t)(end - at));
			return;
		}
		peer_end_line(p, at, (size_t)(newline - at));
		at = newline + 1;
	}
}

/* ---- lines to the server: messages are written into the buffer `out` of the peer, one line each
 */

#define META "io.modelcontextprotocol/"
#define MESSAGE_MAX (2U << 20)
/* Answers to a server's requests are dropped while so much waits: it sends, but does not read. */
#define ANSWERS_MAX (64U << 10)

/* Into the buffer as one line: white space between values may have line ends, texts cannot.
 * ERR_LIMIT: there is no room. */
static int peer_put_line(struct peer *p, struct json *j, struct err *e)
{
	int put;

	if (!json_ok(j))
		return err_set(e, ERR_LIMIT, "a message of more than %u bytes", MESSAGE_MAX);
	for (size_t i = 0; i < j->len; i++) {
		if (j->text[i] == '\n' || j->text[i] == '\r')
			j->text[i] = ' ';
	}
	if (p->out.cap - p->out.len < j->len + 1)
		return err_set(e, ERR_LIMIT, "server %s does not read what it is sent", p->name);
	if (!peer_may_wait(p, j->len + 1))
		return err_set(e, ERR_LIMIT,
			       "server %s: there is no room for the call beside others of this "
			       "tenant (tenant_bodies_max)",
			       p->name);
	put = buf_add(&p->out, j->text, j->len, e);
	return put < 0 ? -1 : buf_add(&p->out, "\n", 1, e);
}

/* The caller writes the members of params, and then calls peer_end(). id NULL: a notification. */
static void peer_begin_line(struct json *j, const uint64_t *id, const char *method)
{
	json_init_heap(j, MESSAGE_MAX);
	json_open(j, NULL, '{');
	json_text(j, "jsonrpc", "2.0");
	if (id != NULL)
		json_uint(j, "id", *id);
	json_text(j, "method", method);
	json_open(j, "params", '{');
}

/* Releases j in each case. */
static int peer_end(struct peer *p, struct json *j, struct err *e)
{
	int put;

	json_close(j, '}');
	json_close(j, '}');
	put = peer_put_line(p, j, e);
	json_release(j);
	return put;
}

/* One of the messages that the peer itself needs: it cannot continue without. */
static void peer_end_or_fail(struct peer *p, struct json *j)
{
	struct err e;

	if (peer_end(p, j, &e) < 0)
		p->state = PEER_FAILED;
}

static void peer_write_client(struct peer *p, struct json *j, const char *name)
{
	json_open(j, name, '{');
	json_text(j, "name", p->client);
	json_text(j, "version", CORDON_VERSION);
	json_close(j, '}');
}

/* The members of every request of the newer protocol. */
static void peer_write_meta(struct peer *p, struct json *j, const uint64_t *progress)
{
	if (p->era != PEER_MODERN && progress == NULL)
		return;
	json_open(j, "_meta", '{');
	if (p->era == PEER_MODERN) {
		json_text(j, META "protocolVersion", PEER_MODERN_VERSION);
		json_open(j, META "clientCapabilities", '{');
		json_close(j, '}');
		peer_write_client(p, j, META "clientInfo");
	}
	if (progress != NULL)
		json_uint(j, "progressToken", *progress);
	json_close(j, '}');
}

void peer_write_initialize(struct peer *p, uint64_t id)
{
	struct json j;

	peer_begin_line(&j, &id, "initialize");
	json_text(&j, "protocolVersion", PEER_LEGACY_VERSION);
	json_open(&j, "capabilities", '{');
	json_close(&j, '}');
	peer_write_client(p, &j, "clientInfo");
	peer_end_or_fail(p, &j);
}

void peer_write_initialized(struct peer *p)
{
	struct json j;

	peer_begin_line(&j, NULL, "notifications/initialized");
	peer_end_or_fail(p, &j);
}

void peer_write_discover(struct peer *p, uint64_t id)
{
	struct json j;

	peer_begin_line(&j, &id, "server/discover");
	peer_write_meta(p, &j, NULL);
	peer_end_or_fail(p, &j);
}

void peer_write_list(struct peer *p, uint64_t id, struct json_value cursor)
{
	struct json j;

	peer_begin_line(&j, &id, "tools/list");
	if (cursor.kind == JSON_READ_TEXT)
		json_raw_bytes(&j, "cursor", cursor.p, cursor.n);
	peer_write_meta(p, &j, NULL);
	peer_end_or_fail(p, &j);
}

int peer_write_call(struct peer *p, uint64_t id, const char *tool, struct json_value arguments,
		    bool progress, struct err *e)
{
	struct json j;

	peer_begin_line(&j, &id, "tools/call");
	json_text(&j, "name", tool);
	if (arguments.kind == JSON_READ_OBJECT) {
		json_raw_bytes(&j, "arguments", arguments.p, arguments.n);
	} else {
		json_open(&j, "arguments", '{');
		json_close(&j, '}');
	}
	peer_write_meta(p, &j, progress ? &id : NULL);
	return peer_end(p, &j, e);
}

void peer_write_cancelled(struct peer *p, uint64_t id)
{
	struct json j;
	struct err e;

	peer_begin_line(&j, NULL, "notifications/cancelled");
	json_uint(&j, "requestId", id);
	IGNORED(peer_end(p, &j, &e), "the answer is ignored when it comes");
}

/* Only ping has a result. No other request of a server is served. */
void peer_write_answer(struct peer *p, struct json_value id, const char *method)
{
	struct json j;
	struct err e;

	if (p->out.len > ANSWERS_MAX || id.n > PEER_EDGE)
		return;
	json_init_heap(&j, MESSAGE_MAX);
	json_open(&j, NULL, '{');
	json_text(&j, "jsonrpc", "2.0");
	json_raw_bytes(&j, "id", id.p, id.n);
	if (strcmp(method, "ping") == 0) {
		json_open(&j, "result", '{');
	} else {
		json_open(&j, "error", '{');
		json_int(&j, "code", -32601);
		json_text(&j, "message", "requests of servers are refused by this gateway");
	}
	json_close(&j, '}');
	json_close(&j, '}');
	IGNORED(peer_put_line(p, &j, &e), "a server that does not read gets no answers");
	json_release(&j);
}
