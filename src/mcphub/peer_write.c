/* peer_write.c - the messages that a client sends to an MCP server, one line each, into the
 * buffer `out` of its peer. Called by peer.c. */
#include "peer.h"

#include <string.h>

#include "json.h"

#define META "io.modelcontextprotocol/"
#define MESSAGE_MAX (2U << 20)
/* Answers to a server's requests are dropped while so much waits: it sends, but does not read. */
#define ANSWERS_MAX (64U << 10)

/* Into the buffer as one line: white space between values may have line ends, texts cannot. */
static int put_line(struct peer *p, struct json *j, struct err *e)
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
	put = buf_add(&p->out, j->text, j->len, e);
	return put < 0 ? -1 : buf_add(&p->out, "\n", 1, e);
}

static void begin(struct json *j, const uint64_t *id, const char *method)
{
	json_init_heap(j, MESSAGE_MAX);
	json_open(j, NULL, '{');
	json_text(j, "jsonrpc", "2.0");
	if (id != NULL)
		json_uint(j, "id", *id);
	json_text(j, "method", method);
	json_open(j, "params", '{');
}

static int end(struct peer *p, struct json *j, struct err *e)
{
	int put;

	json_close(j, '}');
	json_close(j, '}');
	put = put_line(p, j, e);
	json_release(j);
	return put;
}

/* One of the messages that the peer itself needs: it cannot go on without. */
static void end_or_fail(struct peer *p, struct json *j)
{
	struct err e;

	if (end(p, j, &e) < 0)
		p->state = PEER_FAILED;
}

static void write_client(struct peer *p, struct json *j, const char *name)
{
	json_open(j, name, '{');
	json_text(j, "name", p->client);
	json_text(j, "version", CORDON_VERSION);
	json_close(j, '}');
}

/* What every request of the newer protocol has. */
static void write_meta(struct peer *p, struct json *j, const uint64_t *progress)
{
	if (p->era != PEER_MODERN && progress == NULL)
		return;
	json_open(j, "_meta", '{');
	if (p->era == PEER_MODERN) {
		json_text(j, META "protocolVersion", PEER_MODERN_VERSION);
		json_open(j, META "clientCapabilities", '{');
		json_close(j, '}');
		write_client(p, j, META "clientInfo");
	}
	if (progress != NULL)
		json_uint(j, "progressToken", *progress);
	json_close(j, '}');
}

void peer_write_initialize(struct peer *p, uint64_t id)
{
	struct json j;

	begin(&j, &id, "initialize");
	json_text(&j, "protocolVersion", PEER_LEGACY_VERSION);
	json_open(&j, "capabilities", '{');
	json_close(&j, '}');
	write_client(p, &j, "clientInfo");
	end_or_fail(p, &j);
}

void peer_write_initialized(struct peer *p)
{
	struct json j;

	begin(&j, NULL, "notifications/initialized");
	end_or_fail(p, &j);
}

void peer_write_discover(struct peer *p, uint64_t id)
{
	struct json j;

	begin(&j, &id, "server/discover");
	write_meta(p, &j, NULL);
	end_or_fail(p, &j);
}

void peer_write_list(struct peer *p, uint64_t id, struct json_value cursor)
{
	struct json j;

	begin(&j, &id, "tools/list");
	if (cursor.kind == JSON_READ_TEXT)
		json_raw_bytes(&j, "cursor", cursor.p, cursor.n);
	write_meta(p, &j, NULL);
	end_or_fail(p, &j);
}

int peer_write_call(struct peer *p, uint64_t id, const char *tool, struct json_value arguments,
		    bool progress, struct err *e)
{
	struct json j;

	begin(&j, &id, "tools/call");
	json_text(&j, "name", tool);
	if (arguments.kind == JSON_READ_OBJECT) {
		json_raw_bytes(&j, "arguments", arguments.p, arguments.n);
	} else {
		json_open(&j, "arguments", '{');
		json_close(&j, '}');
	}
	write_meta(p, &j, progress ? &id : NULL);
	return end(p, &j, e);
}

void peer_write_cancelled(struct peer *p, uint64_t id)
{
	struct json j;
	struct err e;

	begin(&j, NULL, "notifications/cancelled");
	json_uint(&j, "requestId", id);
	IGNORED(end(p, &j, &e), "the answer is ignored when it comes");
}

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
	IGNORED(put_line(p, &j, &e), "a server that does not read gets no answers");
	json_release(&j);
}
