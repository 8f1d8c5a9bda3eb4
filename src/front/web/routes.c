#include "front/web/routes.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/web/auth.h"
#include "front/web/reply.h"
#include "lib/base/similar.h"

void routes_print(const struct routes *t, FILE *to)
{
	for (size_t i = 0; i < t->n; i++)
		(void)fprintf(to, "%s %s\n", http1_method_name(t->table[i].method),
			      t->table[i].pattern);
}

/* The methods of a path whose request matched no route. */
struct methods {
	unsigned set;
	bool keyed; /* one of them needs a key */
};

/* The route, or NULL with the methods that the path has. A path that stands in the table as
 * it is does not match patterns with parameters that come later. */
static const struct route *routes_find(const struct routes *t, enum http1_method method,
				       struct http1_span path, struct url_params *ret_params,
				       struct methods *ret_methods)
{
	struct url_params params;
	bool exact = false;

	if (method == HTTP1_HEAD)
		method = HTTP1_GET;
	*ret_methods = (struct methods){ 0 };
	for (size_t i = 0; i < t->n; i++) {
		if (!url_match(t->table[i].pattern, path, &params) || (exact && params.n > 0))
			continue;
		exact |= params.n == 0;
		ret_methods->set |= 1U << t->table[i].method;
		ret_methods->keyed |= t->table[i].scope != 0;
		if (t->table[i].method != method)
			continue;
		*ret_params = params;
		return &t->table[i];
	}
	return NULL;
}

bool routes_know(const struct routes *t, struct http1_span path)
{
	struct url_params params;

	for (size_t i = 0; i < t->n; i++)
		if (url_match(t->table[i].pattern, path, &params))
			return true;
	return false;
}

/* Of "/v2/sandboxes": "v2". */
static struct http1_span first_word(struct http1_span path)
{
	size_t n = path.n > 0 ? 1 : 0;

	while (n < path.n && path.p[n] != '/')
		n++;
	return path.n > 0 ? (struct http1_span){ path.p + 1, n - 1 } : path;
}

bool routes_have_prefix(const struct routes *t, struct http1_span path)
{
	struct http1_span word = first_word(path);

	for (size_t i = 0; word.n > 0 && i < t->n; i++) {
		struct http1_span pattern = { t->table[i].pattern, strlen(t->table[i].pattern) };
		struct http1_span own = first_word(pattern);

		if (own.n == word.n && memcmp(own.p, word.p, word.n) == 0)
			return true;
	}
	return false;
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

static bool routes_knows(const char *known, const char *name)
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

/* Offer the names of a list, each followed by a space. *ret_best is a copy of the best one. */
static void offer_parameters(const char *known, const char *name,
			     char ret_best[SIMILAR_WORD_MAX + 1])
{
	struct similar s = { .word = name };
	unsigned best = UINT_MAX;

	ret_best[0] = '\0';
	for (const char *at = known; *at != '\0'; at = strchr(at, ' ') + 1) {
		char one[SIMILAR_WORD_MAX + 1];

		(void)snprintf(one, sizeof(one), "%.*s", (int)strcspn(at, " "), at);
		s.best = NULL;
		similar_offer(&s, one);
		if (s.best == NULL || s.distance >= best || strpbrk(one, "*[") != NULL)
			continue;
		best = s.distance;
		memcpy(ret_best, one, sizeof(one));
	}
}

static int refuse_parameter(const char *known, const char *name, struct err *e)
{
	char meant[SIMILAR_WORD_MAX + 1];
	int failed;

	offer_parameters(known, name, meant);
	failed = meant[0] == '\0'
			 ? err_set(e, ERR_INVALID, "parameter %.64s: unknown", name)
			 : err_set(e, ERR_INVALID, "parameter %.64s: unknown; did you mean %s?",
				   name, meant);
	err_sanitize(e);
	return failed;
}

static int check_query(const struct request *r, struct err *e)
{
	struct http1_span rest = exchange_request(r->x)->query, raw, value;
	char name[128];

	/* Probes, which need no key, may have any parameters. */
	if (r->route->scope == 0 || r->route->query == NULL)
		return 0;
	while (url_query_next(&rest, &raw, &value)) {
		if (url_decode_form(raw, name, sizeof(name)) < 0)
			return err_set(e, ERR_INVALID, "the query is malformed");
		if (!routes_knows(r->route->query, name))
			return refuse_parameter(r->route->query, name, e);
	}
	return 0;
}

static void routes_refuse(struct request *r, const struct err *e)
{
	if (r->dialect->challenge != NULL)
		r->dialect->challenge(r, e);
	else if (e->reason == REASON_UNAUTHORIZED)
		exchange_header(r->x, "WWW-Authenticate", "Bearer");
	reply_error(r, e);
}

/* A browser asks whether it may send a request, without the key of that request. */
static bool is_preflight(const struct request *r)
{
	const struct http1_request *q = exchange_request(r->x);

	return q->method == HTTP1_OPTIONS &&
	       http1_find(q->headers, q->headers_n, "origin", NULL) > 0 &&
	       http1_find(q->headers, q->headers_n, "access-control-request-method", NULL) > 0;
}

/* No handler: answers with the methods of the path, or that it does not exist. */
static void no_route(const struct routes *t, struct request *r, const struct methods *m)
{
	bool keyed = !t->open && (m->set == 0 || (m->keyed && !is_preflight(r)));
	struct err e = { 0 };

	if (keyed && auth_check(r, 0, &e) < 0) {
		routes_refuse(r, &e);
		return;
	}
	if (m->set == 0) {
		reply_code(r, 404, "not_found", "no such path");
		return;
	}
	set_allow(r, m->set);
	if (exchange_request(r->x)->method == HTTP1_OPTIONS)
		reply_empty(r, 204);
	else
		reply_code(r, 405, "method_not_allowed", "the path does not support this method");
}

void routes_dispatch(const struct routes *t, struct request *r)
{
	const struct http1_request *q = exchange_request(r->x);
	struct url_params params = { 0 };
	struct err e = { 0 };
	struct methods methods;
	bool keyed;

	r->route = routes_find(t, q->method, q->path, &params, &methods);
	keyed = r->route != NULL && r->route->scope != 0 && (t->waives == NULL || !t->waives(r));
	if (r->route != NULL)
		loop_note(core_loop(r->core), r->route->pattern);
	if (r->route == NULL)
		no_route(t, r, &methods);
	else if (keyed && auth_check(r, r->route->scope, &e) < 0)
		routes_refuse(r, &e);
	else if ((keyed && request_count(r, &e) < 0) || check_query(r, &e) < 0 ||
		 request_claim(r, r->actor.on_behalf, &e) < 0)
		reply_error(r, &e);
	else if (t->take_ids(r, &params) && auth_may_use_session(r)) /* or it has answered */
		r->route->handle(r);
}

void routes_handle(const struct routes *t, struct core *core, struct exchange *x, void *arg)
{
	struct request *r = request_new(core, x, t->dialect, arg);

	if (r != NULL)
		routes_dispatch(t, r);
}
