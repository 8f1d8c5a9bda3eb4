/* fetch.c - theory of operation
 *
 * An attempt is a chain of requests: the object; the token server if it answers 401; the object
 * again; other addresses if it redirects. The head of each answer decides what is next
 * (fetch_head.c); it is done when that request has ended. An attempt that fails in a way that may
 * pass begins again at the object's own address, after a pause; if bytes of a blob have been passed
 * on, it asks for the rest only. The hash runs over the bytes that were passed on, in any number of
 * attempts.
 */
#include "fetch_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "clock.h"
#include "ecr_login.h"
#include "fd.h"
#include "log.h"

#define PAUSE_MS 250		   /* doubled with each attempt */
#define PROGRESS_BYTES (64U << 10) /* an attempt that brought so many does not count */

static void begin_attempt(struct fetch *f);

/* ---- the end */

/* May free f: the last thing that is done with it. */
static void end(struct fetch *f, const struct err *e)
{
	loop_timer_cancel(f->means->loop, &f->wait);
	loop_remove(f->means->loop, &f->sink);
	if (f->fd >= 0) /* the reader sees the end of the blob */
		fd_close(f->fd);
	f->fd = -1;
	completion_end(&f->end, e);
}

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

static void on_sink(struct loop_fd *s, uint32_t events)
{
	struct fetch *f = s->arg;

	(void)events;
	loop_remove(f->means->loop, s);
	get_resume(&f->get);
}

/* What the descriptor takes; if that is not all, on_sink() follows. SIZE_MAX: nothing any more. */
static size_t write_out(struct fetch *f, const uint8_t *data, size_t n)
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

static size_t keep(struct fetch *f, const uint8_t *data, size_t n)
{
	if (f->fd >= 0)
		return write_out(f, data, n);
	return buf_add(&f->body, data, n, &f->failed) < 0 ? SIZE_MAX : n;
}

static size_t take_object(struct fetch *f, const uint8_t *data, size_t n)
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
	taken = keep(f, data + skipped, n - skipped);
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
	taken = take_object(f, data, n);
	if (taken != SIZE_MAX)
		return taken;
	loop_timer_set(f->means->loop, &f->wait, loop_now_ns(f->means->loop));
	return n;
}

/* ---- what is next */

static void send_request(struct fetch *f, const char *authorization, const struct get_post *post)
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
		end(f, &e);
}

static void send_object(struct fetch *f)
{
	f->state = FETCH_OBJECT;
	send_request(f, login_header(f->login, &f->at), NULL);
}

/* The API of AWS is asked for the password. */
static void ask_aws(struct fetch *f)
{
	struct ecr_login ask;
	struct err e;

	if (ecr_login_ask(f->login, &ask, &e) < 0) {
		end(f, &e);
		return;
	}
	f->at = ask.to;
	f->state = FETCH_TOKEN;
	send_request(f, ask.authorization, &ask.post);
}

static void answer_challenge(struct fetch *f)
{
	char *header = NULL;
	struct err e;

	f->logged_in = true;
	if (f->login->aws) {
		ask_aws(f);
		return;
	}
	if (f->challenge.kind == CHALLENGE_BASIC) {
		if (login_basic(f->login, &e) < 0) {
			(void)snprintf(f->code, sizeof(f->code), "DENIED");
			end(f, &e);
		} else
			begin_attempt(f);
		return;
	}
	if (login_token_address(f->login, &f->challenge, &f->at, &header, &e) < 0) {
		end(f, &e);
		return;
	}
	f->state = FETCH_TOKEN;
	send_request(f, header, NULL);
	if (header)
		explicit_bzero(header, strlen(header));
	free(header);
}

static void take_token(struct fetch *f)
{
	struct err e;
	int (*take)(struct login * l, const char *text, size_t len, struct err *e) =
		f->login->aws ? ecr_login_take : login_token;
	int taken = take(f->login, buf_text(&f->text), f->text.len, &e);

	buf_release(&f->text); /* wiped */
	if (taken < 0)
		end(f, &e);
	else
		begin_attempt(f);
}

static void check_object(struct fetch *f)
{
	uint8_t got[SHA256_SIZE];
	struct err e = { 0 };

	sha256_end(&f->hash, got);
	if (f->size != UINT64_MAX && f->done != f->size)
		(void)err_set(&e, ERR_INVALID, "the registry sent %llu bytes, announced were %llu",
			      (unsigned long long)f->done, (unsigned long long)f->size);
	else if (f->has_digest && memcmp(got, f->digest.sha256, sizeof(got)) != 0)
		(void)err_set(&e, ERR_INVALID, "the registry sent bytes with another digest");
	end(f, e.code == ERR_NONE ? NULL : &e);
}

/* This attempt has failed in a way that may pass. */
static void try_again(struct fetch *f)
{
	uint64_t ms = f->wait_ms;

	if (f->fd >= 0 && f->done - f->attempt_from >= PROGRESS_BYTES)
		f->attempts = 0;
	if (++f->attempts >= FETCH_ATTEMPTS_MAX) {
		end(f, &f->failed);
		return;
	}
	if (ms == 0)
		ms = (uint64_t)PAUSE_MS << (f->attempts - 1);
	f->next = FETCH_AGAIN;
	loop_timer_set(f->means->loop, &f->wait, loop_now_ns(f->means->loop) + ms * CLOCK_MS);
}

/* Time to begin again; or the object is faulty, as on_data() found. */
static void on_wait(struct loop_timer *t)
{
	struct fetch *f = t->arg;

	if (f->next == FETCH_AGAIN) {
		begin_attempt(f);
		return;
	}
	get_cancel(&f->get);
	end(f, &f->failed);
}

static void take_failure(struct fetch *f)
{
	if (f->text.len > 0)
		registry_json_error(buf_text(&f->text), f->text.len, f->code);
	if (f->code[0] != '\0')
		(void)err_wrap(&f->failed, "%s", f->code);
	else /* cordond knows by a word that the registry itself said no */
		(void)snprintf(f->code, sizeof(f->code), "%s",
			       f->failed.code == ERR_DENIED	 ? "DENIED"
			       : f->failed.code == ERR_NOT_FOUND ? "NOT_FOUND"
								 : "");
	end(f, &f->failed);
}

/* A request that could not be completed: a token server's failure counts as the attempt's. */
static void request_failed(struct fetch *f, const struct err *e)
{
	f->failed = *e;
	f->wait_ms = 0;
	log_warn("request to a registry failed", "host=%s error=%s", f->at.host, e->msg);
	if (e->code == ERR_SYSTEM)
		try_again(f);
	else
		end(f, &f->failed);
}

static void on_get_end(struct get *g, const struct err *e)
{
	struct fetch *f = g->arg;

	loop_timer_cancel(f->means->loop, &f->wait);
	if (f->next == FETCH_DONE && f->failed.code != ERR_NONE)
		end(f, &f->failed);
	else if (e && f->next != FETCH_AGAIN &&
		 (f->next != FETCH_FAIL || f->failed.code == ERR_NONE))
		request_failed(f, e);
	else if (f->next == FETCH_LOGIN)
		answer_challenge(f);
	else if (f->next == FETCH_FOLLOW)
		send_object(f);
	else if (f->next == FETCH_AGAIN)
		try_again(f);
	else if (f->next == FETCH_FAIL)
		take_failure(f);
	else if (f->state == FETCH_TOKEN)
		take_token(f);
	else
		check_object(f);
}

static void begin_attempt(struct fetch *f)
{
	f->at = f->url;
	f->redirects = 0;
	if (f->fd < 0) { /* in memory: from the beginning, it may be another one by now */
		f->done = 0;
		buf_clear(&f->body);
		sha256_init(&f->hash);
	}
	f->attempt_from = f->done;
	send_object(f);
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
	begin_attempt(f);
}
