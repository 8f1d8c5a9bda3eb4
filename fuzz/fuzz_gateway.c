/* The gateway between a program and servers that both send any bytes: what the program sends is
 * before the first "\0\0" of the input, what servers answer behind it. Whatever that is, a server
 * gets well-formed requests only, each for the host the connection was made to, and the program's
 * first answer is well-formed. Everything outside of the gateway is made up, here and in
 * fuzz_gateway_fakes.c. */
#include "fuzz.h"

#include <errno.h>
#include <sys/socket.h>

#include "lib/http/chunk.h"
#include "lib/packages/digest.h"
#include "egress/gateway/gateway.h"
#include "egress/gateway/gateway_base.h"
#include "egress/gateway/gateway_end.h"
#include "egress/gateway/gateway_file.h"
#include "egress/gateway/gateway_tap.h"
#include "egress/dns/synthetic_names.h"
#include "lib/base/rand.h"
#include "egress/control/access_record.h"

#define TURNS 60
#define SERVERS 64

unsigned long fuzz_accepted;

static struct egress egress;
static struct egress_session session;
static struct flow *flow;
static const uint8_t *answers;
static size_t answers_n;
static int servers[SERVERS];
static size_t nservers;
static struct outbound *dialing;
static struct loop_task turn;
static int turns;

/* ---- what is made up */

void flow_end(struct flow *f, bool reset)
{
	f->stage->on_end(f, reset);
	flow = NULL;
}

void flow_record(struct flow *f, bool allowed, const char *reason)
{
	assert(reason != NULL);
}

/* ---- a package gate: it does with a request what the path says, as the real one could */

static unsigned taps, released;

static ssize_t produce(void *arg, uint8_t *ret, size_t cap)
{
	size_t *left = arg, n = *left < cap ? *left : cap;

	memset(ret, 'x', n);
	*left -= n;
	return (ssize_t)n;
}

static void on_release(void *arg)
{
	assert(released > 0);
	released--;
}

static void on_tap_end(struct gateway *x, const struct gateway_tap_end *end, void *arg)
{
	assert(x != NULL && arg == &taps && taps > 0 && !end->stored);
	taps--;
}

static bool refuse_package(struct gateway *x, const char *reason)
{
	assert(reason != NULL);
	return false;
}

static bool package_stays(struct gateway *x)
{
	return true;
}

static bool begin_package(struct gateway *x)
{
	static const struct digest wrong = { .alg = DIGEST_SHA256 };
	static size_t left;
	struct gateway_tap_want want = { .expected = &wrong, .on_end = on_tap_end, .arg = &taps };
	struct gateway_content made = {
		.fd = -1, .produce = produce, .release = on_release, .arg = &left
	};
	struct err e;

	if (strstr(x->path, "package-no") != NULL) {
		gateway_deny(x, 403, "refused");
		return true;
	}
	if (strstr(x->path, "package-made") != NULL && x->out.done) {
		left = 70000;
		released++;
		gateway_file_serve(x, &made);
		return true;
	}
	if (strstr(x->path, "package-tap") != NULL) {
		want.nexpected = strstr(x->path, "wrong") != NULL;
		taps++;
		assert(gateway_tap_set(x, &want, &e) == 0);
	}
	return false;
}

void access_record_send(struct egress_session *s, const struct access_record *r)
{
	assert(s == &session && r->kind == ACCESS_RECORD_REQUEST);
}

void outbound_start(const struct outbound_from *from, const struct policy_target *to,
		    struct outbound *o)
{
	assert(from->policy == &session.policy && strcmp(to->host, "web.example") == 0 &&
	       to->port == 80);
	dialing = o;
}

void outbound_cancel(struct outbound *o)
{
	if (dialing == o)
		dialing = NULL;
}

/* ---- the loop */

static void make_pair(int ret[2])
{
	assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ret) == 0);
}

static void connect_server(void)
{
	struct outbound *o = dialing;
	struct err e = { .code = ERR_SYSTEM, .sys = ETIMEDOUT, .msg = "no server answers" };
	struct ip at = { { 0 } };
	int pair[2];

	dialing = NULL;
	if (nservers == SERVERS) {
		o->on_done(o, -1, NULL, &e);
		return;
	}
	make_pair(pair);
	assert(send(pair[1], answers, answers_n, MSG_NOSIGNAL) == (ssize_t)answers_n);
	(void)shutdown(pair[1], SHUT_WR);
	servers[nservers++] = pair[1];
	o->on_done(o, pair[0], &at, NULL);
}

static void on_turn(struct loop_task *t)
{
	if (dialing != NULL)
		connect_server();
	if (--turns > 0)
		loop_defer(egress.loop, t);
	else
		loop_stop(egress.loop);
}

/* ---- what must hold */

static size_t receive(int fd, char *ret, size_t cap)
{
	size_t n = 0;
	ssize_t got;

	while (n < cap && (got = recv(fd, ret + n, cap - n, 0)) > 0)
		n += (size_t)got;
	return n;
}

/* How long the body is that begins here; SIZE_MAX: it is not complete. */
static size_t body_length(const struct http1_request *r, const char *bytes, size_t n)
{
	struct http1_span data;
	struct chunk c;
	size_t at = 0, used;

	if (r->framing == HTTP1_LENGTH)
		return r->content_length <= n ? (size_t)r->content_length : SIZE_MAX;
	if (r->framing != HTTP1_CHUNKED)
		return 0;
	chunk_init(&c, UINT64_MAX);
	for (;;) {
		switch (chunk_read(&c, bytes + at, n - at, &used, &data)) {
		case CHUNK_DATA:
			chunk_took(&c, data.n);
			at += used + data.n;
			break;
		case CHUNK_END:
			return at + used;
		case CHUNK_MORE:
			return SIZE_MAX;
		case CHUNK_BAD:
		case CHUNK_TOO_LONG:
			assert(false && "a server got chunks that are none");
		}
	}
}

/* A program's frames behind a request to become a WebSocket; else the next request is there. */
static bool is_frames(const char *bytes, size_t n)
{
	char *copy = fuzz_copy((const uint8_t *)bytes, n);
	struct ws_walk w;
	bool frames;

	ws_walk_init(&w, true, rand_bytes);
	frames = ws_walk(&w, (uint8_t *)copy, n) == (ssize_t)n;
	free(copy);
	return frames;
}

static void check_server(const char *bytes, size_t n)
{
	struct http1_request r;
	struct http1_fault fault;

	while (n > 0) {
		int head = http1_request_read(bytes, n, &r, &fault);
		size_t body;

		assert(head >= 0);
		if (head == 0)
			return;
		fuzz_accepted++;
		assert(http1_span_is(r.host, "web.example") && r.form != HTTP1_ABSOLUTE);
		assert(r.path.n == 0 || memmem(r.path.p, r.path.n, "refuse", 6) == NULL);
		bytes += head;
		n -= (size_t)head;
		if (r.upgrade_websocket && is_frames(bytes, n))
			return;
		body = body_length(&r, bytes, n);
		if (body == SIZE_MAX)
			return;
		bytes += body;
		n -= body;
	}
}

static void start(int fd)
{
	static struct flow f;
	struct err e;

	memset(&f, 0, sizeof(f));
	f.session = &session;
	session.used = (struct limit_usage_table){ 0 };
	f.fd = fd;
	f.watch.fd = -1;
	f.endpoint = (struct endpoint){ .host = "web.example", .port = 80, .by_name = true };
	f.answer.verdict = POLICY_PERMIT;
	flow = &f;
	assert(gateway_start(&f, NULL, &e) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char got[1 << 20];
	const uint8_t *middle = memmem(data, size, "\0\0", 2);
	size_t asks = middle != NULL ? (size_t)(middle - data) : size, n;
	struct http1_response r;
	struct http1_fault fault;
	struct err e;
	int pair[2];

	if (size > 65536)
		return 0;
	answers = middle != NULL ? middle + 2 : data + size;
	answers_n = size - (size_t)(answers - data);
	egress.loop = loop_new(&e);
	assert(egress.loop != NULL);
	egress.package_begin = begin_package;
	egress.package_refused = refuse_package;
	egress.package_stays = package_stays;
	session.egress = &egress;
	session.names = synthetic_names_new();
	session.idle_conns = idle_conns_new(egress.loop, &session.share);
	assert(session.names != NULL && session.idle_conns != NULL);
	make_pair(pair);
	assert(send(pair[1], data, asks, MSG_NOSIGNAL) == (ssize_t)asks);
	(void)shutdown(pair[1], SHUT_WR);
	start(pair[0]);
	turns = TURNS;
	turn = (struct loop_task){ .on_run = on_turn };
	loop_defer(egress.loop, &turn);
	assert(loop_run(egress.loop, &e) == 0);
	if (flow != NULL)
		flow_end(flow, true);
	n = receive(pair[1], got, sizeof(got));
	if (n > 0)
		assert(http1_response_read(got, n, HTTP1_HEAD, &r, &fault) >= 0);
	(void)close(pair[1]);
	for (size_t i = 0; i < nservers; i++) {
		n = receive(servers[i], got, sizeof(got));
		check_server(got, n);
		(void)close(servers[i]);
	}
	nservers = 0;
	assert(taps == 0 && released == 0); /* each ends once */
	idle_conns_free(session.idle_conns);
	synthetic_names_free(session.names);
	loop_free(egress.loop);
	return 0;
}
