/* Goal: a channel hands over every message once, in order and with its descriptors, and it ends
 * once, whatever the peer does: sends in pieces, does not read, dies, is silent, lies about
 * lengths or floods with descriptors. Every call ends exactly once. No descriptor is left open.
 *
 * The test plays the peer at the other end of a real socket. */
#include "lib/channel/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "support.h"

#define BODY_MAX 4096
#define GOT_MAX 512

static struct loop *loop;
static struct channel one;
static int peer = -1;
static int before; /* descriptors that were open */

/* What came. */
static struct got {
	uint32_t number;
	size_t len;
	bool lost;
} got[GOT_MAX];
static unsigned ngot, turns, rooms, pings, hungs, ends;
static enum channel_end how;
static char why[256];
static int taken[GOT_MAX];
static unsigned ntaken;
static int (*on_each)(struct channel *c, const struct channel_got *m);

static int on_message(struct channel *c, const struct channel_got *m, struct err *e)
{
	struct got *g = &got[ngot];
	const uint8_t *body = c->rules.framed ? m->frame.body : m->bytes;
	size_t len = c->rules.framed ? m->frame.len : m->len;

	CHECK(ngot < GOT_MAX);
	*g = (struct got){ .len = len, .lost = m->fds_lost };
	if (len >= sizeof(g->number))
		memcpy(&g->number, body, sizeof(g->number));
	ngot++;
	if (on_each != NULL && on_each(c, m) < 0)
		return err_set(e, ERR_INVALID, "a message that the test refuses");
	return 0;
}

static void on_end(struct channel *c, enum channel_end h, const char *text)
{
	ends++;
	how = h;
	(void)snprintf(why, sizeof(why), "%s", text);
}

static void on_hung(struct channel *c, const char *text)
{
	CHECK(channel_is_up(c) && ends == 0 && text[0] != '\0');
	hungs++;
}

static void on_turn(struct channel *c)
{
	turns++;
}

static void on_room(struct channel *c)
{
	rooms++;
}

static void on_ping(struct channel *c)
{
	pings++;
}

static void on_stop(struct loop_timer *t)
{
	loop_stop(t->arg);
}

static void turn(uint64_t ms)
{
	struct loop_timer t = { .on_expire = on_stop, .arg = loop };
	struct err e;

	loop_timer_set(loop, &t, clock_now_ns() + ms * CLOCK_MS);
	CHECK(loop_run(loop, &e) == 0);
}

static void attach(void)
{
	struct err e;
	int pair[2];

	CHECK(socketpair(AF_UNIX, (one.rules.framed ? SOCK_STREAM : SOCK_SEQPACKET) | SOCK_CLOEXEC,
			 0, pair) == 0);
	peer = pair[1];
	CHECK(fcntl(peer, F_SETFL, O_NONBLOCK) == 0);
	CHECK(channel_attach(&one, pair[0], &e) == 0 && channel_is_up(&one));
}

static void open_one(struct channel_rules rules)
{
	struct err e;

	before = count_fds();
	loop = loop_new(&e);
	CHECK(loop != NULL);
	rules.peer = "the peer";
	if (rules.in_max == 0)
		rules.in_max = BODY_MAX;
	channel_init(&one, loop, &rules);
	one.on_message = on_message;
	one.on_end = on_end;
	one.on_hung = on_hung;
	one.on_turn = on_turn;
	one.on_room = on_room;
	one.on_ping = on_ping;
	attach();
}

static void close_one(void)
{
	channel_release(&one);
	channel_release(&one);
	io_close_all(&peer, 1);
	io_close_all(taken, ntaken);
	loop_free(loop);
	CHECK(count_fds() == before);
}

/* A frame (or packet) with a number and so many bytes of body. */
static size_t compose(uint8_t *to, uint32_t number, size_t len)
{
	size_t head = one.rules.framed ? FRAME_HEAD : 0;

	CHECK(len >= sizeof(number));
	if (head > 0)
		frame_head(to, 7, (uint32_t)len);
	memset(to + head, (int)(number & 0xff), len);
	memcpy(to + head, &number, sizeof(number));
	return head + len;
}

static int send_one(uint32_t number, size_t len, int *fds, size_t nfds, struct err *e)
{
	uint8_t bytes[FRAME_HEAD + BODY_MAX];
	size_t n = compose(bytes, number, len);

	/* In two parts, as a head and a text. */
	return channel_send(&one,
			    &(struct channel_msg){ .bytes = bytes,
						   .len = n / 2,
						   .more = bytes + n / 2,
						   .more_len = n - n / 2,
						   .fds = fds,
						   .nfds = nfds },
			    e);
}

static void peer_sends(uint32_t number, size_t len, const int *fds, size_t nfds)
{
	uint8_t bytes[FRAME_HEAD + BODY_MAX + 64];
	size_t n = compose(bytes, number, len);
	struct err e;

	if (!one.rules.framed || nfds == 0) {
		CHECK(io_send(peer, bytes, n, fds, nfds, &e) == 0);
		return;
	}
	CHECK(io_send(peer, bytes, 1, fds, nfds, &e) == 0);
	CHECK(io_send(peer, bytes + 1, n - 1, NULL, 0, &e) == 0);
}

static int null_fd(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

/* Reads the next message as a peer that knows the format; its descriptors are closed. 0: none. */
static uint32_t peer_takes(size_t *ret_nfds)
{
	static uint8_t bytes[1 << 20];
	static size_t len;
	struct frame f;
	struct err e = { 0 };
	uint32_t number;
	int fds[IO_FDS_MAX];

	*ret_nfds = 0;
	if (!one.rules.framed) {
		ssize_t n = io_recv(peer, &bytes, sizeof(bytes), fds, IO_FDS_MAX, ret_nfds, &e);

		if (n <= 0)
			return 0;
		io_close_all(fds, *ret_nfds);
		memcpy(&number, bytes, sizeof(number));
		return number;
	}
	for (;;) {
		size_t nfds = 0;
		int n = frame_read(bytes, len, BODY_MAX, &f, &e);

		CHECK(n >= 0);
		if (n > 0) {
			memcpy(&number, f.body, sizeof(number));
			len -= (size_t)n;
			memmove(bytes, bytes + n, len);
			return number;
		}
		ssize_t came = io_recv(peer, bytes + len, sizeof(bytes) - len < 100 ? 0 : 100, fds,
				       IO_FDS_MAX, &nfds, &e);
		if (came <= 0) {
			len = came == 0 ? 0 : len;
			return 0;
		}
		io_close_all(fds, nfds);
		*ret_nfds += nfds;
		len += (size_t)came;
	}
}

static int take_fds(struct channel *c, const struct channel_got *m)
{
	while (channel_fds(c) > 0)
		taken[ntaken++] = channel_take_fd(c);
	CHECK(channel_take_fd(c) == -1);
	return 0;
}

/* ---- sending and receiving */

static void both_ways(bool framed)
{
	struct err e;
	size_t nfds, all = 0, sent = 0;

	open_one((struct channel_rules){ .framed = framed, .fds_max = 4 });
	on_each = take_fds;
	for (uint32_t i = 1; i <= 100; i++) {
		int fds[3] = { null_fd(), null_fd(), null_fd() };

		CHECK(send_one(i, 4 + i * 7 % 500, fds, i % 4, &e) == 0);
		for (unsigned k = 0; k < 3; k++)
			CHECK((fds[k] == -1) == (k < i % 4)); /* taken over, or not */
		io_close_all(fds, 3);
	}
	turn(5);
	for (uint32_t i = 1; i <= 100; i++) {
		CHECK(peer_takes(&nfds) == i);
		all += nfds;
		sent += i % 4;
		/* The first byte of a later frame may have come with the last of this one. */
		CHECK(framed ? all >= sent && all <= sent + 3 : nfds == i % 4);
		turn(0);
	}
	CHECK(peer_takes(&nfds) == 0 && one.queued == 0 && one.emptied > 0);
	for (uint32_t i = 1; i <= 100; i++) {
		int fds[2] = { null_fd(), null_fd() };

		peer_sends(i, 4 + i * 5 % 300, fds, i % 3);
		io_close_all(fds, 2);
		turn(1);
	}
	CHECK(ngot == 100 && ntaken == 100 && ends == 0 && turns > 0);
	for (uint32_t i = 0; i < 100; i++)
		CHECK(got[i].number == i + 1 && got[i].len == 4 + (i + 1) * 5 % 300);
	close_one();
	CHECK(ends == 0);
}

static void packets_go_both_ways(void)
{
	both_ways(false);
}

static void frames_go_both_ways(void)
{
	both_ways(true);
}

static void frames_come_in_any_pieces(void)
{
	static uint8_t stream[1 << 16];
	size_t len = 0;
	unsigned seed = 1;

	open_one((struct channel_rules){ .framed = true });
	for (uint32_t i = 1; i <= 60; i++)
		len += compose(stream + len, i, 4 + i * 13 % 700);
	for (size_t at = 0; at < len;) {
		size_t n = 1 + (size_t)(rand_r(&seed) % 40);

		n = n < len - at ? n : len - at;
		CHECK(send(peer, stream + at, n, 0) == (ssize_t)n);
		at += n;
		turn(0);
	}
	CHECK(ngot == 60 && ends == 0);
	for (uint32_t i = 0; i < 60; i++)
		CHECK(got[i].number == i + 1 && got[i].len == 4 + (i + 1) * 13 % 700);
	close_one();
}

static unsigned others;

static void on_other(struct loop_task *t)
{
	others++;
	CHECK(ngot < 64);
	if (others < 4)
		loop_defer(loop, t);
}

static void others_have_their_turn_between_many_frames(void)
{
	struct loop_task other = { .on_run = on_other };

	open_one((struct channel_rules){ .framed = true, .turn_messages = 4 });
	for (uint32_t i = 1; i <= 64; i++)
		peer_sends(i, 8, NULL, 0);
	loop_defer(loop, &other);
	turn(20);
	CHECK(others == 4 && ngot == 64 && turns >= 16 && ends == 0);
	close_one();
}

static int pause_it(struct channel *c, const struct channel_got *m)
{
	channel_pause(c, ngot == 2);
	return 0;
}

static void a_paused_channel_handles_nothing(void)
{
	open_one((struct channel_rules){ .framed = true });
	on_each = pause_it;
	for (uint32_t i = 1; i <= 5; i++)
		peer_sends(i, 8, NULL, 0);
	turn(5);
	CHECK(ngot == 2);
	channel_pause(&one, false);
	turn(5);
	CHECK(ngot == 5 && got[4].number == 5);
	close_one();
}

/* ---- a peer that does not read */

static void a_peer_that_does_not_read(bool framed)
{
	struct err e;
	uint32_t sent = 0, came = 0, number;
	size_t nfds, all = 0;
	int fd;

	open_one((struct channel_rules){ .framed = framed, .out_max = 1 << 20 });
	CHECK(setsockopt(one.sock, SOL_SOCKET, SO_SNDBUF, &(int){ 8192 }, sizeof(int)) == 0);
	for (;;) {
		fd = sent % 50 == 0 ? null_fd() : -1;
		if (send_one(sent + 1, 3000, &fd, fd >= 0, &e) < 0)
			break;
		sent++;
		if (sent % 16 == 0)
			turn(0);
	}
	CHECK(fd == -1 && e.code == ERR_LIMIT && one.queued <= 1 << 20 && sent > 300);
	turn(1);
	CHECK(ends == 0 && one.queued > 0);
	for (unsigned i = 0; i < 100000 && came < sent; i++) {
		number = peer_takes(&nfds);
		if (number == 0) {
			turn(0);
			continue;
		}
		CHECK(number == ++came);
		all += nfds;
	}
	CHECK(came == sent && one.queued == 0 && all == (sent + 49) / 50);
	close_one();
}

static void a_peer_that_does_not_read_packets(void)
{
	a_peer_that_does_not_read(false);
}

static void a_peer_that_does_not_read_frames(void)
{
	a_peer_that_does_not_read(true);
}

static void an_offer_is_taken_now_or_not_at_all(void)
{
	uint8_t bytes[2000] = { 1 };
	int fd = null_fd(), sent, n = 0;
	size_t nfds;

	open_one((struct channel_rules){ .framed = false });
	CHECK(setsockopt(one.sock, SOL_SOCKET, SO_SNDBUF, &(int){ 8192 }, sizeof(int)) == 0);
	while ((sent = channel_offer(&one, &(struct channel_msg){ bytes, sizeof(bytes), NULL, 0,
								  &fd, fd >= 0 })) == 1) {
		CHECK(fd == -1);
		fd = null_fd();
		n++;
	}
	CHECK(sent == 0 && n > 0 && fd >= 0 && channel_is_full(&one) && rooms == 0);
	turn(5);
	CHECK(rooms == 0);
	for (int i = 0; i < n; i++)
		CHECK(peer_takes(&nfds) != 0 && nfds == 1);
	turn(5);
	CHECK(rooms == 1 && !channel_is_full(&one));
	io_close_all(&peer, 1);
	CHECK(channel_offer(&one, &(struct channel_msg){ bytes, 1, NULL, 0, &fd, 1 }) == -1);
	CHECK(fd >= 0 && ends == 1 && how == CHANNEL_CLOSED && hungs == 0);
	CHECK(channel_offer(&one, &(struct channel_msg){ bytes, 1, NULL, 0, &fd, 1 }) == 0);
	io_close_all(&fd, 1);
	before--; /* fd was open at the start */
	close_one();
}

static int answer_it(struct channel *c, const struct channel_got *m)
{
	struct err e;

	CHECK(send_one(got[ngot - 1].number, 3000, NULL, 0, &e) == 0);
	return 0;
}

static void answers_are_sent_before_more_is_read(void)
{
	uint32_t n = 0;
	size_t nfds;

	open_one((struct channel_rules){ .answers_first = true });
	CHECK(setsockopt(one.sock, SOL_SOCKET, SO_SNDBUF, &(int){ 8192 }, sizeof(int)) == 0);
	on_each = answer_it;
	for (uint32_t i = 1; i <= 20; i++)
		peer_sends(i, 8, NULL, 0);
	turn(5);
	CHECK(ngot > 0 && ngot < 20 && one.queued <= 3000); /* never more than one answer waits */
	for (unsigned i = 0; i < 1000 && n < 20; i++) {
		if (peer_takes(&nfds) != 0)
			n++;
		turn(0);
	}
	CHECK(n == 20 && ngot == 20 && ends == 0);
	close_one();
}

static void a_dead_peer_that_is_not_read_is_noticed(void)
{
	open_one((struct channel_rules){ .answers_first = true });
	CHECK(setsockopt(one.sock, SOL_SOCKET, SO_SNDBUF, &(int){ 8192 }, sizeof(int)) == 0);
	on_each = answer_it;
	for (uint32_t i = 1; i <= 20; i++)
		peer_sends(i, 8, NULL, 0);
	turn(5);
	CHECK(one.queued > 0 && ends == 0);
	io_close_all(&peer, 1);
	turn(5);
	CHECK(ends == 1 && how == CHANNEL_CLOSED && one.queued == 0);
	close_one();
}

static void what_waits_outlives_the_connection(void)
{
	struct err e;
	size_t nfds;

	open_one((struct channel_rules){ .framed = true, .keeps_queue = true });
	CHECK(setsockopt(one.sock, SOL_SOCKET, SO_SNDBUF, &(int){ 4608 }, sizeof(int)) == 0);
	for (uint32_t i = 1; i <= 20; i++)
		CHECK(send_one(i, 4000, NULL, 0, &e) == 0);
	turn(5);
	CHECK(one.queued > 0 && one.first != NULL);
	io_close_all(&peer, 1);
	turn(5);
	CHECK(ends == 1 && one.queued > 0);
	uint32_t first = (uint32_t)(20 - one.queued / (FRAME_HEAD + 4000) + 1);
	CHECK(send_one(21, 4000, NULL, 0, &e) == 0); /* without a connection, too */
	CHECK(peer_takes(&nfds) == 0);
	attach();
	for (uint32_t i = first; i <= 21; i++) {
		uint32_t number = 0;

		for (unsigned k = 0; k < 1000 && number == 0; k++) {
			turn(0);
			number = peer_takes(&nfds);
		}
		CHECK(number == i);
	}
	CHECK(one.queued == 0);
	close_one();
}

/* ---- the end */

static void the_last_words_are_read(bool framed)
{
	struct err e;
	int fd = null_fd();

	open_one((struct channel_rules){ .framed = framed, .fds_max = 4 });
	before--;
	peer_sends(1, 8, NULL, 0);
	peer_sends(2, 8, NULL, 0);
	io_close_all(&peer, 1);
	CHECK(send_one(3, 8, &fd, 1, &e) == 0); /* EPIPE: not the reason of the end */
	turn(5);
	CHECK(ngot == 2 && ends == 1 && how == CHANNEL_CLOSED && hungs == 0);
	CHECK(strcmp(why, "the peer exited") == 0 && !channel_is_up(&one));
	fd = null_fd();
	CHECK(send_one(4, 8, &fd, 1, &e) < 0 && fd == -1 && e.reason == REASON_UNAVAILABLE);
	channel_end(&one, "again");
	channel_give_up(&one, "again");
	CHECK(ends == 1 && hungs == 0);
	close_one();
}

static void the_last_packets_are_read(void)
{
	the_last_words_are_read(false);
}

static void the_last_frames_are_read(void)
{
	the_last_words_are_read(true);
}

static void broken_once(void)
{
	turn(5);
	CHECK(ends == 1 && how == CHANNEL_BROKEN && hungs == 1 && !channel_is_up(&one));
	close_one();
}

static void a_frame_that_is_too_long(void)
{
	uint8_t head[FRAME_HEAD];

	open_one((struct channel_rules){ .framed = true });
	peer_sends(1, BODY_MAX, NULL, 0);
	frame_head(head, 1, BODY_MAX + 1);
	CHECK(send(peer, head, sizeof(head), 0) == sizeof(head));
	turn(5);
	CHECK(ngot == 1);
	broken_once();
}

static void a_frame_with_a_wrong_head(void)
{
	uint8_t head[FRAME_HEAD];

	open_one((struct channel_rules){ .framed = true });
	frame_head_stream(head, 1, 9, 5);
	CHECK(send(peer, head, sizeof(head), 0) == sizeof(head));
	broken_once();
}

static void a_packet_that_is_too_long(void)
{
	open_one((struct channel_rules){ .in_max = 100, .untrusted = true });
	peer_sends(1, 100, NULL, 0);
	turn(5);
	CHECK(ngot == 1 && ends == 0);
	peer_sends(2, 101, NULL, 0);
	broken_once();
	CHECK(ngot == 1);
}

static void a_packet_that_is_far_too_long(void)
{
	open_one((struct channel_rules){ .in_max = 100 });
	peer_sends(2, 4000, NULL, 0);
	broken_once();
	CHECK(ngot == 0);
}

static int refuse(struct channel *c, const struct channel_got *m)
{
	return -1;
}

static void a_message_that_is_refused(void)
{
	int fd = null_fd();

	open_one((struct channel_rules){ .fds_max = 4 });
	before--;
	on_each = refuse;
	peer_sends(1, 8, &fd, 1); /* nobody takes its descriptor */
	io_close_all(&fd, 1);
	broken_once();
	CHECK(ngot == 1 && strcmp(why, "a message that the test refuses") == 0);
}

static void descriptors_that_nobody_asked_for(bool framed, bool untrusted)
{
	int fds[3] = { null_fd(), null_fd(), null_fd() };

	open_one((struct channel_rules){ .framed = framed, .untrusted = untrusted, .fds_max = 2 });
	before -= 3;
	peer_sends(1, 8, fds, 3);
	io_close_all(fds, 3);
	broken_once();
	CHECK(ngot == 0);
}

static void too_many_descriptors(void)
{
	descriptors_that_nobody_asked_for(false, false);
}

static void too_many_descriptors_of_a_frame(void)
{
	descriptors_that_nobody_asked_for(true, false);
}

static void too_many_descriptors_of_a_hostile_peer(void)
{
	descriptors_that_nobody_asked_for(false, true);
}

static void too_many_descriptors_in_frames_of_a_hostile_peer(void)
{
	descriptors_that_nobody_asked_for(true, true);
}

/* Descriptors that would make close(2) wait for seconds. */
static void slow_descriptors_of_a_hostile_peer(void)
{
	int other, fd = make_lingering(30, &other);
	uint64_t start;

	open_one((struct channel_rules){ .framed = true, .untrusted = true });
	before -= 2;
	peer_sends(1, 8, &fd, 1);
	(void)close(fd); /* the peer's own end: it is still in the socket */
	start = clock_now_ns();
	turn(5);
	CHECK(clock_now_ns() - start < 5000 * CLOCK_MS && ends == 1 && how == CHANNEL_BROKEN);
	(void)close(other);
	close_one();
}

static void descriptors_without_room(bool framed, bool untrusted)
{
	struct rlimit old, tight;
	int fd = null_fd();

	open_one((struct channel_rules){ .framed = framed, .untrusted = untrusted, .fds_max = 4 });
	before--;
	on_each = take_fds;
	peer_sends(1, 8, &fd, 1);
	peer_sends(2, 8, NULL, 0);
	io_close_all(&fd, 1);
	CHECK(getrlimit(RLIMIT_NOFILE, &old) == 0);
	tight = (struct rlimit){ .rlim_cur = 0, .rlim_max = old.rlim_max };
	CHECK(setrlimit(RLIMIT_NOFILE, &tight) == 0);
	turn(5);
	CHECK(setrlimit(RLIMIT_NOFILE, &old) == 0);
	CHECK(ends == 0 && ngot == 2 && got[1].number == 2);
	if (framed)
		CHECK(ntaken == 1 && taken[0] == -1);
	else
		CHECK(ntaken == 0 && got[0].lost && !got[1].lost);
	close_one();
}

static void descriptors_of_a_packet_without_room(void)
{
	descriptors_without_room(false, false);
}

static void descriptors_of_a_hostile_packet_without_room(void)
{
	descriptors_without_room(false, true);
}

static void descriptors_of_a_frame_without_room(void)
{
	descriptors_without_room(true, false);
}

/* The message is read after its connection has ended and another one was attached. */
static int attach_again(struct channel *c, const struct channel_got *m)
{
	const uint8_t *body = c->rules.framed ? m->frame.body : m->bytes;
	uint32_t number;

	on_each = NULL;
	io_close_all(&peer, 1);
	attach();
	memcpy(&number, body, sizeof(number));
	CHECK(number == 1);
	return -1; /* of the old connection: must not end the new one */
}

static void another_connection_inside_a_callback(bool framed)
{
	open_one((struct channel_rules){ .framed = framed });
	on_each = attach_again;
	peer_sends(1, 8, NULL, 0);
	peer_sends(2, 8, NULL, 0);
	turn(5);
	CHECK(ngot == 1 && ends == 1 && how == CHANNEL_REPLACED && hungs == 0);
	CHECK(channel_is_up(&one));
	peer_sends(3, 8, NULL, 0);
	turn(5);
	CHECK(ngot == 2 && got[1].number == 3 && ends == 1);
	close_one();
}

static void another_connection_inside_a_packet(void)
{
	another_connection_inside_a_callback(false);
}

static void another_connection_inside_a_frame(void)
{
	another_connection_inside_a_callback(true);
}

struct owner {
	struct channel channel;
	struct channel_call call;
	unsigned ends;
};

static void on_owner_end(struct channel *c, enum channel_end h, const char *text)
{
	struct owner *o = c->arg;

	ends++;
	channel_release(c);
	free(o);
}

static void the_owner_is_freed_at_the_end(void)
{
	const struct channel_rules rules = { .peer = "x", .in_max = 8, .turn_messages = 2 };
	struct owner *o = calloc(1, sizeof(*o));
	struct err e;
	int pair[2];

	CHECK(o != NULL);
	open_one((struct channel_rules){ .framed = false });
	channel_init(&o->channel, loop, &rules);
	o->channel.arg = o;
	o->channel.on_message = on_message;
	o->channel.on_end = on_owner_end;
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	CHECK(channel_attach(&o->channel, pair[0], &e) == 0);
	CHECK(send(pair[1], "too long by far", 15, 0) == 15);
	turn(5);
	CHECK(ends == 1);
	(void)close(pair[1]);
	close_one();
}

/* ---- is the peer alive? */

static void a_peer_that_answers_pings_lives(void)
{
	open_one((struct channel_rules){
		.framed = true, .first_ping_ms = 5, .ping_ms = 20, .patience_ms = 60 });
	for (unsigned i = 0; i < 20; i++) {
		turn(10);
		CHECK(send(peer, "", 0, 0) == 0);
		if (i % 2 == 0)
			peer_sends(i + 1, 8, NULL, 0);
	}
	CHECK(pings >= 4 && ends == 0);
	pings = 0;
	turn(300);
	CHECK(pings <= 1 && ends == 1 && how == CHANNEL_SILENT && hungs == 1);
	CHECK(strcmp(why, "the peer does not answer") == 0);
	close_one();
}

static void an_answer_that_is_due(void)
{
	open_one((struct channel_rules){ .framed = false });
	turn(20);
	channel_expect(&one, 10);
	channel_expect(&one, 0);
	turn(30);
	CHECK(ends == 0);
	channel_expect(&one, 10);
	turn(5);
	CHECK(ends == 0);
	turn(30);
	CHECK(ends == 1 && how == CHANNEL_SILENT && hungs == 1);
	close_one();
}

static int owes_nothing(struct channel *c, const struct channel_got *m)
{
	channel_expect(c, ngot == 2 ? 1000 : 0);
	return 0;
}

/* A turn ends with the last answer that the peer owes. Nothing is lost by it: what it sends all the
 * same, and its end, are for the next turns. */
static void a_peer_that_owes_nothing(void)
{
	on_each = owes_nothing;
	open_one((struct channel_rules){ .framed = false });
	for (uint32_t i = 0; i < 5; i++)
		peer_sends(i, 100, NULL, 0);
	turn(20);
	CHECK(ngot == 5 && turns == 4); /* the second and the third in one */
	for (uint32_t i = 0; i < 5; i++)
		CHECK(got[i].number == i);
	fd_close(peer);
	peer = -1;
	turn(20);
	CHECK(ends == 1 && how == CHANNEL_CLOSED);
	close_one();
}

/* ---- calls */

static struct asked {
	struct channel_call call;
	unsigned ends;
	enum err_reason reason;
} asked[8];

static void on_done(struct completion *d, const struct err *e)
{
	struct asked *a = d->arg;

	a->ends++;
	a->reason = e == NULL ? REASON_NONE : e->reason;
	if (a == &asked[0] && asked[1].call.done.state != COMPLETION_IDLE)
		completion_cancel(&asked[1].call.done); /* a callback cancels a neighbour */
}

static uint32_t ask(struct asked *a, uint64_t ms)
{
	struct err e;

	a->call.done.on_done = on_done;
	a->call.done.arg = a;
	channel_call_begin(&one, &a->call, channel_next_id(&one), ms);
	if (send_one(a->call.id, 8, NULL, 0, &e) < 0)
		completion_end(&a->call.done, &e);
	CHECK(a->ends == 0);
	return a->call.id;
}

static int end_call(struct channel *c, const struct channel_got *m)
{
	struct channel_call *call = channel_call_find(c, got[ngot - 1].number);

	if (call != NULL)
		completion_end(&call->done, NULL);
	return 0;
}

static void every_call_ends_once(void)
{
	uint32_t ids[5];

	open_one((struct channel_rules){ .framed = false });
	on_each = end_call;
	one.last_id = UINT32_MAX - 2; /* numbers go round, 0 is none */
	for (unsigned i = 0; i < 5; i++)
		ids[i] = ask(&asked[i], i == 4 ? 20 : 5000);
	for (unsigned i = 0; i < 5; i++)
		CHECK(ids[i] != 0 && channel_call_find(&one, ids[i]) == &asked[i].call);
	peer_sends(ids[2], 8, NULL, 0);
	peer_sends(ids[2], 8, NULL, 0); /* the same answer again, and one that nobody waits for */
	peer_sends(12345, 8, NULL, 0);
	turn(5);
	CHECK(asked[2].ends == 1 && asked[2].reason == REASON_NONE);
	turn(40);
	CHECK(asked[4].ends == 1 && asked[4].reason == REASON_TIMEOUT);
	completion_cancel(&asked[3].call.done);
	io_close_all(&peer, 1);
	turn(5);
	CHECK(asked[0].ends + asked[1].ends >= 1 && ends == 1);
	CHECK(asked[1].ends == 0 || asked[1].reason == REASON_PEER_DIED);
	CHECK(asked[0].ends == 1 && asked[0].reason == REASON_PEER_DIED && asked[3].ends == 0);
	CHECK(one.calls.first == NULL);
	asked[5].ends = 0;
	(void)ask(&asked[5], 5000); /* without a connection */
	turn(5);
	CHECK(asked[5].ends == 1 && asked[5].reason == REASON_UNAVAILABLE);
	close_one();
}

static void calls_are_cancelled_with_the_channel(void)
{
	open_one((struct channel_rules){ .framed = false });
	(void)ask(&asked[0], 5000);
	(void)ask(&asked[1], 5000);
	close_one();
	CHECK(asked[0].ends == 0 && asked[1].ends == 0 && ends == 0);
}

TEST_MAIN({ "packets go both ways", packets_go_both_ways },
	  { "frames go both ways", frames_go_both_ways },
	  { "frames come in any pieces", frames_come_in_any_pieces },
	  { "others have their turn", others_have_their_turn_between_many_frames },
	  { "a paused channel handles nothing", a_paused_channel_handles_nothing },
	  { "a peer that does not read packets", a_peer_that_does_not_read_packets },
	  { "a peer that does not read frames", a_peer_that_does_not_read_frames },
	  { "an offer is taken now or not at all", an_offer_is_taken_now_or_not_at_all },
	  { "answers are sent before more is read", answers_are_sent_before_more_is_read },
	  { "a dead peer is noticed", a_dead_peer_that_is_not_read_is_noticed },
	  { "what waits outlives the connection", what_waits_outlives_the_connection },
	  { "the last packets are read", the_last_packets_are_read },
	  { "the last frames are read", the_last_frames_are_read },
	  { "a frame that is too long", a_frame_that_is_too_long },
	  { "a frame with a wrong head", a_frame_with_a_wrong_head },
	  { "a packet that is too long", a_packet_that_is_too_long },
	  { "a packet that is far too long", a_packet_that_is_far_too_long },
	  { "a message that is refused", a_message_that_is_refused },
	  { "too many descriptors", too_many_descriptors },
	  { "too many descriptors of a frame", too_many_descriptors_of_a_frame },
	  { "too many descriptors, hostile", too_many_descriptors_of_a_hostile_peer },
	  { "too many in frames, hostile", too_many_descriptors_in_frames_of_a_hostile_peer },
	  { "slow descriptors, hostile", slow_descriptors_of_a_hostile_peer },
	  { "descriptors of a packet without room", descriptors_of_a_packet_without_room },
	  { "the same, hostile", descriptors_of_a_hostile_packet_without_room },
	  { "descriptors of a frame without room", descriptors_of_a_frame_without_room },
	  { "another connection inside a packet", another_connection_inside_a_packet },
	  { "another connection inside a frame", another_connection_inside_a_frame },
	  { "the owner is freed at the end", the_owner_is_freed_at_the_end },
	  { "a peer that answers pings lives", a_peer_that_answers_pings_lives },
	  { "an answer that is due", an_answer_that_is_due },
	  { "a peer that owes nothing", a_peer_that_owes_nothing },
	  { "every call ends once", every_call_ends_once },
	  { "calls are cancelled with the channel", calls_are_cancelled_with_the_channel })
