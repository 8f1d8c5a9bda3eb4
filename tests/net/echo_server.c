/* echo_server.c - a small program on lib/net/server.h for the tests: one route for each way to
 *answer.
 *
 *	echo_server ADDRESS [NAME=VALUE]...
 *
 * Names: those of set_option(), cert, key. Requests with a header X-Key have shown a key; those
 *with X-Other one of another account. Prints the address it listens on. GET /quit ends it; it then
 *frees everything, so that leaks show. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "lib/base/addr.h"
#include "lib/base/clock.h"
#include "lib/loop/jobs.h"
#include "lib/loop/loop.h"
#include "lib/net/server.h"
#include "lib/base/byte_account.h"
#include "lib/net/tls.h"
#include "lib/base/units.h"
#include "lib/http/url.h"

#define BODY_MAX ((size_t)1024 * 1024)
#define PIECE ((size_t)64 * 1024)

static struct loop *the_loop;
static struct server *the_server;
static uint64_t calls, answered, gone, logged, dropped;
static struct job_queue queues[2];
static struct byte_account keyed = { .work = &queues[0] }; /* of requests with a header X-Key */
static struct byte_account other = { .work = &queues[1] }; /* and X-Other */
static struct byte_account all_accounts;
static unsigned long long ordinal;
static uint8_t pattern[PIECE];

/* One for each exchange: freed in on_done, so that a second on_done, or none, is found. */
struct call {
	struct exchange *x;
	uint64_t left;	/* bytes still to send */
	uint64_t count; /* bytes received */
	uint64_t takes; /* bytes to take before pausing */
	struct loop_timer timer;
};

static struct call *call_of(struct exchange *x)
{
	return exchange_arg(x);
}

static void done(struct exchange *x, bool was_answered)
{
	struct call *call = call_of(x);

	answered += was_answered;
	gone += !was_answered;
	loop_timer_cancel(the_loop, &call->timer);
	free(call);
	exchange_set_arg(x, NULL);
}

static void on_answered(const struct exchange *x, int status, uint64_t bytes, uint64_t ns,
			void *arg)
{
	logged++;
	dropped += status == 0;
}

static uint64_t parameter(struct exchange *x, const char *name, uint64_t otherwise)
{
	char text[32];
	uint64_t value;
	struct err e;

	if (url_query_get(exchange_request(x)->query, name, text, sizeof(text)) <= 0 ||
	    units_count(text, 0, UINT64_MAX / 2, &value, &e) < 0)
		return otherwise;
	return value;
}

static void reply_text(struct exchange *x, int status, const char *text)
{
	exchange_reply(x, status, "text/plain", text, strlen(text));
}

/* ---- bodies */

static void echo(struct exchange *x, const uint8_t *body, size_t len)
{
	exchange_reply(x, 200, "application/octet-stream", body, len);
}

static size_t count_data(struct exchange *x, const uint8_t *data, size_t len)
{
	struct call *call = call_of(x);

	for (size_t i = 0; i < len; i++)
		assert(data[i] == (uint8_t)((call->count + i) % 251));
	call->count += len;
	return len;
}

static void counted(struct exchange *x, bool ok)
{
	char text[64];

	if (!ok)
		return; /* the server answers, or the client is gone */
	(void)snprintf(text, sizeof(text), "%llu\n", (unsigned long long)call_of(x)->count);
	reply_text(x, 200, text);
}

static void resume(struct loop_timer *t)
{
	struct call *call = t->arg;

	call->takes = 10000;
	exchange_resume_body(call->x);
}

static size_t count_slowly(struct exchange *x, const uint8_t *data, size_t len)
{
	struct call *call = call_of(x);
	size_t n = len < call->takes ? len : (size_t)call->takes;

	(void)count_data(x, data, n);
	call->takes -= n;
	if (n < len)
		loop_timer_set(the_loop, &call->timer, loop_now_ns(the_loop) + CLOCK_MS);
	return n;
}

static void answer_early(struct exchange *x, bool ok)
{
	reply_text(x, ok ? 200 : 422, ok ? "fine\n" : "my own words\n");
}

/* Answers while the body is still coming; answer_early() must not be called any more. */
static size_t answer_at_first_byte(struct exchange *x, const uint8_t *data, size_t len)
{
	reply_text(x, 200, "early\n");
	return len / 2;
}

/* ---- streams */

static void stream_more(struct exchange *x)
{
	struct call *call = call_of(x);

	while (call->left > 0) {
		size_t n = call->left < PIECE ? (size_t)call->left : PIECE;
		size_t taken = exchange_write(x, pattern, n);

		call->left -= taken;
		if (taken < n)
			return;
	}
	exchange_end(x);
}

static void stream(struct exchange *x, bool chunked)
{
	struct call *call = call_of(x);

	call->left = parameter(x, "bytes", 1000);
	exchange_on_writable(x, stream_more);
	exchange_begin(x, 200, "application/octet-stream", chunked ? EXCHANGE_CHUNKED : call->left);
	stream_more(x);
}

static void big(struct exchange *x)
{
	size_t n = (size_t)parameter(x, "bytes", 1000);
	OWN_MEM uint8_t *body = malloc(n + 1);

	assert(body);
	for (size_t i = 0; i < n; i++)
		body[i] = (uint8_t)(i % 251);
	exchange_reply(x, 200, "application/octet-stream", body, n);
}

static void tick(struct loop_timer *t)
{
	struct call *call = t->arg;

	if (call->left == 0) {
		exchange_end(call->x);
		return;
	}
	call->left--;
	(void)exchange_write(call->x, "data: tick\n\n", 12);
	loop_timer_set(the_loop, t, loop_now_ns(the_loop) + 10 * CLOCK_MS);
}

static void ticks(struct exchange *x)
{
	struct call *call = call_of(x);

	call->left = parameter(x, "n", 3);
	call->timer.on_expire = tick;
	exchange_begin(x, 200, "text/event-stream", EXCHANGE_CHUNKED);
	tick(&call->timer);
}

static void answer_later(struct loop_timer *t)
{
	struct call *call = t->arg;

	reply_text(call->x, 200, "late\n");
}

/* ---- WebSocket */

static void flood(struct exchange *x)
{
	struct call *call = call_of(x);

	while (call->left > 0 && ws_send(x, false, pattern, 1000))
		call->left--;
}

static void unpause(struct loop_timer *t)
{
	struct call *call = t->arg;

	ws_pause(call->x, false);
}

static void on_message(struct exchange *x, bool text, const uint8_t *data, size_t len)
{
	struct call *call = call_of(x);

	if (len == 5 && memcmp(data, "close", 5) == 0) {
		ws_close(x, 4001, "as you wish");
	} else if (len == 5 && memcmp(data, "flood", 5) == 0) {
		call->left = 2000;
		exchange_on_writable(x, flood);
		flood(x);
	} else if (len == 5 && memcmp(data, "pause", 5) == 0) {
		call->timer.on_expire = unpause;
		ws_pause(x, true);
		loop_timer_set(the_loop, &call->timer, loop_now_ns(the_loop) + 200 * CLOCK_MS);
	} else {
		(void)ws_send(x, text, data, len);
	}
}

static void websocket(struct exchange *x)
{
	static const struct ws_events events = { .on_message = on_message };

	if (!exchange_wants_ws(x))
		reply_text(x, 426, "a WebSocket is spoken here\n");
	else
		exchange_accept_ws(x, &events, (size_t)parameter(x, "max", 100000));
}

/* ---- tunnels */

/* Back comes what goes in; what finds no room is not taken. */
static size_t tunnel_data(struct exchange *x, const uint8_t *data, size_t len)
{
	return exchange_write(x, data, len);
}

static void tunnel_end(struct exchange *x, bool ok)
{
	if (!ok)
		return;
	(void)exchange_write(x, "bye", 3);
	exchange_end(x);
}

static void tunnel_shut_after(struct exchange *x, bool ok)
{
	if (ok)
		exchange_end(x);
}

static size_t tunnel_count(struct exchange *x, const uint8_t *data, size_t len)
{
	call_of(x)->count += len;
	if (call_of(x)->count >= 1000)
		exchange_abort(x);
	return len;
}

/* ?shut: our side is closed at once, and 1000 bytes are one too many. */
static void tunnel(struct exchange *x)
{
	exchange_header(x, "Upgrade", "echo");
	if (parameter(x, "shut", 0) == 0) {
		exchange_on_writable(x, exchange_resume_body);
		exchange_upgrade(x, tunnel_data, tunnel_end);
		(void)exchange_write(x, "hi", 2);
		return;
	}
	exchange_upgrade(x, tunnel_count, tunnel_shut_after);
	(void)exchange_write(x, "only this", 9);
	exchange_shut(x);
}

/* ---- routes */

static void stats(struct exchange *x)
{
	unsigned long pages = 0;
	char text[256];
	FILE *f = fopen("/proc/self/statm", "re");

	assert(f && fscanf(f, "%*u %lu", &pages) == 1);
	(void)fclose(f);
	(void)snprintf(text, sizeof(text),
		       "{\"connections\":%zu,\"calls\":%llu,\"answered\":%llu,\"gone\":%llu,"
		       "\"logged\":%llu,\"dropped\":%llu,\"bodies\":%zu,\"rss\":%lu}\n",
		       server_connections(the_server), (unsigned long long)calls,
		       (unsigned long long)answered, (unsigned long long)gone,
		       (unsigned long long)logged, (unsigned long long)dropped, all_accounts.bodies,
		       pages * 4096);
	exchange_reply(x, 200, "application/json", text, strlen(text));
}

static void headers(struct exchange *x)
{
	exchange_header(x, "X-Extra", "one");
	exchange_header(x, "X-Peer", exchange_peer(x));
	exchange_header(x, "X-Id", exchange_id(x));
	reply_text(x, 200, "headers\n");
}

/* Works for a while, and answers how many were worked on before. */
static void work(struct exchange *x, const uint8_t *body, size_t len)
{
	uint64_t until = clock_now_ns() + 50 * CLOCK_MS;
	char text[24];

	while (clock_now_ns() < until)
		;
	(void)snprintf(text, sizeof(text), "%llu", ++ordinal);
	reply_text(x, 200, text);
}

/* What a handler must not do. */
static void misuse(struct exchange *x)
{
	uint64_t how = parameter(x, "how", 0);

	if (how == 0)
		exchange_end(x);
	if (how == 1)
		(void)exchange_write(x, "early", 5);
	if (how == 2)
		exchange_header(x, "X-Bad", "a\r\nb");
	if (how < 6) {
		reply_text(x, 200, "whole\n");
	} else {
		exchange_begin(x, 200, "text/event-stream", how == 10 ? 3 : EXCHANGE_CHUNKED);
		(void)exchange_write(x, "abc", 3);
	}
	if (how == 3 || how == 6)
		exchange_header(x, "Retry-After", "1");
	if (how == 4 || how == 7)
		reply_text(x, 503, "second\n");
	if (how == 5 || how == 8)
		exchange_begin(x, 200, NULL, 4);
	if (how == 9)
		exchange_accept_ws(x, &(struct ws_events){ 0 }, 100);
	if (how == 10)
		(void)exchange_write(x, "def", 3);
}

static void route(struct exchange *x, struct call *call)
{
	struct http1_span path = exchange_request(x)->path;

	if (http1_span_is(path, "/hello")) {
		reply_text(x, 200, "hello\n");
	} else if (http1_span_is(path, "/echo")) {
		exchange_read_all(x, BODY_MAX, echo);
	} else if (http1_span_is(path, "/work")) {
		exchange_read_all(x, BODY_MAX, work);
	} else if (http1_span_is(path, "/retry")) {
		exchange_header(x, "Retry-After", "7");
		exchange_header(x, "Retry-After", "8");
		reply_text(x, 503, "later\n");
	} else if (http1_span_is(path, "/count")) {
		exchange_read_body(x, UINT64_MAX, count_data, counted);
	} else if (http1_span_is(path, "/count-slowly")) {
		call->takes = 10000;
		call->timer.on_expire = resume;
		exchange_read_body(x, BODY_MAX, count_slowly, counted);
	} else if (http1_span_is(path, "/own-words")) {
		exchange_read_body(x, 1000, count_data, answer_early);
	} else if (http1_span_is(path, "/early")) {
		exchange_read_body(x, UINT64_MAX, answer_at_first_byte, answer_early);
	} else if (http1_span_is(path, "/unread")) {
		reply_text(x, 403, "no\n");
	} else if (http1_span_is(path, "/stream")) {
		stream(x, true);
	} else if (http1_span_is(path, "/length")) {
		stream(x, false);
	} else if (http1_span_is(path, "/big")) {
		big(x);
	} else if (http1_span_is(path, "/ticks")) {
		ticks(x);
	} else if (http1_span_is(path, "/slow")) {
		call->timer.on_expire = answer_later;
		loop_timer_set(the_loop, &call->timer,
			       loop_now_ns(the_loop) + parameter(x, "ms", 100) * CLOCK_MS);
	} else if (http1_span_is(path, "/never")) {
		/* on_done shows whether the server notices that the client is gone */
	} else if (http1_span_is(path, "/short")) {
		exchange_begin(x, 200, NULL, 100);
		(void)exchange_write(x, pattern, 50);
		exchange_end(x);
	} else if (http1_span_is(path, "/abort")) {
		exchange_begin(x, 200, NULL, EXCHANGE_CHUNKED);
		(void)exchange_write(x, pattern, 50);
		exchange_abort(x);
	} else if (http1_span_is(path, "/misuse")) {
		misuse(x);
	} else if (http1_span_is(path, "/nothing")) {
		exchange_reply(x, 204, NULL, NULL, 0);
	} else if (http1_span_is(path, "/headers")) {
		headers(x);
	} else if (http1_span_is(path, "/ws")) {
		websocket(x);
	} else if (http1_span_is(path, "/tunnel")) {
		tunnel(x);
	} else if (http1_span_is(path, "/stats")) {
		stats(x);
	} else if (http1_span_is(path, "/drain")) {
		server_drain(the_server);
		reply_text(x, 200, "draining\n");
	} else if (http1_span_is(path, "/quit")) {
		reply_text(x, 200, "bye\n");
		loop_stop(the_loop);
	} else {
		reply_text(x, 404, "nothing here\n");
	}
}

static void on_request(struct exchange *x, void *arg)
{
	struct call *call = calloc(1, sizeof(*call));

	assert(call);
	calls++;
	call->x = x;
	call->timer.arg = call;
	exchange_set_arg(x, call);
	exchange_on_done(x, done);
	if (http1_find(exchange_request(x)->headers, exchange_request(x)->headers_n, "x-key",
		       NULL) > 0)
		exchange_set_account(x, &keyed, true);
	else if (http1_find(exchange_request(x)->headers, exchange_request(x)->headers_n, "x-other",
			    NULL) > 0)
		exchange_set_account(x, &other, true);
	route(x, call);
}

/* ---- start */

static int set_option(struct server_options *o, const char **cert, const char **key, char *text,
		      struct err *e)
{
	static const char *const names[] = {
		"head_max",	  "connections_max", "unkeyed_max", "unkeyed_per_address",
		"bodies_one_max", "bodies_all_max",  "head_ms",	    "idle_ms",
		"body_ms",	  "write_ms",	     "answer_ms"
	};
	uint64_t *const to[] = { (uint64_t *)&o->head_max,
				 (uint64_t *)&o->connections_max,
				 (uint64_t *)&o->unkeyed_max,
				 (uint64_t *)&o->unkeyed_per_address,
				 (uint64_t *)&o->bodies_one_max,
				 (uint64_t *)&o->bodies_all_max,
				 &o->head_ms,
				 &o->idle_ms,
				 &o->body_ms,
				 &o->write_ms,
				 &o->answer_ms };
	char *value = strchr(text, '=');

	if (!value)
		return err_set(e, ERR_INVALID, "'%s' is not NAME=VALUE", text);
	*value++ = '\0';
	if (strcmp(text, "cert") == 0)
		*cert = value;
	else if (strcmp(text, "key") == 0)
		*key = value;
	for (size_t i = 0; i < COUNT(names); i++) {
		if (strcmp(text, names[i]) == 0)
			return units_count(value, 1, UINT32_MAX, to[i], e);
	}
	return 0;
}

static int serve(int argc, char **argv, struct err *e)
{
	struct server_options o = { .head_max = 16384,
				    .connections_max = 10000,
				    .head_ms = 10000,
				    .idle_ms = 60000,
				    .body_ms = 10000,
				    .write_ms = 10000,
				    .all = &all_accounts,
				    .on_request = on_request,
				    .on_answered = on_answered };
	const char *cert = NULL, *key = NULL;
	char text[ADDR_TEXT_MAX];
	struct addr address;
	int fd;

	if (argc < 2 || addr_parse(argv[1], &address, e) < 0)
		return -1;
	for (int i = 2; i < argc; i++) {
		if (set_option(&o, &cert, &key, argv[i], e) < 0)
			return -1;
	}
	if (cert) {
		o.tls = tls_server_new(cert, key, e);
		if (!o.tls)
			return -1;
	}
	the_loop = loop_new(e);
	the_server = the_loop ? server_new(the_loop, &o, e) : NULL;
	fd = addr_listen(&address, 0600, e);
	if (!the_server || fd < 0 || addr_of_socket(fd, &address, e) < 0 ||
	    server_listen(the_server, fd, e) < 0)
		return -1;
	addr_format(&address, text, sizeof(text));
	(void)printf("%s\n", text);
	(void)fflush(stdout);
	if (loop_run(the_loop, e) < 0)
		return -1;
	server_free(the_server);
	loop_free(the_loop);
	tls_free(o.tls);
	assert(calls == answered + gone);
	return 0;
}

int main(int argc, char **argv)
{
	struct err e = { 0 };

	for (size_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = (uint8_t)(i % 251);
	if (serve(argc, argv, &e) < 0) {
		(void)fprintf(stderr, "echo_server: %s\n", e.msg);
		return 1;
	}
	return 0;
}
