/* Goal: every byte arrives, in order, in both directions, also when a reader is slow; ends are
 * passed on one by one, a cut is seen as a cut; and nothing is left behind. */
#include "egress/flow/splice_relay.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include "lib/base/clock.h"
#include "support.h"

/* A pass under test: far ends in the test's hands. */
struct bed {
	struct loop *loop;
	struct splice_relay *pass;
	int cell, server; /* far ends, blocking */
	int inner[2];	  /* what the pass has: cell, server */
	uint64_t out, in; /* as reported by on_moved */
	uint64_t allow;	  /* each way; 0: no limit */
	bool over;
	const char *why;
	struct loop_timer stop;
};

static void tcp_pair(int ret[2])
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	OWN_FD listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t n = sizeof(at);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(bind(listener, (struct sockaddr *)&at, n) == 0 && listen(listener, 1) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&at, &n) == 0);
	ret[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(connect(ret[0], (struct sockaddr *)&at, n) == 0);
	ret[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	CHECK(ret[1] >= 0);
}

static uint64_t bytes_left(void *arg, bool out, const char **ret_why)
{
	struct bed *b = arg;

	*ret_why = "its limit is reached";
	return b->allow == 0 ? UINT64_MAX : b->allow - (out ? b->out : b->in);
}

static void on_moved(void *arg, bool out, uint64_t n)
{
	struct bed *b = arg;

	*(out ? &b->out : &b->in) += n;
	CHECK(n > 0 && (b->allow == 0 || (b->out <= b->allow && b->in <= b->allow)));
}

static void on_end(void *arg, const char *why)
{
	struct bed *b = arg;

	CHECK(!b->over);
	b->over = true;
	b->why = why;
	splice_relay_free(b->pass);
	b->pass = NULL;
	loop_stop(b->loop);
}

static void on_stop(struct loop_timer *t)
{
	struct bed *b = t->arg;

	loop_stop(b->loop);
}

static void open_bed(struct bed *b, const char *first, uint64_t idle_ms)
{
	struct err e = { 0 };
	int pair[2];

	*b = (struct bed){ 0 };
	(void)signal(SIGPIPE, SIG_IGN);
	b->loop = loop_new(&e);
	CHECK(b->loop != NULL);
	tcp_pair(pair);
	b->cell = pair[0];
	b->inner[0] = pair[1];
	tcp_pair(pair);
	b->server = pair[0];
	b->inner[1] = pair[1];
	b->stop = (struct loop_timer){ .on_expire = on_stop, .arg = b };
	b->pass = splice_relay_new(
		b->loop,
		&(struct splice_relay_options){ .cell = b->inner[0],
						.server = b->inner[1],
						.first = first,
						.first_n = first ? strlen(first) : 0,
						.idle_ms = idle_ms,
						.bytes_left = bytes_left,
						.on_moved = on_moved,
						.on_end = on_end,
						.arg = b },
		&e);
	CHECK(b->pass != NULL && !b->over);
}

/* Runs the loop for so long, or until it is over. */
static void run(struct bed *b, uint64_t ms)
{
	struct err e = { 0 };

	if (b->over)
		return;
	loop_timer_set(b->loop, &b->stop, clock_now_ns() + ms * CLOCK_MS);
	CHECK(loop_run(b->loop, &e) == 0);
	loop_timer_cancel(b->loop, &b->stop);
}

static void close_bed(struct bed *b)
{
	splice_relay_free(b->pass);
	loop_free(b->loop);
	if (b->cell >= 0)
		(void)close(b->cell);
	if (b->server >= 0)
		(void)close(b->server);
}

static void expect(int fd, const char *text)
{
	size_t want = strlen(text), have = 0;
	char got[256];

	while (have < want) {
		ssize_t n = recv(fd, got + have, want - have, MSG_DONTWAIT);

		CHECK(n > 0);
		have += (size_t)n;
	}
	CHECK(memcmp(got, text, want) == 0);
}

static void both_ways_and_first_bytes(void)
{
	struct bed b;

	open_bed(&b, "hello ", 60000);
	CHECK(send(b.cell, "server", 6, 0) == 6);
	run(&b, 100);
	expect(b.server, "hello server");
	CHECK(send(b.server, "hello cell", 10, 0) == 10);
	run(&b, 100);
	expect(b.cell, "hello cell");
	CHECK(b.out == 12 && b.in == 10 && !b.over);
	close_bed(&b);
}

static void ends_are_passed_on_one_by_one(void)
{
	struct bed b;
	char byte;

	open_bed(&b, NULL, 60000);
	CHECK(send(b.cell, "request", 7, 0) == 7 && shutdown(b.cell, SHUT_WR) == 0);
	run(&b, 100);
	expect(b.server, "request");
	CHECK(recv(b.server, &byte, 1, MSG_DONTWAIT) == 0);
	CHECK(!b.over);
	CHECK(send(b.server, "answer", 6, 0) == 6);
	run(&b, 100);
	expect(b.cell, "answer");
	CHECK(recv(b.cell, &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN && !b.over);
	CHECK(shutdown(b.server, SHUT_WR) == 0);
	run(&b, 1000);
	CHECK(b.over && b.why == NULL);
	CHECK(recv(b.cell, &byte, 1, 0) == 0);
	close_bed(&b);
}

/* Sends what fits, and returns how much that is. */
static size_t flood(int fd, uint64_t *counter)
{
	uint64_t block[1024];
	size_t total = 0;

	for (;;) {
		uint64_t at = *counter;
		ssize_t n;

		for (size_t i = 0; i < COUNT(block); i++)
			block[i] = at / 8 + i;
		n = send(fd, (char *)block + at % 8, sizeof(block) - at % 8, MSG_DONTWAIT);
		if (n <= 0)
			return total;
		total += (size_t)n;
		*counter += (uint64_t)n;
	}
}

static void check_bytes(const uint8_t *got, size_t n, uint64_t from)
{
	for (size_t i = 0; i < n; i++)
		CHECK(got[i] == (uint8_t)((from + i) / 8 >> (8 * ((from + i) % 8))));
}

static void a_slow_reader_holds_the_writer_up(void)
{
	uint64_t sent = 0, had = 0;
	uint8_t buf[10000];
	struct bed b;
	ssize_t n;

	open_bed(&b, NULL, 60000);
	for (int quiet = 0; quiet < 3;) { /* until nothing more fits anywhere */
		quiet = flood(b.server, &sent) > 0 ? 0 : quiet + 1;
		run(&b, 20);
	}
	CHECK(sent > 100000 && sent < 64U << 20);
	CHECK(send(b.cell, "still here", 10, 0) == 10); /* the other way is not held up */
	run(&b, 50);
	expect(b.server, "still here");
	CHECK(shutdown(b.server, SHUT_WR) == 0 && shutdown(b.cell, SHUT_WR) == 0);
	while (!b.over || had < sent) {
		n = recv(b.cell, buf, sizeof(buf), MSG_DONTWAIT);
		if (n > 0) {
			check_bytes(buf, (size_t)n, had);
			had += (uint64_t)n;
		} else {
			CHECK(n < 0 && errno == EAGAIN);
		}
		run(&b, 1);
	}
	CHECK(b.why == NULL && had == sent && b.in == sent);
	CHECK(recv(b.cell, buf, 1, 0) == 0);
	close_bed(&b);
}

static void it_rests_while_nobody_reads(void)
{
	uint64_t sent = 0;
	struct bed b;
	clock_t before;

	open_bed(&b, NULL, 60000);
	CHECK(shutdown(b.cell, SHUT_WR) == 0);
	for (int quiet = 0; quiet < 3;) {
		quiet = flood(b.server, &sent) > 0 ? 0 : quiet + 1;
		run(&b, 20);
	}
	CHECK(shutdown(b.server, SHUT_WR) == 0); /* with all of it still on its way: a hang-up */
	before = clock();
	run(&b, 500);
	CHECK(!b.over && clock() - before < CLOCKS_PER_SEC / 20);
	close_bed(&b);
}

static void a_limit_cuts(void)
{
	struct bed b;
	char byte;

	open_bed(&b, NULL, 60000);
	b.allow = 9;
	CHECK(send(b.cell, "123456789", 9, 0) == 9);
	run(&b, 50);
	CHECK(!b.over && b.out == 9); /* all it may, and no more was tried */
	expect(b.server, "123456789");
	CHECK(send(b.server, "0", 1, 0) == 1);
	run(&b, 50);
	expect(b.cell, "0");
	CHECK(send(b.cell, "x", 1, 0) == 1);
	run(&b, 1000);
	CHECK(b.over && b.why != NULL && strstr(b.why, "limit") != NULL);
	CHECK(b.out == 9 && recv(b.server, &byte, 1, 0) == -1 && errno == ECONNRESET);
	CHECK(recv(b.cell, &byte, 1, 0) == -1 && errno == ECONNRESET);
	close_bed(&b);
}

static void an_end_at_the_limit_is_an_end(void)
{
	struct bed b;
	char byte;

	open_bed(&b, NULL, 60000);
	b.allow = 9;
	CHECK(send(b.cell, "123456789", 9, 0) == 9 && shutdown(b.cell, SHUT_WR) == 0);
	CHECK(shutdown(b.server, SHUT_WR) == 0);
	run(&b, 1000);
	CHECK(b.over && b.why == NULL);
	expect(b.server, "123456789");
	CHECK(recv(b.server, &byte, 1, 0) == 0);
	close_bed(&b);
}

/* Through pipes, with a reader that is slow: what is on its way counts. */
static void a_limit_holds_in_bulk(void)
{
	static uint8_t buf[65536];
	uint64_t sent = 0;
	size_t got = 0;
	struct bed b;
	ssize_t n;

	open_bed(&b, NULL, 60000);
	b.allow = 777777;
	while (!b.over) {
		(void)flood(b.cell, &sent);
		run(&b, 20);
		n = recv(b.server, buf, sizeof(buf), MSG_DONTWAIT);
		got += n > 0 ? (size_t)n : 0;
	}
	while ((n = recv(b.server, buf, sizeof(buf), 0)) > 0)
		got += (size_t)n;
	CHECK(sent > b.allow && b.out == b.allow && got <= b.allow);
	close_bed(&b);
}

static void silence_ends_it(void)
{
	uint64_t start = clock_now_ns();
	struct bed b;
	char byte;

	open_bed(&b, NULL, 200);
	run(&b, 120);
	CHECK(!b.over && send(b.cell, "x", 1, 0) == 1);
	run(&b, 120);
	CHECK(!b.over); /* it moved in between */
	run(&b, 5000);
	CHECK(b.over && b.why != NULL && clock_now_ns() - start >= 300 * CLOCK_MS);
	CHECK(recv(b.cell, &byte, 1, 0) == -1 && errno == ECONNRESET);
	close_bed(&b);
}

static void reset(int *fd)
{
	const struct linger now = { .l_onoff = 1 };

	CHECK(setsockopt(*fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)) == 0);
	(void)close(*fd);
	*fd = -1;
}

static void a_reset_is_no_end(void)
{
	struct bed b;
	char byte;

	open_bed(&b, NULL, 60000);
	CHECK(send(b.server, "half of", 7, 0) == 7);
	run(&b, 50);
	reset(&b.server);
	run(&b, 1000);
	CHECK(b.over && b.why != NULL && strstr(b.why, "server") != NULL);
	expect(b.cell, "half of");
	CHECK(recv(b.cell, &byte, 1, 0) == -1 && errno == ECONNRESET);
	close_bed(&b);

	open_bed(&b, NULL, 60000);
	reset(&b.cell);
	run(&b, 1000);
	CHECK(b.over && b.why != NULL && strstr(b.why, "program") != NULL);
	CHECK(recv(b.server, &byte, 1, 0) == -1 && errno == ECONNRESET);
	close_bed(&b);
}

#define MUCH (1ULL << 30)

static void *send_much(void *arg)
{
	static uint8_t block[1 << 20];
	int fd = *(int *)arg;

	for (uint64_t left = MUCH; left > 0;) {
		ssize_t n = send(fd, block, left < sizeof(block) ? (size_t)left : sizeof(block), 0);

		CHECK(n > 0);
		left -= (uint64_t)n;
	}
	CHECK(shutdown(fd, SHUT_WR) == 0);
	return NULL;
}

static void *read_much(void *arg)
{
	static uint8_t block[1 << 20];
	int fd = *(int *)arg;
	uint64_t had = 0;
	ssize_t n;

	while ((n = recv(fd, block, sizeof(block), MSG_TRUNC)) > 0) /* thrown away */
		had += (uint64_t)n;
	CHECK(n == 0 && had == MUCH);
	CHECK(shutdown(fd, SHUT_WR) == 0);
	return NULL;
}

static void much_goes_through(void)
{
	uint64_t start = clock_now_ns(), took;
	pthread_t sender, reader;
	struct bed b;

	open_bed(&b, NULL, 60000);
	CHECK(pthread_create(&sender, NULL, send_much, &b.server) == 0);
	CHECK(pthread_create(&reader, NULL, read_much, &b.cell) == 0);
	run(&b, 50000);
	took = clock_now_ns() - start;
	CHECK(b.over && b.why == NULL && b.in == MUCH && b.out == 0);
	CHECK(pthread_join(sender, NULL) == 0 && pthread_join(reader, NULL) == 0);
	printf("# 1 GiB in %llu ms\n", (unsigned long long)(took / CLOCK_MS));
	close_bed(&b);
}

static void no_descriptor_is_left(void)
{
	uint64_t sent = 0;
	struct bed b;
	int before, after;

	open_bed(&b, NULL, 60000); /* one before: the stock of pipes stays */
	(void)flood(b.server, &sent);
	run(&b, 50);
	close_bed(&b);
	before = count_fds();
	for (unsigned i = 0; i < 20; i++) {
		open_bed(&b, "first", 60000);
		(void)flood(b.server, &sent);
		(void)flood(b.cell, &sent);
		run(&b, i % 5);
		close_bed(&b);
	}
	after = count_fds();
	CHECK(after <= before + 32); /* sixteen pipes at most */
	for (unsigned i = 0; i < 20; i++) {
		open_bed(&b, NULL, 60000);
		(void)flood(b.server, &sent);
		run(&b, 5);
		close_bed(&b);
	}
	CHECK(count_fds() <= before + 32);
}

TEST_MAIN({ "both_ways_and_first_bytes", both_ways_and_first_bytes },
	  { "ends_are_passed_on_one_by_one", ends_are_passed_on_one_by_one },
	  { "a_slow_reader_holds_the_writer_up", a_slow_reader_holds_the_writer_up },
	  { "it_rests_while_nobody_reads", it_rests_while_nobody_reads },
	  { "a_limit_cuts", a_limit_cuts },
	  { "an_end_at_the_limit_is_an_end", an_end_at_the_limit_is_an_end },
	  { "a_limit_holds_in_bulk", a_limit_holds_in_bulk },
	  { "silence_ends_it", silence_ends_it }, { "a_reset_is_no_end", a_reset_is_no_end },
	  { "much_goes_through", much_goes_through },
	  { "no_descriptor_is_left", no_descriptor_is_left })
