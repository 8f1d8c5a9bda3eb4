/* forward_server.c - a small program on lib/net/forward.h for the tests: all that comes is
 *forwarded.
 *
 *	forward_server ADDRESS upstream=ADDRESS [NAME=VALUE]...
 *
 * Names: head_max, connections_max, head_ms, idle_ms, body_ms, write_ms of the server; answer_ms,
 * still_ms (idle_ms), host and target of the forward; send_buffer, of its socket; cert, key. Prints
 * the address it listens on. GET /stats and /quit are its own; at its end it frees everything, so
 * that leaks show. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/addr.h"
#include "lib/base/clock.h"
#include "lib/net/forward.h"
#include "lib/loop/loop.h"
#include "lib/net/server.h"
#include "lib/net/tls.h"
#include "lib/base/units.h"

static struct loop *the_loop;
static struct server *the_server;
static struct addr upstream;
static struct forward_options forward_options;
static uint64_t send_buffer; /* of the socket to the upstream; 0: as it is */
static uint64_t calls, answered, gone, failures;

struct call {
	struct forward *forward;
	int fd;
};

static void done(struct exchange *x, bool was_answered)
{
	struct call *call = exchange_arg(x);

	answered += was_answered;
	gone += !was_answered;
	forward_free(call->forward);
	if (call->fd >= 0)
		(void)close(call->fd);
	free(call);
}

static void reply_text(struct exchange *x, int status, const char *text)
{
	exchange_reply(x, status, "text/plain", text, strlen(text));
}

static void on_failure(struct exchange *x, int status, const char *why)
{
	failures++;
	exchange_header(x, "X-Failed", "yes");
	reply_text(x, status, why);
}

static void stats(struct exchange *x)
{
	unsigned long pages = 0;
	char text[256];
	FILE *f = fopen("/proc/self/statm", "re");

	assert(f && fscanf(f, "%*u %lu", &pages) == 1);
	(void)fclose(f);
	(void)snprintf(text, sizeof(text),
		       "{\"connections\":%zu,\"calls\":%llu,\"answered\":%llu,\"gone\":%llu,"
		       "\"failures\":%llu,\"rss\":%lu}\n",
		       server_connections(the_server), (unsigned long long)calls,
		       (unsigned long long)answered, (unsigned long long)gone,
		       (unsigned long long)failures, pages * 4096);
	exchange_reply(x, 200, "application/json", text, strlen(text));
}

static void forward(struct exchange *x, struct call *call)
{
	int bytes = (int)send_buffer;
	struct err e = { 0 };

	call->fd = addr_connect(&upstream, 1000, &e);
	if (call->fd >= 0 && bytes > 0)
		(void)setsockopt(call->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	if (call->fd >= 0)
		call->forward = forward_new(the_loop, x, call->fd, &forward_options, &e);
	if (!call->forward)
		on_failure(x, 502, e.msg);
}

static void on_request(struct exchange *x, void *arg)
{
	struct http1_span path = exchange_request(x)->path;
	struct call *call = calloc(1, sizeof(*call));

	assert(call);
	calls++;
	call->fd = -1;
	exchange_set_arg(x, call);
	exchange_on_done(x, done);
	if (http1_span_is(path, "/stats")) {
		stats(x);
	} else if (http1_span_is(path, "/quit")) {
		reply_text(x, 200, "bye\n");
		loop_stop(the_loop);
	} else {
		forward(x, call);
	}
}

/* ---- start */

struct texts {
	const char *cert, *key;
};

static int set_text(struct texts *t, const char *name, const char *value, struct err *e)
{
	if (strcmp(name, "upstream") == 0)
		return addr_parse(value, &upstream, e);
	if (strcmp(name, "cert") == 0)
		t->cert = value;
	else if (strcmp(name, "key") == 0)
		t->key = value;
	else if (strcmp(name, "host") == 0)
		forward_options.host = value;
	else if (strcmp(name, "target") == 0)
		forward_options.target = value;
	else
		return err_set(e, ERR_INVALID, "'%s': no such option", name);
	return 0;
}

static int set_option(struct server_options *o, struct texts *t, char *text, struct err *e)
{
	const struct {
		const char *name;
		uint64_t *to;
	} numbers[] = {
		{ "head_max", (uint64_t *)&o->head_max },
		{ "connections_max", (uint64_t *)&o->connections_max },
		{ "head_ms", &o->head_ms },
		{ "idle_ms", &o->idle_ms },
		{ "body_ms", &o->body_ms },
		{ "write_ms", &o->write_ms },
		{ "answer_ms", &forward_options.answer_ms },
		{ "still_ms", &forward_options.idle_ms },
		{ "send_buffer", &send_buffer },
	};
	char *value = strchr(text, '=');

	if (!value)
		return err_set(e, ERR_INVALID, "'%s' is not NAME=VALUE", text);
	*value++ = '\0';
	for (size_t i = 0; i < COUNT(numbers); i++) {
		if (strcmp(text, numbers[i].name) == 0)
			return units_count(value, 0, UINT32_MAX, numbers[i].to, e);
	}
	return set_text(t, text, value, e);
}

static int serve(int argc, char **argv, struct err *e)
{
	static const char *const drop[] = { "x-secret", "authorization", NULL };
	struct server_options o = { .head_max = 65536,
				    .connections_max = 10000,
				    .head_ms = 10000,
				    .idle_ms = 60000,
				    .body_ms = 10000,
				    .write_ms = 10000,
				    .on_request = on_request };
	struct texts texts = { 0 };
	char text[ADDR_TEXT_MAX];
	struct addr address;
	int fd;

	forward_options = (struct forward_options){ .drop = drop, .on_failure = on_failure };
	if (argc < 2 || addr_parse(argv[1], &address, e) < 0)
		return -1;
	for (int i = 2; i < argc; i++) {
		if (set_option(&o, &texts, argv[i], e) < 0)
			return -1;
	}
	forward_options.scheme = texts.cert ? "https" : "http";
	if (texts.cert) {
		o.tls = tls_server_new(texts.cert, texts.key, e);
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

	if (serve(argc, argv, &e) < 0) {
		(void)fprintf(stderr, "forward_server: %s\n", e.msg);
		return 1;
	}
	return 0;
}
