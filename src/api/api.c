/* api.c - theory of operation
 *
 * One table says everything about routing: method, pattern, scope, handler, parameters. A request
 * is matched against it once; whether the path exists, which methods it has and what OPTIONS says
 * all follow. Then who asks is checked, then the ids in the path, then the names of the query's
 * parameters, and the handler is called with a struct request that lives as long as the exchange.
 *
 * Everything without a key gets the same 401, whatever the path: nobody can learn from outside what
 * exists. */
#include "api.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api_handlers.h"
#include "auth.h"
#include "rand.h"
#include "reply.h"
#include "request.h"
#include "url.h"

#define SESSION "/v1/sessions/{session}"
#define EXECUTION SESSION "/executions/{execution}"
#define FILES SESSION "/files"

#define ADMIN TENANT_ADMIN
#define USE TENANT_SESSIONS
#define READ TENANT_READ

static const struct route routes[] = {
	{ HTTP1_GET, "/", 0, api_node_root, "" },
	{ HTTP1_GET, "/healthz", 0, api_node_health, "" },
	{ HTTP1_GET, "/readyz", 0, api_node_ready, "" },
	{ HTTP1_GET, "/metrics", 0, api_node_metrics, "" },
	{ HTTP1_GET, "/v1/node", READ, api_node_get, "" },
	{ HTTP1_GET, "/v1/templates", READ, api_node_templates, "" },

	{ HTTP1_POST, "/v1/sessions", USE, api_sessions_create, "" },
	{ HTTP1_GET, "/v1/sessions", READ, api_sessions_list,
	  "state template limit after order metadata.* " },
	{ HTTP1_GET, SESSION, READ, api_sessions_get, "" },
	{ HTTP1_DELETE, SESSION, USE, api_sessions_delete, "" },
	{ HTTP1_POST, SESSION "/pause", USE, api_sessions_pause, "" },
	{ HTTP1_POST, SESSION "/resume", USE, api_sessions_resume, "" },
	{ HTTP1_POST, SESSION "/timeout", USE, api_sessions_timeout, "" },
	{ HTTP1_GET, SESSION "/metrics", READ, api_metrics_get, "" },
	{ HTTP1_GET, SESSION "/diff", READ, api_diff_get, "" },
	{ HTTP1_GET, SESSION "/events", READ, api_events_session, "after limit follow " },

	{ HTTP1_POST, SESSION "/executions", USE, api_executions_create, "wait encoding " },
	{ HTTP1_GET, SESSION "/executions", READ, api_executions_list, "state limit after order " },
	{ HTTP1_GET, EXECUTION, READ, api_executions_get, "" },
	{ HTTP1_DELETE, EXECUTION, USE, api_executions_delete, "" },
	{ HTTP1_GET, EXECUTION "/output", READ, api_output_get, "stream offset length " },
	{ HTTP1_GET, EXECUTION "/events", READ, api_stream_get, "after " },
	{ HTTP1_GET, EXECUTION "/attach", USE, api_attach_get, "after " },
	{ HTTP1_POST, EXECUTION "/input", USE, api_control_input, "eof " },
	{ HTTP1_POST, EXECUTION "/signals", USE, api_control_signal, "" },
	{ HTTP1_POST, EXECUTION "/resize", USE, api_control_resize, "" },

	{ HTTP1_GET, SESSION "/processes", READ, api_processes_list, "" },
	{ HTTP1_DELETE, SESSION "/processes/{pid}", USE, api_processes_kill, "" },

	{ HTTP1_GET, FILES, READ, api_content_get, "path user offset length " },
	{ HTTP1_PUT, FILES, USE, api_content_put, "path user mode owner append exclusive " },
	{ HTTP1_DELETE, FILES, USE, api_files_delete, "path user recursive " },
	{ HTTP1_GET, FILES "/stat", READ, api_files_stat, "path user follow " },
	{ HTTP1_GET, FILES "/list", READ, api_files_list, "path user depth limit " },
	{ HTTP1_POST, FILES "/mkdir", USE, api_files_mkdir, "user " },
	{ HTTP1_POST, FILES "/move", USE, api_files_move, "user " },
	{ HTTP1_GET, FILES "/watch", READ, api_watch_get, "path user recursive " },
	{ HTTP1_GET, FILES "/tar", READ, api_archive_get, "path user " },
	{ HTTP1_PUT, FILES "/tar", USE, api_archive_put, "path user " },

	{ HTTP1_GET, "/v1/events", READ, api_events_tenant, "after limit follow " },
	{ HTTP1_GET, "/v1/keys", ADMIN, api_keys_list, "" },
	{ HTTP1_POST, "/v1/keys", ADMIN, api_keys_create, "" },
	{ HTTP1_DELETE, "/v1/keys/{key}", ADMIN, api_keys_delete, "" },
	{ HTTP1_GET, "/v1/tenants", ADMIN, api_tenants_list, "" },
	{ HTTP1_POST, "/v1/tenants", ADMIN, api_tenants_create, "" },
	{ HTTP1_GET, "/v1/tenants/{tenant}", ADMIN, api_tenants_get, "" },
	{ HTTP1_PATCH, "/v1/tenants/{tenant}", ADMIN, api_tenants_update, "" },
	{ HTTP1_DELETE, "/v1/tenants/{tenant}", ADMIN, api_tenants_delete, "" },
	{ HTTP1_POST, "/v1/tenants/{tenant}/keys", ADMIN, api_keys_create_for, "" },
};

struct api {
	struct core *core;
};

struct api *api_new(struct core *core, struct err *e)
{
	struct api *a = calloc(1, sizeof(*a));
	size_t seed;

	if (a == NULL) {
		IGNORED(err_sys(e, "allocate"), "NULL says it");
		return NULL;
	}
	a->core = core;
	/* Or jansson would open a file for it, which the daemon may not be allowed to by then. */
	rand_bytes(&seed, sizeof(seed));
	json_object_seed(seed | 1);
	return a;
}

void api_free(struct api *a)
{
	free(a);
}

void api_print_routes(FILE *to)
{
	for (size_t i = 0; i < COUNT(routes); i++)
		(void)fprintf(to, "%s %s\n", http1_method_name(routes[i].method),
			      routes[i].pattern);
}

/* The route, or NULL with the set of methods that the path has. */
static const struct route *find_route(const struct http1_request *q, struct url_params *ret_params,
				      unsigned *ret_methods)
{
	enum http1_method method = q->method == HTTP1_HEAD ? HTTP1_GET : q->method;
	struct url_params params;

	*ret_methods = 0;
	for (size_t i = 0; i < COUNT(routes); i++) {
		if (!url_match(routes[i].pattern, q->path, &params))
			continue;
		*ret_methods |= 1U << routes[i].method;
		if (routes[i].method != method)
			continue;
		*ret_params = params;
		return &routes[i];
	}
	return NULL;
}

static void set_allow(struct request *r, unsigned methods)
{
	char text[128] = "";

	if ((methods & 1U << HTTP1_GET) != 0)
		methods |= 1U << HTTP1_HEAD;
	methods |= 1U << HTTP1_OPTIONS;
	for (unsigned i = 0; i < HTTP1_METHODS; i++) {
		size_t used = strlen(text);

		if ((methods & 1U << i) != 0)
			(void)snprintf(text + used, sizeof(text) - used, "%s%s",
				       used == 0 ? "" : ", ",
				       http1_method_name((enum http1_method)i));
	}
	exchange_header(r->x, "Allow", text);
}

static bool take_id(struct http1_span raw, char ret[REQUEST_ID_MAX])
{
	int n = url_decode(raw, ret, REQUEST_ID_MAX);

	return n > 0 && strspn(ret, "abcdefghijklmnopqrstuvwxyz0123456789_") == (size_t)n;
}

/* The ids of a path: the first of a session's route is the session. */
static bool take_ids(struct request *r, const struct url_params *params)
{
	bool of_session = strncmp(r->route->pattern, SESSION, sizeof(SESSION) - 1) == 0;
	size_t at = 0;

	if (of_session && !take_id(params->raw[at++], r->session_id)) {
		r->session_id[0] = '\0';
		return false;
	}
	return at >= params->n || take_id(params->raw[at], r->id);
}

static bool knows(const char *known, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = known; *at != '\0'; at = strchr(at, ' ') + 1) {
		size_t len = strcspn(at, " ");

		if (len == n && strncmp(at, name, n) == 0)
			return true;
		if (at[len - 1] == '*' && n >= len && strncmp(at, name, len - 1) == 0)
			return true;
	}
	return false;
}

static int refuse_parameter(const char *name, struct err *e)
{
	int failed = err_set(e, ERR_INVALID, "parameter %.64s: there is no such", name);

	err_sanitize(e);
	return failed;
}

static int check_query(const struct request *r, struct err *e)
{
	struct http1_span rest = exchange_request(r->x)->query, raw, value;
	char name[128];

	while (url_query_next(&rest, &raw, &value)) {
		if (url_decode_form(raw, name, sizeof(name)) < 0)
			return err_set(e, ERR_INVALID, "the query is malformed");
		if (!knows(r->route->query, name))
			return refuse_parameter(name, e);
	}
	return 0;
}

static void refuse(struct request *r, const struct err *e)
{
	if (e->sys == EPERM) {
		reply_code(r, 403, "forbidden", e->msg);
		return;
	}
	exchange_header(r->x, "WWW-Authenticate", "Bearer");
	reply_code(r, 401, "unauthorized", e->msg);
}

static void dispatch(struct request *r)
{
	const struct http1_request *q = exchange_request(r->x);
	struct url_params params = { 0 };
	struct err e = { 0 };
	unsigned methods;

	r->route = find_route(q, &params, &methods);
	if (q->method == HTTP1_OPTIONS && methods != 0) {
		set_allow(r, methods);
		reply_empty(r, 204);
	} else if (r->route == NULL && methods != 0) {
		set_allow(r, methods);
		reply_code(r, 405, "method_not_allowed", "the path has no such method");
	} else if (r->route == NULL) {
		if (auth_check(r, 0, &e) < 0)
			refuse(r, &e);
		else
			reply_code(r, 404, "not_found", "there is no such path");
	} else if (r->route->scope != 0 && auth_check(r, r->route->scope, &e) < 0) {
		refuse(r, &e);
	} else if (!take_ids(r, &params)) {
		reply_code(r, 404, "not_found", "there is nothing of that id");
	} else if (r->route->scope != 0 &&
		   check_query(r, &e) < 0) { /* probes may add what they like */
		reply_error(r, &e);
	} else {
		r->route->handle(r);
	}
}

static void done(struct exchange *x, bool answered)
{
	request_end(request_of(x), answered);
}

void api_handle(struct exchange *x, void *arg)
{
	struct api *a = arg;
	struct request *r = calloc(1, sizeof(*r));

	if (r == NULL) {
		exchange_abort(x);
		return;
	}
	r->api = a;
	r->core = a->core;
	r->x = x;
	r->wait.arg = r;
	exchange_set_arg(x, r);
	exchange_on_done(x, done);
	dispatch(r);
}
