/* A peer that sends any bytes, in any pieces: a channel hands over the frames that frame_read()
 * finds in the whole, ends as broken at the first that is malformed, and ends once.
 *
 * The input: how many messages a turn has, the length of each piece, the bytes. */
#include "fuzz.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/channel/channel.h"

#define BODY_MAX 300

unsigned long fuzz_accepted;

static struct {
	const uint8_t *bytes;
	size_t len, at;
	unsigned ends, hungs;
	enum channel_end how;
} stream;

static int on_message(struct channel *c, const struct channel_got *m, struct err *e)
{
	assert(m->len <= stream.len - stream.at && m->len == FRAME_HEAD + m->frame.len);
	assert(memcmp(m->bytes, stream.bytes + stream.at, m->len) == 0);
	assert(m->frame.body == m->bytes + FRAME_HEAD && m->frame.len <= BODY_MAX);
	stream.at += m->len;
	fuzz_accepted++;
	return 0;
}

static void on_hung(struct channel *c, const char *why)
{
	assert(channel_is_up(c) && why[0] != '\0');
	stream.hungs++;
}

static void on_end(struct channel *c, enum channel_end how, const char *why)
{
	assert(!channel_is_up(c));
	stream.ends++;
	stream.how = how;
}

/* One turn of the loop. */
static void turn(struct channel *c)
{
	c->watch.on_ready(&c->watch, EPOLLIN);
	while (c->more.queued) {
		loop_task_cancel(c->loop, &c->more);
		c->more.on_run(&c->more);
	}
}

static void check_end(void)
{
	struct frame f;
	struct err e = { 0 };
	int n = frame_read(stream.bytes + stream.at, stream.len - stream.at, BODY_MAX, &f, &e);

	assert(n <= 0 && stream.ends == 1);
	assert(stream.how == (n < 0 ? CHANNEL_BROKEN : CHANNEL_CLOSED));
	assert(stream.hungs == (n < 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct loop *loop;
	struct channel_rules rules = { .peer = "fuzz", .framed = true, .in_max = BODY_MAX };
	struct channel c;
	struct err e = { 0 };
	int ends[2];

	if (size < 2 || size > 16384)
		return 0;
	if (loop == NULL)
		loop = loop_new(&e);
	assert(loop != NULL);
	rules.turn_messages = 1 + data[0] % 8;
	channel_init(&c, loop, &rules);
	c.on_message = on_message;
	c.on_hung = on_hung;
	c.on_end = on_end;
	stream = (typeof(stream)){ .bytes = data + 2, .len = size - 2 };
	assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
	assert(channel_attach(&c, ends[0], &e) == 0);
	for (size_t at = 0, n; at < stream.len && channel_is_up(&c); at += n) {
		n = 1 + (data[1] + at * 7) % 200;
		n = n < stream.len - at ? n : stream.len - at;
		assert(send(ends[1], stream.bytes + at, n, MSG_NOSIGNAL) == (ssize_t)n);
		turn(&c);
	}
	(void)close(ends[1]);
	if (channel_is_up(&c))
		turn(&c);
	check_end();
	channel_release(&c);
	return 0;
}
