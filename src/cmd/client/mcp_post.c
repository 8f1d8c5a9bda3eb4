/* mcp_post.c - see mcp_post.h. From the top: write a line, answer an error, copy the answer of
 * the server, send a message.
 *
 * Every request gets exactly one answer with its id, from the server or from here. Nothing but
 * JSON objects reaches standard output. */
#include "cmd/client/mcp_post.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/base64.h"
#include "lib/base/io.h"
#include "lib/mcp/server/mcp_write.h"

/* ---- lines of the client. Several processes write to the same standard output, one for each
 * message, so a lock makes each line whole. MCP over stdio is one JSON object in a line. */

#define MESSAGE_MAX (16U << 20)
/* "=?base64?", the coded name, "?=" and a NUL. */
#define NAME_CODED (BASE64_LENGTH(MCP_NAME_MAX) + 16)

/* For messages of the server, which may quote a cell. */
static const struct json_tree_limits limits = { .bytes = MESSAGE_MAX,
						.values = 1U << 18,
						.depth = 64 };

/* A lock of fcntl(2) belongs to the process, and each message has one. */
static int mcp_post_lock(int fd, short type, struct err *e)
{
	struct flock l = { .l_type = type, .l_whence = SEEK_SET };

	while (fcntl(fd, F_SETLKW, &l) < 0)
		if (errno != EINTR)
			return err_sys(e, "lock");
	return 0;
}

/* The lock is held for one line only, so a slow process does not keep others from writing for
 * long. */
int mcp_post_line(int lock_fd, const char *line, size_t n, struct err *e)
{
	struct err unlocked;
	sigset_t term;
	int done;

	/* A cancelled call ends between two lines, never inside of one. */
	(void)sigemptyset(&term);
	(void)sigaddset(&term, SIGTERM);
	(void)sigprocmask(SIG_BLOCK, &term, NULL);
	if (mcp_post_lock(lock_fd, F_WRLCK, e) < 0)
		return -1;
	done = io_write_all(STDOUT_FILENO, line, n, e);
	if (done == 0)
		done = io_write_all(STDOUT_FILENO, "\n", 1, e);
	IGNORED(mcp_post_lock(lock_fd, F_UNLCK, &unlocked), "it ends with the process");
	(void)sigprocmask(SIG_UNBLOCK, &term, NULL);
	return done;
}

/* The answer to a request that the server did not answer. */
static int answer_error(const struct mcp_request *q, int lock_fd, const char *why, struct err *e)
{
	struct mcp_fault f = { 0 };
	struct json j;
	int done = 0;

	if (q->kind != MCP_REQUEST)
		return 0;
	IGNORED(mcp_fault_set(&f, MCP_INTERNAL_ERROR, "%s", why), "written");
	json_init_heap(&j, 65536);
	mcp_write_error(&j, q, &f);
	if (json_ok(&j))
		done = mcp_post_line(lock_fd, j.text, j.len, e);
	json_release(&j);
	return done;
}

/* Is it the answer to this request? */
static bool is_answer(const struct json_node *m, const struct mcp_request *q)
{
	const struct json_node *id = json_tree_get(m, "id");

	return id != NULL && id->raw.n == q->id.n && memcmp(id->raw.p, q->id.p, q->id.n) == 0 &&
	       json_tree_get(m, "method") == NULL;
}

/* A message of the server as a line: read and written again, so that nothing else than one JSON
 * object can come out. 1: it is the answer. */
static int copy_message(const struct mcp_request *q, const char *text, size_t n, int lock_fd,
			struct err *e)
{
	struct json_tree t = { 0 };
	struct json_span why;
	struct json j;
	int done = 0;

	if (json_tree_read(&t, text, n, &limits, e) < 0)
		return err_wrap(e, "the server's answer");
	why = json_tree_get_text(json_tree_get(json_tree_root(&t), "error"), "message");
	json_init_heap(&j, MESSAGE_MAX);
	json_tree_write(&j, NULL, json_tree_root(&t));
	if (json_tree_get(json_tree_root(&t), "jsonrpc") == NULL)
		done = err_set(e, ERR_SYSTEM, "the server does not speak MCP at /mcp");
	else if (!json_ok(&j))
		done = err_set(e, ERR_SYSTEM, "the server's answer is too long");
	else if (q->kind == MCP_REQUEST && is_answer(json_tree_root(&t), q))
		done = 1;
	else if (json_tree_get(json_tree_root(&t), "method") == NULL)
		done = err_set(e, ERR_SYSTEM, "%.*s", (int)why.n, why.p == NULL ? "" : why.p);
	if (done >= 0 && mcp_post_line(lock_fd, j.text, j.len, e) < 0)
		done = -1;
	json_release(&j);
	json_tree_release(&t);
	return done;
}

/* Every event is a message: notifications, requests of the server, and the answer. The stream
 * ends with the answer. */
static int copy_stream(struct client *c, const struct mcp_request *q, int lock_fd, struct err *e)
{
	struct client_event event;
	int n, got = 0;

	while ((n = client_sse_next(c, &event, e)) > 0) {
		int copied = copy_message(q, event.data, event.data_len, lock_fd, e);

		if (copied < 0)
			return -1;
		got |= copied;
	}
	return n < 0 ? -1 : got;
}

/* 1: the answer came. 0: none, and none was due, or the call was cancelled. -1. The server
 * chooses between one JSON object and a stream of events. */
static int copy_answer(struct client *c, const struct mcp_request *q, int lock_fd, struct err *e)
{
	OWN_MEM char *text = NULL;
	char type[64] = "";
	size_t len = 0;

	IGNORED(client_header(c, "content-type", type, sizeof(type)) ? 0 : -1, "none is no stream");
	if (strncmp(type, "text/event-stream", 17) == 0)
		return copy_stream(c, q, lock_fd, e);
	if (client_read_all(c, MESSAGE_MAX, &text, &len, e) < 0)
		return -1;
	if (client_status(c) == 202 || (len == 0 && client_status(c) < 300))
		return 0;
	if (strncmp(type, "application/json", 16) != 0)
		return err_set(e, ERR_SYSTEM, "the server answered %d, and not as MCP does",
			       client_status(c));
	return copy_message(q, text, len, lock_fd, e);
}

/* A name as a header: plain ASCII as it is, anything else coded. */
static void header_name(struct json_span name, char ret[NAME_CODED])
{
	bool plain = name.n > 0 && name.p[0] != ' ' && name.p[name.n - 1] != ' ';
	size_t n = name.n < MCP_NAME_MAX ? name.n : MCP_NAME_MAX;

	for (size_t i = 0; i < n; i++)
		plain = plain && name.p[i] >= 0x20 && name.p[i] < 0x7f;
	if (plain) {
		(void)snprintf(ret, NAME_CODED, "%.*s", (int)n, name.p);
		return;
	}
	(void)snprintf(ret, NAME_CODED, "=?base64?");
	base64_encode(name.p, n, ret + strlen(ret));
	(void)snprintf(ret + strlen(ret), NAME_CODED - strlen(ret), "?=");
}

/* The headers of both protocol eras. The modern one repeats method and name as headers. The
 * former one has a session id, which the initialize request does not have yet. */
static int send_message(struct api_call *a, const struct mcp_request *q, const char *line, size_t n,
			const char *session, struct err *e)
{
	bool modern = q->era == MCP_MODERN;
	char method[128], name[NAME_CODED];
	struct client_header headers[8];
	struct client_request r = { .method = "POST",
				    .target = "/mcp",
				    .headers = headers,
				    .type = "application/json",
				    .body = line,
				    .body_len = n };

	for (size_t i = 0; i < a->nheaders; i++)
		headers[r.nheaders++] = a->headers[i];
	headers[r.nheaders++] =
		(struct client_header){ "Accept", "application/json, text/event-stream" };
	if (q->method != MCP_INITIALIZE)
		headers[r.nheaders++] =
			(struct client_header){ "MCP-Protocol-Version",
						modern ? q->version : MCP_VERSION_LEGACY };
	(void)snprintf(method, sizeof(method), "%.*s", (int)q->method_name.n, q->method_name.p);
	if (modern)
		headers[r.nheaders++] = (struct client_header){ "Mcp-Method", method };
	if (modern && q->name.p != NULL) {
		header_name(q->name, name);
		headers[r.nheaders++] = (struct client_header){ "Mcp-Name", name };
	}
	if (!modern && q->method != MCP_INITIALIZE)
		headers[r.nheaders++] = (struct client_header){ "Mcp-Session-Id", session };
	return client_send(a->client, &r, e);
}

/* A failure must become an answer, because the client waits for one by the request's id. stderr
 * gets it as well, for the person who started the client. */
int mcp_post(const struct args_common *o, const struct mcp_request *q, const char *line, size_t n,
	     const char *session, int lock_fd, struct err *e)
{
	OWN_API_CALL a = { 0 };
	struct err unwritten;

	int done = -1;

	/* The server sends comments on streams, but a short call may take its time. */
	if (api_call_open(&a, o, API_CALL_ANSWER_MS, e) == 0 &&
	    send_message(&a, q, line, n, session, e) == 0)
		done = client_status(a.client) == 401 && a.nheaders == 0
			       ? err_set(e, ERR_DENIED, API_CALL_NO_KEY)
			       : copy_answer(a.client, q, lock_fd, e);
	if (done >= 0)
		return 0;
	api_call_explain(e);
	IGNORED(args_fail(e), "its text is what counts");
	IGNORED(answer_error(q, lock_fd, e->msg, &unwritten), "standard output is closed");
	return -1;
}
