/* sandbox_life.c - an existing sandbox: shown, resumed, paused, its timeout set, ended. */
#include <errno.h>
#include <stdio.h>

#include "daemon/session/session_suspend.h"
#include "daemon/tenant/allow.h"
#include "front/e2b/base/e2b_private.h"
#include "front/e2b/control/sandbox.h"
#include "front/e2b/control/sandbox_spec.h"
#include "front/web/reply.h"
#include "lib/base/clock.h"

#define DETAIL_JSON_MAX (2U << 20) /* rules of the network are the most of it */
/* Timeouts in seconds where a request has none, and the least refresh. */
#define RESUME_S 15
#define CONNECT_S 300
#define REFRESH_MIN_S 15

/* ---- shown, ended */

void sandbox_get(struct request *r)
{
	struct session *s = sandbox_find(r);
	struct json j;

	if (s == NULL)
		return;
	json_init_heap(&j, DETAIL_JSON_MAX);
	sandbox_shape_detail(&j, NULL, e2b_of(r), session_row(s),
			     (r->scopes & TENANT_SESSIONS) != 0);
	reply_json(r, 200, &j);
}

void sandbox_delete(struct request *r)
{
	struct err e = { 0 };

	if (sandbox_find(r) == NULL)
		return;
	if (session_delete(r->core, r->tenant, r->session_id, request_actor(r), &e) < 0)
		sandbox_fail(r, &e);
	else
		reply_empty(r, 204);
}

/* ---- times */

/* Milliseconds, within the node's bounds. 0 is as soon as possible: to the core it would be
 * never. */
static int to_ms(struct request *r, int64_t seconds, uint64_t *ret, struct err *e)
{
	uint64_t max = core_config(r->core)->session_timeout_max_ms;

	*ret = seconds <= 0 ? 1 : (uint64_t)seconds * 1000;
	if (max > 0 && *ret > max)
		return err_set(e, ERR_INVALID, "Timeout cannot be greater than %llu seconds",
			       (unsigned long long)max / 1000);
	return 0;
}

/* A new timeout for a running sandbox. Counted from its start it may live for max (0: no bound):
 * more is cut off. But asking for more never shortens its life. */
static uint64_t sandbox_life_cut(const struct store_session *row, int64_t seconds, uint64_t max)
{
	uint64_t now = clock_wall_ms();
	uint64_t asked = seconds <= 0 ? 1 : (uint64_t)seconds * 1000;
	uint64_t end = row->started_ms + row->paused_total_ms + max, left;

	if (max == 0)
		return asked;
	if (row->deadline_ms > end)
		end = row->deadline_ms;
	left = end > now ? end - now : 1;
	left = left > max ? max : left;
	return asked > left ? left : asked;
}

/* ---- woken
 *
 * connect and resume both begin with sandbox_life_resume(). on_running() follows once. */

/* The state of a request that waits for its sandbox. */
struct resuming {
	uint64_t timeout_ms;
	bool extend; /* others resume it, too */
};

/* The new timeout is set only when the sandbox runs. */
static void on_running(struct completion *w, const struct err *why)
{
	struct request *r = w->arg;
	struct resuming *k = r->state;
	struct session *s;
	struct err e = { 0 };

	if (why != NULL) {
		sandbox_fail(r, why);
		return;
	}
	s = sandbox_find(r);
	if (s == NULL)
		return;
	if ((k->extend ? session_extend(s, k->timeout_ms, request_actor(r), &e)
		       : session_set_timeout(s, k->timeout_ms, request_actor(r), &e)) < 0)
		sandbox_fail(r, &e);
	else
		sandbox_reply(r, 201, s);
}

/* memory false: a paused sandbox is booted again from its files. */
static void sandbox_life_resume(struct request *r, struct session *s, uint64_t timeout_ms,
				bool memory)
{
	struct resuming *k;

	k = request_state(r, sizeof(*k), NULL);
	if (k == NULL)
		return;
	k->timeout_ms = timeout_ms;
	k->extend = session_row(s)->state == SESSION_RESUMING;
	r->wait.on_done = on_running;
	if (memory || session_row(s)->state != SESSION_PAUSED)
		session_resume(s, request_actor(r), &r->wait);
	else
		session_cold_reboot(s, request_actor(r), &r->wait);
}

/* The body, with its timeout checked. Negative: answered. */
static int read_resume(struct request *r, const uint8_t *body, size_t len, int64_t otherwise_s,
		       struct sandbox_spec_timeout *ret, uint64_t *ret_ms)
{
	struct err e = { 0 };
	int read = sandbox_spec_timeout(body, len, "timeout", ret, &e);

	if (read == 0 && !ret->given && otherwise_s == 0)
		read = err_set(&e, ERR_INVALID, "timeout: is missing");
	if (read == 0 && !ret->given)
		ret->timeout_s = otherwise_s;
	if (read == 0 && ret->timeout_s < 0)
		read = err_set(&e, ERR_INVALID, "Timeout must be greater than 0");
	if (read == 0)
		read = to_ms(r, ret->timeout_s, ret_ms, &e);
	if (read < 0)
		reply_error(r, &e);
	return read;
}

/* A running sandbox is answered with 200, a resumed one with 201. */
static void sandbox_life_connect(struct request *r, const uint8_t *body, size_t len,
				 int64_t otherwise_s)
{
	struct sandbox_spec_timeout given;
	struct err e = { 0 };
	struct session *s;
	uint64_t ms = 0, max = 0;

	if (read_resume(r, body, len, otherwise_s, &given, &ms) < 0)
		return;
	s = sandbox_find(r);
	if (s == NULL)
		return;
	if (allow_timeout_max(r->core, r->tenant, request_actor(r), &max, &e) < 0) {
		sandbox_fail(r, &e);
		return;
	}
	if (!given.given && max > 0 && ms > max) /* no timeout in the request: the maximum */
		ms = max;
	if (session_row(s)->state != SESSION_RUNNING)
		sandbox_life_resume(r, s, ms, given.memory);
	else if (session_extend(s, ms, request_actor(r), &e) < 0)
		sandbox_fail(r, &e);
	else
		sandbox_reply(r, 200, s);
}

static void on_connect_v1(struct exchange *x, const uint8_t *body, size_t len)
{
	sandbox_life_connect(request_of(x), body, len, 0);
}

static void on_connect_v2(struct exchange *x, const uint8_t *body, size_t len)
{
	sandbox_life_connect(request_of(x), body, len, CONNECT_S);
}

/* Unlike connect, resume refuses a running sandbox. */
static void on_resume_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct sandbox_spec_timeout given;
	struct session *s;
	char text[256];
	uint64_t ms = 0;

	if (read_resume(r, body, len, RESUME_S, &given, &ms) < 0)
		return;
	s = sandbox_find(r);
	if (s == NULL)
		return;
	if (sandbox_is_paused(session_row(s))) {
		sandbox_life_resume(r, s, ms, given.memory);
		return;
	}
	(void)snprintf(text, sizeof(text), "Sandbox '%s' is already running", r->session_id);
	reply_code(r, 409, "conflict", text);
}

void sandbox_connect_v1(struct request *r)
{
	request_body(r, on_connect_v1);
}

void sandbox_connect_v2(struct request *r)
{
	request_body(r, on_connect_v2);
}

void sandbox_resume(struct request *r)
{
	request_body(r, on_resume_body);
}

/* ---- pause
 *
 * A sandbox that is being resumed is paused after that, so the wait has two steps. */

static void on_paused(struct completion *w, const struct err *e)
{
	struct request *r = w->arg;

	if (e == NULL)
		reply_empty(r, 204);
	else if (e->code == ERR_CONFLICT && !err_reason_is_gone(e->reason))
		/* Clients take 409 for "paused already", and it is not. */
		reply_code(r, 503, "unavailable", e->msg);
	else
		sandbox_fail(r, e);
}

/* It runs now. */
static void on_running_to_pause(struct completion *w, const struct err *why)
{
	struct request *r = w->arg;
	struct session *s;
	const bool *without_memory = r->state;

	if (why != NULL) {
		sandbox_fail(r, why);
		return;
	}
	s = sandbox_find(r);
	if (s == NULL)
		return;
	r->wait.on_done = on_paused;
	if (*without_memory)
		session_cold_pause(s, COLD_CAPTURE, request_actor(r), &r->wait);
	else
		session_pause(s, request_actor(r), &r->wait);
}

/* The body may ask for a pause without memory. */
static void on_pause_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct sandbox_spec_timeout given;
	struct err e = { 0 };
	struct session *s;
	char text[256];

	if (sandbox_spec_timeout(body, len, "timeout", &given, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	s = sandbox_find(r);
	if (s == NULL)
		return;
	if (sandbox_is_paused(session_row(s))) {
		(void)snprintf(text, sizeof(text),
			       "Error pausing sandbox - sandbox '%s' is already paused",
			       r->session_id);
		reply_code(r, 409, "conflict", text);
	} else {
		bool *without_memory = request_state(r, sizeof(*without_memory), NULL);

		if (without_memory == NULL)
			return;
		*without_memory = !given.memory;
		r->wait.on_done = on_running_to_pause;
		session_resume(s, request_actor(r),
			       &r->wait); /* at once, unless it is resuming up */
	}
}

void sandbox_pause(struct request *r)
{
	request_body(r, on_pause_body);
}

/* ---- given time */

/* The new timeout counts from now, and may be shorter than the old one. */
static void on_timeout_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct sandbox_spec_timeout given;
	struct err e = { 0 };
	struct session *s;
	uint64_t max = 0;
	int read = sandbox_spec_timeout(body, len, "timeout", &given, &e);

	if (read == 0 && !given.given)
		read = err_set(&e, ERR_INVALID, "timeout: is missing");
	if (read < 0) {
		reply_error(r, &e);
		return;
	}
	s = sandbox_find_running(r);
	if (s == NULL)
		return;
	if (allow_timeout_max(r->core, r->tenant, request_actor(r), &max, &e) < 0 ||
	    session_set_timeout(s, sandbox_life_cut(session_row(s), given.timeout_s, max),
				request_actor(r), &e) < 0)
		sandbox_fail(r, &e);
	else
		reply_empty(r, 204);
}

void sandbox_timeout(struct request *r)
{
	request_body(r, on_timeout_body);
}

/* A refresh only makes a sandbox's life longer. */
static void on_refresh_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct sandbox_spec_timeout given;
	struct err e = { 0 };
	struct session *s;
	uint64_t ms = 0;

	if (sandbox_spec_timeout(body, len, "duration", &given, &e) < 0 ||
	    to_ms(r, given.timeout_s < REFRESH_MIN_S ? REFRESH_MIN_S : given.timeout_s, &ms, &e) <
		    0) {
		reply_error(r, &e);
		return;
	}
	s = sandbox_find_running(r);
	if (s == NULL)
		return;
	if (session_extend(s, ms, request_actor(r), &e) < 0)
		sandbox_fail(r, &e);
	else
		reply_empty(r, 204);
}

void sandbox_refreshes(struct request *r)
{
	request_body(r, on_refresh_body);
}
