/* fetch_head.c - what the head of an answer means for a fetch: sets `next`, and `failed` where it
 * is an error. See fetch_private.h. */
#include <stdio.h>
#include <string.h>

#include "fetch_private.h"
#include "log.h"

void fetch_too_long(struct fetch *f)
{
	if (f->size != UINT64_MAX)
		(void)err_set(&f->failed, ERR_INVALID,
			      "the registry sent more than the %llu bytes that were announced",
			      (unsigned long long)f->size);
	else
		(void)err_set(&f->failed, ERR_LIMIT, "longer than %llu bytes",
			      (unsigned long long)f->max);
}

static uint64_t retry_after_ms(const struct http1_response *r)
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
static bool begins_at(const struct http1_response *r, uint64_t from)
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

static void judge_object(struct fetch *f, const struct http1_response *r)
{
	uint64_t left = f->size == UINT64_MAX ? UINT64_MAX : f->size - f->done;
	struct http1_span type;

	f->next = FETCH_DONE;
	f->logged_in = false;
	f->skip = r->status == 200 ? f->done : 0;
	if (r->status == 206 && !begins_at(r, f->done)) {
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

static void judge_redirect(struct fetch *f, const struct http1_response *r)
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
static void judge_challenge(struct fetch *f, const struct http1_response *r)
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

static void judge_failure(struct fetch *f, const struct http1_response *r)
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
	f->wait_ms = retry_after_ms(r);
	if (f->wait_ms > FETCH_WAIT_MAX_MS) {
		f->next = FETCH_FAIL;
		(void)err_set(&f->failed, ERR_LIMIT, "the registry asks to wait for %llu s",
			      (unsigned long long)(f->wait_ms / 1000));
	}
}

/* Without the query: it may be signed, and be as good as a credential. */
static void log_answer(const struct fetch *f, int status)
{
	char name[ADDRESS_NAME_MAX], path[256];

	address_name(&f->at, name);
	(void)snprintf(path, sizeof(path), "%.*s", (int)strcspn(f->at.target, "?"), f->at.target);
	log_info("registry answered", "host=%s path=%s status=%d", name, path, status);
}

bool fetch_on_head(struct get *g, const struct http1_response *r)
{
	struct fetch *f = g->arg;

	log_answer(f, r->status);
	buf_clear(&f->text);
	f->wait_ms = 0;
	f->failed = (struct err){ 0 };
	if (r->status == 200 && f->state == FETCH_TOKEN)
		f->next = FETCH_DONE;
	else if (r->status == 200 || (r->status == 206 && f->done > 0))
		judge_object(f, r);
	else if (r->status == 401)
		judge_challenge(f, r);
	else if (r->status >= 301 && r->status <= 308 && r->status != 304)
		judge_redirect(f, r);
	else
		judge_failure(f, r);
	return f->next == FETCH_DONE ? f->failed.code == ERR_NONE
				     : f->next == FETCH_FAIL && f->failed.code != ERR_INVALID;
}
