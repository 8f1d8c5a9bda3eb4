/* fetch.c - theory of operation
 *
 * An attempt is a chain of requests: the object. The token server if it answers 401. The object
 * again. Other addresses if it redirects. The head of each answer decides the next request. It is
 * done when that request has ended. An attempt that fails in a way that may
 * pass begins again at the object's own address, after a pause. If bytes of a blob have been passed
 * on, it asks for the rest only. The hash runs over the bytes passed on, in any number of
 * attempts. */
#include "pull/fetch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/str.h"
#include "pull/login.h"

/* fetch.state: the present request. */
enum { FETCH_OBJECT, FETCH_TOKEN };

/* fetch.next: what follows when the present request has ended. */
enum {
	FETCH_DONE,   /* the body is the object, or the token */
	FETCH_LOGIN,  /* answer the challenge */
	FETCH_FOLLOW, /* ask at the address in `at` */
	FETCH_AGAIN,  /* begin another attempt, after wait_ms */
	FETCH_FAIL,   /* end with `failed` */
};

/* ---- the head of an answer: sets `next`, and `failed` where it is an error */

static void fetch_too_long(struct fetch *f)
{
	if (f->size != UINT64_MAX)
		(void)err_set(&f->failed, ERR_INVALID,
			      "the registry sent more than the %llu bytes that were announced",
			      (unsigned long long)f->size);
	else
		(void)err_set(&f->failed, ERR_LIMIT, "longer than %llu bytes",
			      (unsigned long long)f->max);
}

/* Seconds only. 0 for a date or without the header, and fetch_try_again() picks the pause. */
static uint64_t fetch_retry_after_ms(const struct http1_response *r)
{
	struct http1_span value;
	uint64_t s = 0;

	if (http1_find(r->headers, r->headers_n, "retry-after", &value) != 1 || value.n == 0 ||
	    value.n > 6)
		return 0;
	for (size_t i = 0; i < value.n; i++) {
		if (value.p[i] < '0' || value.p[i] > '9')
			return 0;
		s = s * 10 + (uint64_t)(value.p[i] - '0');
	}
	return s * 1000;
}

/* "bytes 100-199/200" must begin where the last attempt ended. */
static bool fetch_begins_at(const struct http1_response *r, uint64_t from)
{
	struct http1_span value;
	uint64_t at = 0;
	size_t i = 6;

	if (http1_find(r->headers, r->headers_n, "content-range", &value) != 1 || value.n < 8 ||
	    memcmp(value.p, "bytes ", 6) != 0)
		return false;
	for (; i < value.n && i < 25 && value.p[i] >= '0' && value.p[i] <= '9'; i++)
		at = at * 10 + (uint64_t)(value.p[i] - '0');
	return i > 6 && i < value.n && value.p[i] == '-' && at == from;
}

/* A 200 to a range request sends the whole object again: `skip` leaves the known part out. Length
 * and encoding are checked before any byte is passed on. */
static void fetch_judge_object(struct fetch *f, const struct http1_response *r)
{
	uint64_t left = f->size == UINT64_MAX ? UINT64_MAX : f->size - f->done;
	struct http1_span type;

	f->next = FETCH_DONE;
	f->logged_in = false;
	f->skip = r->status == 200 ? f->done : 0;
	if (r->status == 206 && !fetch_begins_at(r, f->done)) {
		(void)err_set(&f->failed, ERR_INVALID, "the registry sent another range");
		return;
	}
	if (http1_find(r->headers, r->headers_n, "content-encoding", &type) > 0 &&
	    !http1_span_is_nocase(type, "identity")) {
		(void)err_set(&f->failed, ERR_INVALID, "the registry sent an encoded body");
		return;
	}
	if (r->framing == HTTP1_LENGTH && left != UINT64_MAX && r->content_length != left + f->skip)
		(void)err_set(&f->failed, ERR_INVALID,
			      "the registry has %llu bytes, announced were %llu",
			      (unsigned long long)(r->content_length + f->done - f->skip),
			      (unsigned long long)f->size);
	if (r->framing == HTTP1_LENGTH && left == UINT64_MAX && r->content_length > f->max)
		fetch_too_long(f);
	if (http1_find(r->headers, r->headers_n, "content-type", &type) > 0) {
		type = http1_media_type(type);
		if (type.n < sizeof(f->type)) {
			memcpy(f->type, type.p, type.n);
			f->type[type.n] = '\0';
		}
	}
}

/* A token server may not redirect: its request may carry the password. */
static void fetch_judge_redirect(struct fetch *f, const struct http1_response *r)
{
	struct http1_span to;
	struct address next;

	f->next = FETCH_FAIL;
	if (f->state == FETCH_TOKEN || ++f->redirects > FETCH_REDIRECTS_MAX)
		(void)err_set(&f->failed, ERR_INVALID, "too many redirects");
	else if (http1_find(r->headers, r->headers_n, "location", &to) != 1)
		(void)err_set(&f->failed, ERR_INVALID, "a redirect without its address");
	else if (address_follow(&f->at, to.p, to.n, &next, &f->failed) == 0)
		f->next = FETCH_FOLLOW, f->at = next;
}

/* A challenge is answered once in a row. Only the registry itself may ask: not a host that it
 * redirected to. */
static void fetch_judge_challenge(struct fetch *f, const struct http1_response *r)
{
	f->next = FETCH_FAIL;
	(void)err_set(&f->failed, ERR_DENIED, "the registry refused the request (401)");
	if (f->state == FETCH_TOKEN || f->logged_in ||
	    !address_same_origin(&f->at, &f->login->home))
		return;
	challenge_read(r->headers, r->headers_n, &f->challenge);
	if (f->challenge.kind != CHALLENGE_NONE)
		f->next = FETCH_LOGIN;
}

/* 429 and 5xx are worth another attempt. All others end the fetch. */
static void fetch_judge_failure(struct fetch *f, const struct http1_response *r)
{
	bool limited = r->status == 429;

	f->next = FETCH_FAIL;
	if (r->status == 404)
		(void)err_set(&f->failed, ERR_NOT_FOUND, "the registry does not have it (404)");
	else if (f->state == FETCH_TOKEN && f->login->aws && r->status == 400)
		(void)err_set(&f->failed, ERR_DENIED, "AWS refused the credentials (400)");
	else if (r->status == 403)
		(void)err_set(&f->failed, ERR_DENIED, "the registry refused the request (403)");
	else
		(void)err_set(&f->failed, limited ? ERR_LIMIT : ERR_SYSTEM,
			      "the registry answered with status %d", r->status);
	if (!limited && r->status < 500)
		return;
	f->next = FETCH_AGAIN;
	f->wait_ms = fetch_retry_after_ms(r);
	if (f->wait_ms > FETCH_WAIT_MAX_MS) {
		f->next = FETCH_FAIL;
		(void)err_set(&f->failed, ERR_LIMIT, "the registry asks to wait for %llu s",
			      (unsigned long long)(f->wait_ms / 1000));
	}
}

/* Without the query: it may be signed, and be as good as a credential. */
static void fetch_log_answer(const struct fetch *f, int status)
{
	char name[ADDRESS_NAME_MAX], path[256];

	address_name(&f->at, name);
	(void)snprintf(path, sizeof(path), "%.*s", (int)strcspn(f->at.target, "?"), f->at.target);
	log_info("registry answered", "host=%s path=%s status=%d", name, path, status);
}

/* A callback of get.h: the head of an answer has come. */
static bool fetch_on_head(struct get *g, const struct http1_response *r)
{
	struct fetch *f = g->arg;

	fetch_log_answer(f, r->status);
	buf_clear(&f->text);
	f->wait_ms = 0;
	f->failed = (struct err){ 0 };
	if (r->status == 200 && f->state == FETCH_TOKEN)
		f->next = FETCH_DONE;
	else if (r->status == 200 || (r->status == 206 && f->done > 0))
		fetch_judge_object(f, r);
	else if (r->status == 401)
		fetch_judge_challenge(f, r);
	else if (r->status >= 301 && r->status <= 308 && r->status != 304)
		fetch_judge_redirect(f, r);
	else
		fetch_judge_failure(f, r);
	/* An error's body is read for the registry's word. Other unused bodies are not. */
	return f->next == FETCH_DONE ? f->failed.code == ERR_NONE
				     : f->next == FETCH_FAIL && f->failed.code != ERR_INVALID;
}

#define PAUSE_MS 250		   /* doubled with each attempt */
#define PROGRESS_BYTES (64U << 10) /* an attempt that brought so many does not count */

static void fetch_begin_attempt(struct fetch *f);

/* ---- the end */

/* May free f: the last thing done with it. */
static void fetch_end(struct fetch *f, const struct err *e)
{
	loop_timer_cancel(f->means->loop, &f->wait);
	loop_remove(f->means->loop, &f->sink);
	if (f->fd >= 0) /* the reader sees the end of the blob */
		fd_close(f->fd);
	f->fd = -1;
	completion_end(&f->end, e);
}

/* on_done() may free f. */
static void on_completed(struct completion *c, const struct err *e)
{
	struct fetch *f = c->arg;

	f->on_done(f, e);
}

void fetch_release(struct fetch *f)
{
	get_cancel(&f->get);
	completion_cancel(&f->end);
	if (f->means) {
		loop_timer_cancel(f->means->loop, &f->wait);
		loop_remove(f->means->loop, &f->sink);
	}
	if (f->fd >= 0)
		fd_close(f->fd);
	f->fd = -1;
	buf_release(&f->body);
	buf_release(&f->text);
}

/* ---- bytes of the object */

/* The reader took bytes, so the transfer continues. */
static void on_sink(struct loop_fd *s, uint32_t events)
{
	struct fetch *f = s->arg;

	loop_remove(f->means->loop, s);
	get_resume(&f->get);
}

/* How many bytes the descriptor takes. If fewer than all, on_sink() follows. SIZE_MAX: nothing any
 * more. */
static size_t fetch_write_out(struct fetch *f, const uint8_t *data, size_t n)
{
	ssize_t wrote = write(f->fd, data, n);

	if (wrote < 0 && errno != EAGAIN && errno != EINTR) {
		(void)err_set(&f->failed, ERR_CONFLICT, "the layer is not wanted any more");
		return SIZE_MAX;
	}
	if (wrote == (ssize_t)n)
		return n;
	if (f->sink.fd < 0 && loop_add(f->means->loop, &f->sink, f->fd, EPOLLOUT, &f->failed) < 0)
		return SIZE_MAX;
	return wrote < 0 ? 0 : (size_t)wrote;
}

/* SIZE_MAX: `failed` says why. */
static size_t fetch_keep(struct fetch *f, const uint8_t *data, size_t n)
{
	if (f->fd >= 0)
		return fetch_write_out(f, data, n);
	return buf_add(&f->body, data, n, &f->failed) < 0 ? SIZE_MAX : n;
}

/* Return how many bytes were used, with the skipped ones. The hash covers exactly the bytes that
 * were kept. */
static size_t fetch_take_object(struct fetch *f, const uint8_t *data, size_t n)
{
	uint64_t limit = f->size != UINT64_MAX ? f->size : f->max;
	size_t skipped = f->skip < n ? (size_t)f->skip : n, taken;

	f->skip -= skipped;
	if (n == skipped)
		return n;
	if (n - skipped > limit - f->done) {
		fetch_too_long(f);
		return SIZE_MAX;
	}
	taken = fetch_keep(f, data + skipped, n - skipped);
	if (taken == SIZE_MAX)
		return SIZE_MAX;
	sha256_add(&f->hash, data + skipped, taken);
	f->done += taken;
	return skipped + taken;
}

/* A fault stops the transfer: the rest of the body is dropped. */
static size_t on_data(struct get *g, const uint8_t *data, size_t n)
{
	struct fetch *f = g->arg;
	struct err e;
	size_t taken;

	if (f->failed.code != ERR_NONE && f->next == FETCH_DONE)
		return n;
	if (f->next != FETCH_DONE || f->state == FETCH_TOKEN) {
		if (buf_add(&f->text, data, n, &e) < 0 && f->next == FETCH_DONE)
			f->failed = e;
		return n;
	}
	taken = fetch_take_object(f, data, n);
	if (taken != SIZE_MAX)
		return taken;
	/* The get must not be cancelled inside of its callback, so on_wait() does it. */
	loop_timer_set(f->means->loop, &f->wait, loop_now_ns(f->means->loop));
	return n;
}

/* ---- the next request */

/* All requests of a fetch go through here. login_header() gives no credentials to other origins
 * than the registry's. */
static void fetch_send_request(struct fetch *f, const char *authorization,
			       const struct get_post *post)
{
	const struct get_request r = {
		.to = &f->at,
		.private_ok = address_is_listed(&f->at, f->open_hosts),
		.accept = f->state == FETCH_TOKEN ? "application/json" : f->accept,
		.authorization = authorization,
		.post = post,
		.range_from = f->state == FETCH_TOKEN ? 0 : f->done,
		.patience_ms = f->patience_ms,
	};
	struct err e;

	f->next = FETCH_FAIL;
	f->failed = (struct err){ 0 };
	if (get_start(&f->get, f->means, &r, &e) < 0)
		fetch_end(f, &e);
}

static void fetch_send_object(struct fetch *f)
{
	f->state = FETCH_OBJECT;
	fetch_send_request(f, login_header(f->login, &f->at), NULL);
}

/* The API of AWS is asked for the password. */
static void fetch_ask_aws(struct fetch *f)
{
	struct ecr_login ask;
	struct err e;

	if (ecr_login_ask(f->login, &ask, &e) < 0) {
		fetch_end(f, &e);
		return;
	}
	f->at = ask.to;
	f->state = FETCH_TOKEN;
	fetch_send_request(f, ask.authorization, &ask.post);
}

/* fetch_judge_challenge() let it pass. logged_in stops a second answer in a row. */
static void fetch_answer_challenge(struct fetch *f)
{
	char *header = NULL;
	struct err e;

	f->logged_in = true;
	if (f->login->aws) {
		fetch_ask_aws(f);
		return;
	}
	if (f->challenge.kind == CHALLENGE_BASIC) {
		if (login_basic(f->login, &e) < 0) {
			(void)snprintf(f->code, sizeof(f->code), "DENIED");
			fetch_end(f, &e);
		} else
			fetch_begin_attempt(f);
		return;
	}
	if (login_token_address(f->login, &f->challenge, &f->at, &header, &e) < 0) {
		fetch_end(f, &e);
		return;
	}
	f->state = FETCH_TOKEN;
	fetch_send_request(f, header, NULL);
	if (header)
		explicit_bzero(header, strlen(header));
	free(header);
}

/* The attempt begins again with the new header. */
static void fetch_take_token(struct fetch *f)
{
	struct err e;
	int (*take)(struct login * l, const char *text, size_t len, struct err *e) =
		f->login->aws ? ecr_login_take : login_token;
	int taken = take(f->login, buf_text(&f->text), f->text.len, &e);

	buf_release(&f->text); /* wiped */
	if (taken < 0)
		fetch_end(f, &e);
	else
		fetch_begin_attempt(f);
}

/* The whole body has come. Size and digest decide if it is the object. */
static void fetch_check_object(struct fetch *f)
{
	uint8_t got[SHA256_SIZE];
	struct err e = { 0 };

	sha256_end(&f->hash, got);
	if (f->size != UINT64_MAX && f->done != f->size)
		(void)err_set(&e, ERR_INVALID, "the registry sent %llu bytes, announced were %llu",
			      (unsigned long long)f->done, (unsigned long long)f->size);
	else if (f->has_digest && memcmp(got, f->digest.sha256, sizeof(got)) != 0)
		(void)err_set(&e, ERR_INVALID, "the registry sent bytes with another digest");
	fetch_end(f, e.code == ERR_NONE ? NULL : &e);
}

/* This attempt has failed in a way that may pass. */
static void fetch_try_again(struct fetch *f)
{
	uint64_t ms = f->wait_ms;

	if (f->fd >= 0 && f->done - f->attempt_from >= PROGRESS_BYTES)
		f->attempts = 0;
	if (++f->attempts >= FETCH_ATTEMPTS_MAX) {
		fetch_end(f, &f->failed);
		return;
	}
	if (ms == 0)
		ms = (uint64_t)PAUSE_MS << (f->attempts - 1);
	f->next = FETCH_AGAIN;
	loop_timer_set(f->means->loop, &f->wait, loop_now_ns(f->means->loop) + ms * CLOCK_MS);
}

/* Time to begin again, or the object is faulty, as on_data() found. */
static void on_wait(struct loop_timer *t)
{
	struct fetch *f = t->arg;

	if (f->next == FETCH_AGAIN) {
		fetch_begin_attempt(f);
		return;
	}
	get_cancel(&f->get);
	fetch_end(f, &f->failed);
}

/* End with the registry's own word, if its body had one. */
static void fetch_take_failure(struct fetch *f)
{
	if (f->text.len > 0)
		registry_json_error(buf_text(&f->text), f->text.len, f->code);
	if (f->code[0] != '\0')
		(void)err_wrap(&f->failed, "%s", f->code);
	else /* cordond knows by a word that the registry itself said no */
		str_copy(f->code, f->failed.code == ERR_DENIED	    ? "DENIED"
				  : f->failed.code == ERR_NOT_FOUND ? "NOT_FOUND"
								    : "");
	fetch_end(f, &f->failed);
}

/* A request that could not be completed: a token server's failure counts as the attempt's. */
static void fetch_request_failed(struct fetch *f, const struct err *e)
{
	f->failed = *e;
	f->wait_ms = 0;
	log_warn("request to a registry failed", "host=%s error=%s", f->at.host, e->msg);
	if (e->code == ERR_SYSTEM)
		fetch_try_again(f);
	else
		fetch_end(f, &f->failed);
}

/* A request has ended. Faults found in the body come first, then failures of the connection, then
 * the step that the head has chosen. */
static void on_get_end(struct get *g, const struct err *e)
{
	struct fetch *f = g->arg;

	loop_timer_cancel(f->means->loop, &f->wait);
	if (f->next == FETCH_DONE && f->failed.code != ERR_NONE)
		fetch_end(f, &f->failed);
	else if (e && f->next != FETCH_AGAIN &&
		 (f->next != FETCH_FAIL || f->failed.code == ERR_NONE))
		fetch_request_failed(f, e);
	else if (f->next == FETCH_LOGIN)
		fetch_answer_challenge(f);
	else if (f->next == FETCH_FOLLOW)
		fetch_send_object(f);
	else if (f->next == FETCH_AGAIN)
		fetch_try_again(f);
	else if (f->next == FETCH_FAIL)
		fetch_take_failure(f);
	else if (f->state == FETCH_TOKEN)
		fetch_take_token(f);
	else
		fetch_check_object(f);
}

static void fetch_begin_attempt(struct fetch *f)
{
	f->at = f->url;
	f->redirects = 0;
	if (f->fd < 0) { /* in memory: from the beginning, it may be another one by now */
		f->done = 0;
		buf_clear(&f->body);
		sha256_init(&f->hash);
	}
	f->attempt_from = f->done;
	fetch_send_object(f);
}

void fetch_start(struct fetch *f)
{
	f->get.on_head = fetch_on_head;
	f->get.on_data = on_data;
	f->get.on_end = on_get_end;
	f->get.arg = f;
	f->end.on_done = on_completed;
	f->end.arg = f;
	f->wait = (struct loop_timer){ .on_expire = on_wait, .arg = f };
	f->sink = (struct loop_fd){ .fd = -1, .on_ready = on_sink, .arg = f };
	buf_init(&f->text, REGISTRY_JSON_MAX);
	f->text.secret = true;
	if (f->fd < 0)
		buf_init(&f->body, (size_t)f->max);
	sha256_init(&f->hash);
	completion_begin(&f->end, f->means->loop, NULL);
	fetch_begin_attempt(f);
}
