/* Goal: the messages between a shim and its guest arrive as they were sent, and of what a guest
 * sends only what has the exact layout and values in range gets through. */
#include "lib/wire/guest_msg.h"

#include "support.h"

static struct frame frame_of(uint16_t type, const uint8_t *body, size_t len)
{
	return (struct frame){ .type = type, .len = (uint32_t)len, .body = body };
}

static const struct guest_hello hello = {
	.generation = 7,
	.wall_ns = 1700000000ULL * 1000000000,
	.flags = GUEST_EGRESS,
	.pids = 100,
	.memory_bytes = 1 << 20,
	.nofile = 1024,
	.disk_bytes = 5,
	.inodes = 6,
	.entropy = { 1, 2, 3 },
	.machine_id = "0123456789abcdef0123456789abcdef",
	.hostname = "box-1",
};

static void hello_arrives(void)
{
	uint8_t body[GUEST_HELLO_SIZE];
	struct guest_hello got;
	struct err e;
	size_t n = guest_hello_write(&hello, body);
	struct frame f = frame_of(GUEST_HELLO, body, n);

	CHECK(n > 0 && guest_hello_read(&f, &got, &e) == 0);
	CHECK(memcmp(&got, &hello, sizeof(got)) == 0);
	for (size_t len = 0; len < n; len++) {
		f.len = (uint32_t)len;
		CHECK(guest_hello_read(&f, &got, &e) == -1 && e.code == ERR_INVALID);
	}
}

static void hello_is_checked(void)
{
	uint8_t body[GUEST_HELLO_SIZE];
	struct guest_hello bad = hello;

	bad.generation = 0;
	CHECK(guest_hello_write(&bad, body) == 0);
	bad = hello;
	bad.flags = 1U << 31;
	CHECK(guest_hello_write(&bad, body) == 0);
	bad = hello;
	(void)snprintf(bad.machine_id, sizeof(bad.machine_id), "abc");
	CHECK(guest_hello_write(&bad, body) == 0);
	bad = hello;
	(void)snprintf(bad.hostname, sizeof(bad.hostname), "a b");
	CHECK(guest_hello_write(&bad, body) == 0);
	bad = hello;
	memset(bad.hostname, 'a', GUEST_HOSTNAME_MAX);
	CHECK(guest_hello_write(&bad, body) == GUEST_HELLO_SIZE - 8);
	bad.flags |= GUEST_LOCKED;
	bad.uid = bad.gid = 1000;
	CHECK(guest_hello_write(&bad, body) == GUEST_HELLO_SIZE);
}

static void ready_is_checked(void)
{
	struct guest_ready r = { .generation = 9, .version = 1, .refused = 1, .sys = 1 }, got;
	uint8_t body[GUEST_READY_SIZE];
	struct frame f = frame_of(GUEST_READY, body, sizeof(body));
	struct err e;

	guest_ready_write(&r, body);
	CHECK(guest_ready_read(&f, &got, &e) == 0 && memcmp(&r, &got, sizeof(r)) == 0);
	r.refused = 0;
	guest_ready_write(&r, body);
	CHECK(guest_ready_read(&f, &got, &e) == -1);
	r.refused = 1U << 20;
	guest_ready_write(&r, body);
	CHECK(guest_ready_read(&f, &got, &e) == -1);
	f.len--;
	CHECK(guest_ready_read(&f, &got, &e) == -1);
}

static void events_have_their_streams(void)
{
	struct guest_event v = { .event = { .handle = 3, .pid = 4, .flags = AGENT_HAS_STDIN },
				 .nstreams = 3,
				 .streams = { 1, 3, 5 } },
			   got;
	uint8_t body[GUEST_TO_SHIM_MAX];
	struct frame f = frame_of(AGENT_STARTED, body, guest_event_write(&v, body));
	struct err e;

	CHECK(guest_event_read(&f, &got, &e) == 0 && memcmp(&v, &got, sizeof(v)) == 0);
	CHECK(guest_event_way(&v.event, 0) == MUX_IN && guest_event_way(&v.event, 2) == MUX_OUT);
	f.len -= 2;
	CHECK(guest_event_read(&f, &got, &e) == -1);
	f.type = AGENT_DIALED; /* the shim's own */
	CHECK(guest_event_read(&f, &got, &e) == -1);
	f.type = AGENT_READY;
	f.len = sizeof(v.event);
	CHECK(guest_event_read(&f, &got, &e) == -1);
}

static void event_streams_are_checked(void)
{
	static const uint16_t bad[][3] = { { 1, 3, 1 }, { 1, 2, 3 }, { 1, 3, 4097 }, { 0, 1, 3 } };
	struct guest_event v = { .event = { .flags = AGENT_HAS_STDIN }, .nstreams = 3 }, got;
	uint8_t body[GUEST_TO_SHIM_MAX];
	struct err e;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		memcpy(v.streams, bad[i], sizeof(bad[i]));
		struct frame f = frame_of(AGENT_STARTED, body, guest_event_write(&v, body));
		CHECK(guest_event_read(&f, &got, &e) == -1);
	}
}

TEST_MAIN({ "HELLO arrives as it was sent", hello_arrives },
	  { "values out of range in HELLO are refused", hello_is_checked },
	  { "READY is checked", ready_is_checked },
	  { "an event has one stream for each descriptor", events_have_their_streams },
	  { "stream numbers in events are checked", event_streams_are_checked })
