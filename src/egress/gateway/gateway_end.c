/* gateway_end.c - how a request ends, its record, and the parts kept for the next. */
#include "egress/gateway/gateway_end.h"

#include <stdio.h>
#include <string.h>

#include "egress/control/access_record.h"
#include "egress/control/session_limits.h"
#include "egress/gateway/deny_page.h"
#include "egress/gateway/gateway_file.h"
#include "egress/gateway/gateway_splice.h"
#include "egress/gateway/gateway_tap.h"
#include "egress/gateway/llm_call.h"
#include "lib/base/log.h"
#include "lib/json/json.h"
#include "lib/policy/packages_policy.h"

#define MODEL_TEXT_MAX ((size_t)768 * 1024)
#define KEPT_MAX ((size_t)8 * 1024)

/* NULL: no call of a model, or a record that does not fit. The caller releases j. */
static const char *model_text(struct gateway *x, struct json *j)
{
	if (!x->model)
		return NULL;
	json_init_heap(j, MODEL_TEXT_MAX);
	json_open(j, NULL, '{');
	llm_call_write(x->model, secrets_mask(x->session->secrets), j);
	json_close(j, '}');
	return json_ok(j) ? j->text : NULL;
}

/* Log a session in whose answers many values were masked: at 100, 1,000, ... of them. */
static void count_masked(struct gateway *x)
{
	uint64_t before = x->session->masked, step = 100;

	x->session->masked += x->masked.places;
	while (step <= before)
		step *= 10;
	if (x->session->masked >= step)
		log_warn("many secrets masked in answers", "session_id=%s masked=%llu",
			 x->session->id, (unsigned long long)x->session->masked);
}

void gateway_record(struct gateway *x)
{
	struct json j = { 0 };
	struct access_record r = { .kind = ACCESS_RECORD_REQUEST,
				   .start_ns = x->start_ns,
				   .owner = &x->flow->owner,
				   .name = x->endpoint.host[0] ? x->endpoint.host : NULL,
				   .port = x->endpoint.port,
				   .scheme = x->tls ? "https" : "http",
				   .tls = x->tls ? "terminate" : NULL,
				   .method = x->method,
				   .path = x->path,
				   .query = x->query,
				   .allowed = x->allowed,
				   .rule = x->rule,
				   .reason = x->reason,
				   .status = x->status,
				   .bytes_out = x->bytes_out,
				   .bytes_in = x->bytes_in,
				   .frames_out = x->out.frames ? x->out.walk.frames : 0,
				   .frames_in = x->in.frames ? x->in.walk.frames : 0,
				   .masked = x->masked.places,
				   .secrets = x->use.names,
				   .model = model_text(x, &j),
				   .internal = x->flow->internal,
				   .proxied = x->flow->proxied };

	if (x->use.misused && !x->reason[0])
		r.reason = "placeholder of a secret sent where it is not allowed";
	if (x->up)
		r.ip = &x->up->at;
	else if (!x->endpoint.host[0] && !x->endpoint.by_name)
		r.ip = &x->endpoint.ip;
	access_record_send(x->session, &r);
	if (x->gate)
		x->gate->on_record(x);
	count_masked(x);
	if (x->model)
		json_release(&j);
}

/* Unusually long buffers, and ones that may hold a secret, are not kept for the next request. */
static void gateway_end_empty(struct buf *b)
{
	if (b->size > KEPT_MAX || b->secret)
		buf_release(b);
	else
		buf_clear(b);
}

/* After it the gateway is as before the request. Buffers may stay, to be used again. */
void gateway_clear_request(struct gateway *x)
{
	gateway_splice_end(x);
	gateway_tap_end(x);
	gateway_file_end(x);
	if (x->gate)
		x->gate->on_end(x);
	x->gate = NULL;
	x->budget = (struct gateway_budget){ 0 };
	gateway_end_empty(&x->head);
	gateway_end_empty(&x->text);
	gateway_end_empty(&x->ask);
	buf_release(&x->collected);
	/* a body with secrets put in had another bound */
	buf_init(&x->collected, SECRETS_BODY_MAX);
	loop_timer_cancel(x->loop, &x->tick);
	mask_stream_release(&x->masked);
	x->masked.places = 0;
	llm_call_free(x->model);
	x->model = NULL;
	x->mask = NULL;
	x->rule = NULL;
	x->method = x->path = x->query = NULL;
	x->endpoint.host[0] = '\0';
	x->reason[0] = '\0';
	secrets_use_release(&x->use);
	x->status = 0;
	x->bytes_out = x->bytes_in = 0;
	x->allowed = x->has_request = x->answered = x->answer_began = x->plain_answer =
		x->server_knows = x->collects = false;
	x->scanned = x->up_scanned = 0;
	x->interim = 0;
}

void gateway_drop_server(struct gateway *x)
{
	outbound_cancel(&x->outbound);
	upstream_free(x->up);
	x->up = NULL;
}

/* The server's connection is kept only if the request was sent to its end. */
void gateway_done(struct gateway *x)
{
	bool keep = x->cell_keep && x->out.done;

	gateway_tap_end(x);
	gateway_record(x);
	if (x->up && x->up_keep && x->out.done && x->up->stream.out.len == 0) {
		x->up->served++;
		idle_conns_keep(x->session->idle_conns, x->up);
		x->up = NULL;
	}
	gateway_drop_server(x);
	gateway_clear_request(x);
	if (keep) {
		x->state = GATEWAY_HEAD;
		gateway_wait(x, GATEWAY_IDLE_MS);
		return;
	}
	x->state = GATEWAY_LINGER;
	gateway_stream_shut(&x->cell);
	gateway_wait(x, GATEWAY_LINGER_MS);
}

static bool is_registry(const struct gateway *x)
{
	bool files;

	return x->endpoint.host[0] != '\0' &&
	       packages_registry(NULL, x->endpoint.host, x->endpoint.port, NULL, &files) != NULL;
}

/* Egress answers in place of the server. An answer that has begun is cut instead, so that it never
 * looks complete. */
static void give_up(struct gateway *x, int status, bool denied, const char *reason)
{
	struct buf b = BUF_INIT(DENY_PAGE_MAX);
	struct deny_page r = { .status = status,
			       .denied = denied,
			       .reason = x->reason,
			       .rule = denied && x->rule ? x->rule->name : NULL,
			       .json = x->r.headers_n > 0 &&
				       deny_page_wants_json(x->r.headers, x->r.headers_n),
			       .bodiless = x->r.method == HTTP1_HEAD };

	if (x->by_registry || (denied && is_registry(x)))
		r.package = true; /* clients of packages show the phrase, or the member "error" */
	if (x->gate) {
		r.package = true;
		r.json = x->gate->wants_json(x);
	}
	if (reason != x->reason)
		gateway_set_reason(x, reason);
	if (denied)
		x->allowed = false;
	if (x->answered && gateway_tap_take_back(x))
		x->answered = false;
	if (x->answered) { /* the answer has begun: no other can be sent */
		gateway_tap_end(x);
		gateway_record(x);
		x->has_request = false;
		x->over = x->reset = true;
		return;
	}
	gateway_drop_server(x);
	x->status = status;
	x->cell_keep = x->r.keep_alive && x->out.done && x->r.minor > 0;
	r.close = !x->cell_keep;
	deny_page_write(&b, &r);
	gateway_stream_add(&x->cell, b.data, b.len);
	buf_release(&b);
	gateway_done(x);
}

void gateway_deny(struct gateway *x, int status, const char *reason)
{
	give_up(x, status, true, reason);
}

void gateway_fail(struct gateway *x, int status, const char *reason)
{
	give_up(x, status, false, reason);
}

void gateway_limit_reached(struct gateway *x, enum limit_way way)
{
	const char *why;

	if (way == LIMIT_OUT || gateway_budget_left(x, &why) > 0)
		(void)session_limits_left(x->session, x->rule, way, 1, &why);
	gateway_deny(x, 403, why);
}
