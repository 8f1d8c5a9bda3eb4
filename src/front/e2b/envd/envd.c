/* envd.c - port 49983 of a sandbox. E2B runs a daemon there. Here cordond answers, so a program in
 * the cell has no daemon to attack or imitate. A client with the sandbox's token may do everything.
 * A signature allows one file operation. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "front/e2b/base/e2b_private.h"
#include "front/e2b/control/sandbox.h"
#include "front/web/reply.h"
#include "lib/base/base64.h"
#include "lib/base/units.h"
#include "lib/http/url.h"
#include "lib/json/json.h"

/* A row: method, path, handler. Scope 0, as envd_admits() has checked the access before. */
static const struct route table[] = {
	{ HTTP1_GET, "/health", 0, envd_health, NULL },
	{ HTTP1_GET, "/metrics", 0, sandbox_metrics_envd, NULL },
	{ HTTP1_GET, "/envs", 0, envd_envs, NULL },
	{ HTTP1_GET, "/files", 0, files_get, NULL },
	{ HTTP1_POST, "/files", 0, files_post, NULL },
	{ HTTP1_POST, "/files/compose", 0, files_compose, NULL },

	{ HTTP1_POST, "/process.Process/List", 0, process_list, NULL },
	{ HTTP1_POST, "/process.Process/Connect", 0, process_connect, NULL },
	{ HTTP1_POST, "/process.Process/Start", 0, process_start, NULL },
	{ HTTP1_POST, "/process.Process/Update", 0, process_update, NULL },
	{ HTTP1_POST, "/process.Process/StreamInput", 0, process_stream_input, NULL },
	{ HTTP1_POST, "/process.Process/SendInput", 0, process_send_input, NULL },
	{ HTTP1_POST, "/process.Process/SendSignal", 0, process_send_signal, NULL },
	{ HTTP1_POST, "/process.Process/CloseStdin", 0, process_close_stdin, NULL },

	{ HTTP1_POST, "/filesystem.Filesystem/Stat", 0, filesystem_stat, NULL },
	{ HTTP1_POST, "/filesystem.Filesystem/MakeDir", 0, filesystem_make_dir, NULL },
	{ HTTP1_POST, "/filesystem.Filesystem/Move", 0, filesystem_move, NULL },
	{ HTTP1_POST, "/filesystem.Filesystem/ListDir", 0, filesystem_list_dir, NULL },
	{ HTTP1_POST, "/filesystem.Filesystem/Remove", 0, filesystem_remove, NULL },
	{ HTTP1_POST, "/filesystem.Filesystem/WatchDir", 0, filesystem_watch_dir, NULL },
	{ HTTP1_POST, "/filesystem.Filesystem/CreateWatcher", 0, filesystem_create_watcher, NULL },
	{ HTTP1_POST, "/filesystem.Filesystem/GetWatcherEvents", 0, filesystem_get_watcher_events,
	  NULL },
	{ HTTP1_POST, "/filesystem.Filesystem/RemoveWatcher", 0, filesystem_remove_watcher, NULL },
};

/* Calls from E2B's node to its envd, not available to clients. */
static const char *const hidden[] = { "/init",	   "/freeze", "/unfreeze", "/collapse",
				      "/fsfreeze", "/fsthaw", "/upgrade" };

/* No path has an id: the sandbox is known already. */
static bool take_ids(struct request *r, const struct url_params *params)
{
	return true;
}

/* A sandbox that is gone is answered as such, whatever failed. */
static void envd_fail(struct request *r, const struct failure *f)
{
	if (f->status == 410 || session_find(r->core, r->session_id) == NULL)
		sandbox_entry_gone(r);
	else
		control_dialect.fail(r, f);
}

const struct dialect envd_dialect = { .interface = "e2b", .fail = envd_fail };

const struct routes envd_routes = { .table = table,
				    .n = COUNT(table),
				    .dialect = &envd_dialect,
				    .open = true,
				    .take_ids = take_ids };

/* ---- access
 *
 * A token in a header, or for /files a signature in the query. */

int envd_user_of_files(struct request *r, char ret[ENVD_USER_MAX], struct err *e)
{
	return request_text(r, "username", ret, ENVD_USER_MAX, e);
}

int envd_user_of_rpc(struct request *r, char ret[ENVD_USER_MAX], struct err *e)
{
	static const char scheme[] = "Basic ";
	const struct http1_request *q = exchange_request(r->x);
	uint8_t plain[BASE64_BYTES(4 * ENVD_USER_MAX) + 1];
	struct http1_span given;
	ssize_t n;

	ret[0] = '\0';
	if (http1_find(q->headers, q->headers_n, "authorization", &given) != 1 ||
	    given.n < sizeof(scheme) - 1 || strncasecmp(given.p, scheme, sizeof(scheme) - 1) != 0)
		return 0;
	given.p += sizeof(scheme) - 1;
	given.n -= sizeof(scheme) - 1;
	n = given.n > (size_t)4 * ENVD_USER_MAX ? -1 : base64_decode(given.p, given.n, plain);
	if (n < 0 || memchr(plain, '\0', (size_t)n) != NULL)
		return err_set(e, ERR_INVALID, "the Authorization header is malformed");
	plain[n] = '\0';
	plain[strcspn((char *)plain, ":")] = '\0'; /* an unused password follows */
	if (strlen((char *)plain) >= ENVD_USER_MAX)
		return err_set(e, ERR_INVALID, "the user's name is too long");
	memcpy(ret, plain, strlen((char *)plain) + 1);
	return 0;
}

static void envd_unauthorized(struct request *r, const char *why)
{
	reply_code(r, 401, "unauthorized", why);
}

/* Only these requests may bring a signature. */
static bool is_files(const struct http1_request *q)
{
	return http1_span_is(q->path, "/files") &&
	       (q->method == HTTP1_GET || q->method == HTTP1_HEAD || q->method == HTTP1_POST);
}

/* A signature for this one operation. Answer if it is not right. */
static bool signature_allows(struct request *r)
{
	char path[4096], user[ENVD_USER_MAX], expires[24], signature[64], token[TOKEN_MAX];
	const struct http1_request *q = exchange_request(r->x);
	struct err e = { 0 };
	uint64_t until;

	if (request_text(r, "path", path, sizeof(path), &e) < 0 ||
	    envd_user_of_files(r, user, &e) < 0 ||
	    request_text(r, "signature", signature, sizeof(signature), &e) < 0 ||
	    request_text(r, "signature_expiration", expires, sizeof(expires), &e) < 0) {
		reply_error(r, &e);
		return false;
	}
	token_make(&e2b_of(r)->key, TOKEN_ENVD, r->session_id, token);
	if (signature[0] == '\0') {
		envd_unauthorized(r, "missing signature query parameter");
		return false;
	}
	if (!token_signed(token, path, q->method == HTTP1_POST ? "write" : "read", user, expires,
			  signature)) {
		envd_unauthorized(r, "invalid signature");
		return false;
	}
	if (expires[0] == '\0')
		return true;
	if (units_count(expires, 0, INT64_MAX, &until, &e) < 0 || (time_t)until < time(NULL)) {
		envd_unauthorized(r, "signature is already expired");
		return false;
	}
	return true;
}

/* Answer if not. */
static bool envd_allowed(struct request *r, bool paused)
{
	const struct http1_request *q = exchange_request(r->x);
	struct session *s = session_find(r->core, r->session_id);
	struct http1_span token;
	struct sandbox b;
	size_t n;

	sandbox_read(session_row(s), &b);
	if (!b.secure || (http1_span_is(q->path, "/health") && !paused))
		return true;
	n = http1_find(q->headers, q->headers_n, "x-access-token", &token);
	if (n == 1 && token_check(&e2b_of(r)->key, TOKEN_ENVD, r->session_id, token)) {
		exchange_set_account(r->x, tenant_account(r->tenant), true);
		return true;
	}
	if (http1_span_is(q->path, "/health"))
		sandbox_entry_gone(r); /* a paused sandbox is not resumed without access */
	else if (n > 0 && is_files(q))
		envd_unauthorized(r, "access token present in header but does not match");
	else if (n == 0 && is_files(q))
		return signature_allows(r);
	else
		envd_unauthorized(r, "unauthorized access, please provide a valid access token or "
				     "method signing if supported");
	return false;
}

/* ---- browsers
 *
 * Pages of any origin may call envd. */

/* Any origin is allowed: access depends on the token, which browsers do not add by themselves. */
static void envd_share(struct request *r)
{
	exchange_header(r->x, "Access-Control-Allow-Origin", "*");
	exchange_header(r->x, "Access-Control-Expose-Headers",
			"Grpc-Status, Grpc-Message, Grpc-Status-Details-Bin, Location, "
			"Cache-Control, X-Content-Type-Options");
}

/* Answered without a token: browsers send none in a preflight. */
static void envd_preflight(struct request *r)
{
	exchange_header(r->x, "Access-Control-Allow-Methods",
			"HEAD, GET, POST, PUT, PATCH, DELETE");
	exchange_header(r->x, "Access-Control-Allow-Headers", "*, Authorization");
	exchange_header(r->x, "Access-Control-Max-Age", "7200");
	reply_empty(r, 204);
}

/* Any other OPTIONS is an ordinary request. */
static bool is_preflight(const struct http1_request *q)
{
	return q->method == HTTP1_OPTIONS &&
	       http1_find(q->headers, q->headers_n, "access-control-request-method", NULL) > 0;
}

/* ---- which requests are allowed
 *
 * envd_admits() runs before the sandbox is resumed, envd_handle() after it. */

/* True: answered. */
static bool is_hidden(struct request *r)
{
	const struct http1_request *q = exchange_request(r->x);
	char text[256];
	struct json j;

	for (size_t i = 0; i < COUNT(hidden); i++) {
		if (!http1_span_is(q->path, hidden[i]))
			continue;
		json_init(&j, text, sizeof(text));
		json_open(&j, NULL, '{');
		json_text(&j, "message", "this path is not available");
		json_text(&j, "path", hidden[i]);
		json_int(&j, "code", 404);
		json_close(&j, '}');
		exchange_reply(r->x, 404, "application/json; charset=utf-8", j.text, j.len);
		return true;
	}
	return false;
}

bool envd_admits(struct request *r, bool paused)
{
	const struct http1_request *q = exchange_request(r->x);

	r->dialect = &envd_dialect;
	if (http1_find(q->headers, q->headers_n, "origin", NULL) > 0)
		envd_share(r);
	if (is_preflight(q)) {
		envd_preflight(r);
		return false;
	}
	return !is_hidden(r) && envd_allowed(r, paused);
}

void envd_handle(struct request *r)
{
	routes_dispatch(&envd_routes, r);
}

/* ---- about the sandbox */

/* The sandbox runs, or this would not be called. */
void envd_health(struct request *r)
{
	reply_empty(r, 204);
}

/* The environment given at the start, "NAME=value" each with a NUL. */
void envd_envs(struct request *r)
{
	struct session *s = session_find(r->core, r->session_id);
	const struct store_session *row = session_row(s);
	const char *at = row->env, *end = at + row->env_len;
	struct json j;

	json_init_heap(&j, REPLY_JSON_MAX);
	json_open(&j, NULL, '{');
	for (; at < end; at += strlen(at) + 1) {
		char name[300];

		(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, "="), at);
		json_text(&j, name, at + strcspn(at, "=") + (strchr(at, '=') != NULL));
	}
	json_close(&j, '}');
	reply_json(r, 200, &j);
}
