#include "front/web/request.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "front/web/auth.h"
#include "front/web/json_members.h"
#include "front/web/once.h"
#include "front/web/reply.h"
#include "lib/base/clock.h"
#include "lib/base/str.h"
#include "lib/base/utf8.h"
#include "lib/base/units.h"
#include "lib/http/url.h"
#include "lib/policy/lockfiles_fold.h"

struct request *request_of(const struct exchange *x)
{
	return exchange_arg(x);
}

static void on_done(struct exchange *x, bool answered)
{
	struct request *r = request_of(x);
	struct session *s;
	struct err e;

	completion_cancel(&r->wait);
	if (r->release != NULL)
		r->release(r, answered);
	free(r->state);
	/* By name: it may have ended by now. */
	s = r->holds ? session_live(r->core, r->tenant, r->session_id, &e) : NULL;
	if (s != NULL)
		session_unhold(s);
	grant_close(&r->grant);
	if (r->streams)
		tenant_stream_close(r->tenant);
	if (r->counted)
		tenant_leave(r->core, r->tenant);
	once_free(r->once);
	free(r);
}

struct request *request_new(struct core *core, struct exchange *x, const struct dialect *dialect,
			    void *interface)
{
	struct request *r = calloc(1, sizeof(*r));

	if (r == NULL) {
		exchange_abort(x);
		return NULL;
	}
	r->core = core;
	r->x = x;
	r->dialect = dialect;
	r->interface = interface;
	r->wait.arg = r;
	exchange_set_arg(x, r);
	exchange_on_done(x, on_done);
	return r;
}

void *request_state(struct request *r, size_t size,
		    void (*release)(struct request *r, bool answered))
{
	struct err e;

	r->state = calloc(1, size);
	if (r->state == NULL) {
		IGNORED(err_sys(&e, "allocate"), "answered");
		reply_error(r, &e);
		return NULL;
	}
	r->release = release;
	return r->state;
}

void request_drop_state(struct request *r)
{
	if (r->release != NULL)
		r->release(r, false);
	free(r->state);
	r->state = NULL;
	r->release = NULL;
}

static void on_revoked(struct grant *g)
{
	struct request *r = g->arg;

	if (g->opening[0] != '\0')
		exchange_revoke(r->x, 403, "the port was closed");
	else
		exchange_revoke(r->x, 401, "the key of this request was revoked or has expired");
}

int request_count(struct request *r, struct err *e)
{
	if (tenant_enter(r->core, r->tenant, e) < 0)
		return -1;
	r->counted = true;
	r->grant.tenant = r->tenant;
	r->grant.on_revoked = on_revoked;
	r->grant.arg = r;
	grant_open(r->core, &r->grant);
	exchange_set_account(r->x, tenant_account(r->tenant), false);
	return 0;
}

/* The CLI is known by its User-Agent only. This is for records, not for access. */
static const char *interface_of(const struct request *r)
{
	static const char cli[] = "cordon/";
	const struct http1_request *q = exchange_request(r->x);
	struct http1_span value;

	if (strcmp(r->dialect->interface, "api") != 0)
		return r->dialect->interface;
	if (http1_find(q->headers, q->headers_n, "upgrade", &value) > 0)
		return "ws";
	if (http1_find(q->headers, q->headers_n, "user-agent", &value) == 1 &&
	    value.n >= sizeof(cli) - 1 && memcmp(value.p, cli, sizeof(cli) - 1) == 0)
		return "cli";
	return "api";
}

int request_claim(const struct request *r, char ret[STORE_ACTOR_BEHALF_MAX], struct err *e)
{
	const struct http1_request *q = exchange_request(r->x);
	struct http1_span value;
	size_t n = http1_find(q->headers, q->headers_n, "x-cordon-actor", &value);

	ret[0] = '\0';
	if (n == 0)
		return 0;
	for (size_t i = 0; n == 1 && i < value.n;) {
		const uint8_t *at = (const uint8_t *)value.p + i;
		size_t len = utf8_length(at, value.n - i);

		if (len == 0 || utf8_is_control(at, len))
			n = 0;
		i += len;
	}
	if (n != 1 || value.n == 0 || value.n >= STORE_ACTOR_BEHALF_MAX)
		return err_set(e, ERR_INVALID, "X-Cordon-Actor: must be one text of 1 to %d bytes",
			       STORE_ACTOR_BEHALF_MAX - 1);
	memcpy(ret, value.p, value.n);
	ret[value.n] = '\0';
	return 0;
}

/* Of "192.0.2.1:80" and "[2001:db8::1]:80" without the port. */
static void copy_address(const char *peer, char ret[STORE_ACTOR_ADDRESS_MAX])
{
	const char *end = strrchr(peer, ':');
	size_t n = end == NULL ? 0 : (size_t)(end - peer);

	if (n > 2 && peer[0] == '[') {
		peer++;
		n -= 2;
	}
	if (n >= STORE_ACTOR_ADDRESS_MAX)
		n = 0;
	memcpy(ret, peer, n);
	ret[n] = '\0';
}

const struct store_actor *request_actor(struct request *r)
{
	struct err e;

	if (r->actor.interface[0] != '\0')
		return &r->actor;
	/* A malformed one was refused, but where no route is looked for. */
	if (request_claim(r, r->actor.on_behalf, &e) < 0)
		r->actor.on_behalf[0] = '\0';
	copy_address(exchange_peer(r->x), r->actor.address);
	str_copy(r->actor.interface, interface_of(r));
	str_copy(r->actor.request_id, exchange_id(r->x));
	memcpy(r->actor.key_id, r->grant.key_id, sizeof(r->actor.key_id));
	return &r->actor;
}

int request_stream(struct request *r, struct err *e)
{
	if (r->streams)
		return 0;
	if (tenant_stream_open(r->core, r->tenant, e) < 0)
		return -1;
	r->streams = true;
	return 0;
}

bool request_is_head(const struct request *r)
{
	return exchange_request(r->x)->method == HTTP1_HEAD;
}

int request_text(struct request *r, const char *name, char *ret, size_t cap, struct err *e)
{
	if (url_query_get(exchange_request(r->x)->query, name, ret, cap) < 0)
		return err_set(e, ERR_INVALID, "parameter %s: malformed, too long or given twice",
			       name);
	return 0;
}

int request_number(struct request *r, const char *name, uint64_t min, uint64_t max, uint64_t *ret,
		   struct err *e)
{
	char text[24];

	if (request_text(r, name, text, sizeof(text), e) < 0)
		return -1;
	if (text[0] == '\0')
		return 0;
	if (units_count(text, min, max, ret, e) < 0)
		return err_wrap(e, "parameter %s", name);
	return 0;
}

int request_choice(struct request *r, const char *name, const char *const *words, unsigned count,
		   unsigned *ret, struct err *e)
{
	char text[24], all[160] = "";

	if (request_text(r, name, text, sizeof(text), e) < 0)
		return -1;
	if (text[0] == '\0')
		return 0;
	for (unsigned i = 0; i < count; i++) {
		size_t n;

		if (strcmp(text, words[i]) == 0) {
			*ret = i;
			return 0;
		}
		n = strlen(all);
		(void)snprintf(all + n, sizeof(all) - n, "%s%s", words[i][0] == '\0' ? "" : " ",
			       words[i]);
	}
	return err_set(e, ERR_INVALID, "parameter %s: must be one of%s", name, all);
}

int request_bool(struct request *r, const char *name, bool *ret, struct err *e)
{
	static const char *const words[] = { "false", "true", "0", "1" };
	unsigned which = COUNT(words);

	if (request_choice(r, name, words, COUNT(words), &which, e) < 0)
		return err_set(e, ERR_INVALID, "parameter %s: must be true or false", name);
	if (which < COUNT(words))
		*ret = which % 2 == 1;
	return 0;
}

struct session *request_session(struct request *r)
{
	struct err e = { 0 };
	struct session *s = session_live(r->core, r->tenant, r->session_id, &e);

	if (s == NULL)
		reply_error(r, &e);
	return s;
}

int request_owns(struct request *r, struct session **ret_live, struct err *e)
{
	*ret_live = session_live(r->core, r->tenant, r->session_id, e);
	if (*ret_live != NULL || err_reason_is_gone(e->reason))
		return 0;
	return -1;
}

static void on_usable(struct completion *w, const struct err *why)
{
	struct request *r = w->arg;
	struct session *s;
	struct err e = { 0 };

	if (why != NULL) {
		reply_error(r, why);
		return;
	}
	s = session_live(r->core, r->tenant, r->session_id, &e);
	if (s == NULL)
		reply_error(r, &e);
	else
		r->on_session(r, s);
}

/* The session may have been paused while the body of this request was still arriving. */
static bool is_paused(const struct session *s, struct err *e)
{
	const struct store_session *row = session_row(s);

	if (row->state != SESSION_PAUSING && row->state != SESSION_PAUSED)
		return false;
	IGNORED(err_set_reason(e, REASON_GONE, "session %s is paused", row->id),
		"reported by true");
	return true;
}

void request_use(struct request *r, void (*on_session)(struct request *r, struct session *s))
{
	struct err e = { 0 };
	struct session *s = session_live(r->core, r->tenant, r->session_id, &e);

	if (s == NULL || ((r->no_resume || auth_only_reads(r)) && is_paused(s, &e))) {
		if (s != NULL && auth_only_reads(r))
			(void)err_set(&e, ERR_DENIED,
				      "session %s is paused, and to resume it needs a key with "
				      "the scope \"sessions\"",
				      session_row(s)->id);
		reply_error(r, &e);
		return;
	}
	r->on_session = on_session;
	r->wait.on_done = on_usable;
	if (session_use(s, request_actor(r), &r->wait))
		on_session(r, s);
}

void request_hold(struct request *r, struct session *s)
{
	if (r->holds)
		return;
	session_hold(s);
	r->holds = true;
}

bool request_turn_is_old(const struct request *r)
{
	return clock_now_ns() - loop_now_ns(core_loop(r->core)) >= JOBS_TURN_NS;
}

static void request_collect(struct request *r, size_t max,
			    void (*on_body)(struct exchange *x, const uint8_t *body, size_t len))
{
	const struct http1_request *q = exchange_request(r->x);
	uint64_t allowed = core_config(r->core)->request_body_max;
	struct http1_span type;

	/* A browser sends other types across origins without a preflight request. They are
	 * refused. */
	if (http1_find(q->headers, q->headers_n, "content-type", &type) > 0) {
		type = http1_media_type(type);
		/* The default type of curl -d is accepted as JSON. The parser refuses other
		 * content. */
		if (!http1_span_is_nocase(type, "application/json") &&
		    !http1_span_is_nocase(type, "application/x-www-form-urlencoded")) {
			reply_code(r, 415, "unsupported_media",
				   "the body must be application/json");
			return;
		}
	}
	exchange_read_all(r->x, allowed < max ? (size_t)allowed : max, on_body);
}

void request_body(struct request *r,
		  void (*on_body)(struct exchange *x, const uint8_t *body, size_t len))
{
	request_collect(r, REQUEST_BODY_MAX, on_body);
}

void request_long_body(struct request *r,
		       void (*on_body)(struct exchange *x, const uint8_t *body, size_t len))
{
	request_collect(r, JSON_MEMBERS_BODY_MAX, on_body);
}

void request_lockfiles_body(struct request *r,
			    void (*on_body)(struct exchange *x, const uint8_t *body, size_t len))
{
	request_collect(r, LOCKFILES_BODY_MAX, on_body);
}
