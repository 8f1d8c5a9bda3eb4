/* Goal: a guest that lies gets nothing by it. Each breach of the protocol ends the guest, with a
 * reason, and the shim after it; what is no breach costs no one else anything: floods, stalls, and
 * answers that never come. */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/rand.h"
#include "shim_bed.h"

static struct err e;

/* The shim has ended its guest for a breach: the server is told, with this in the text. */
static void expect_breach(const char *name, const char *why)
{
	struct agent_event v = { 0 };
	enum agent_type type = 0;
	char text[BOOT_TEXT_MAX + 1] = "";
	int n = agent_next(&agent, WAIT_MS, &type, &v, &e);

	if (n != 1 || type != AGENT_GUEST || v.stage != BOOT_GUEST_BROKE)
		printf("# %s: event %d of type %d, stage %u\n", name, n, type, v.stage);
	CHECK(n == 1 && type == AGENT_GUEST && v.stage == BOOT_GUEST_BROKE);
	agent_read_text(&agent, &v, text, sizeof(text));
	if (strstr(text, why) == NULL)
		printf("# %s: '%s' without '%s'\n", name, text, why);
	CHECK(strstr(text, why) != NULL);
	CHECK(bed_is_over(WAIT_MS));
	bed_end();
}

/* A guest with one held program, handle 1, at streams 1, 3, 5. */
static void begin(void)
{
	bed_begin();
	bed_spawn(1, "x", AGENT_HOLD, 0);
	CHECK(guest_start_program(1, BED_PIPES) == 1);
	(void)bed_hear(AGENT_STARTED);
}

static void say_event(enum agent_type type, uint32_t handle, uint32_t flags, uint16_t first)
{
	const struct agent_event v = { .handle = handle, .pid = 9, .flags = flags };
	uint16_t streams[GUEST_EVENT_FDS];

	for (uint16_t i = 0; i < GUEST_EVENT_FDS; i++)
		streams[i] = (uint16_t)(first + 2 * i);
	guest_say_event((uint16_t)type, &v, streams, agent_event_fds(type, &v));
}

static void lie_started_unasked(void)
{
	say_event(AGENT_STARTED, 99, BED_PIPES, 21);
}

static void lie_started_twice(void)
{
	say_event(AGENT_STARTED, 1, BED_PIPES, 21);
}

static void lie_exited_twice(void)
{
	say_event(AGENT_EXITED, 1, 0, 0);
	say_event(AGENT_EXITED, 1, 0, 0);
}

static void lie_exited_unknown(void)
{
	say_event(AGENT_EXITED, 2, 0, 0);
}

static void lie_failed(void)
{
	say_event(AGENT_FAILED, 1, 0, 0);
}

static void lie_tree_dead(void)
{
	say_event(AGENT_TREE_DEAD, 1, 0, 0);
}

static void lie_held(void)
{
	say_event(AGENT_HELD, 7, BED_PIPES, 21);
}

static void lie_synced(void)
{
	say_event(AGENT_SYNCED, 0, 0, 0);
}

static void lie_all_dead(void)
{
	say_event(AGENT_ALL_DEAD, 0, 0, 0);
}

static void lie_stated(void)
{
	say_event(AGENT_STATED, 0, 0, 0);
}

static void lie_ready(void)
{
	struct guest_ready r = { .generation = 1, .version = GUEST_VERSION };
	uint8_t body[GUEST_READY_SIZE];

	guest_ready_write(&r, body);
	guest_say(GUEST_READY, 0, body, sizeof(body));
}

static void lie_pong(void)
{
	guest_say(GUEST_PONG, 0, NULL, 0);
}

static void lie_quiesced(void)
{
	guest_say(GUEST_QUIESCED, 0, NULL, 0);
}

static void lie_request(void)
{
	const struct agent_order o = { 0 };

	guest_say(AGENT_END, 0, &o, sizeof(o));
}

static void lie_channel_event(void)
{
	guest_say(AGENT_EGRESS_LISTENS, 0, &bed_nothing, sizeof(bed_nothing));
}

static void lie_unknown_stream(void)
{
	guest_say_data(33, "x", 1);
}

static void lie_shims_stream(void)
{
	guest_say_data(2, "x", 1);
}

static void lie_data_on_input(void)
{
	guest_say_data(1, "x", 1);
}

static void lie_data_after_eof(void)
{
	guest_say(MUX_EOF, 3, NULL, 0);
	guest_say_data(3, "x", 1);
}

static void lie_beyond_credit(void)
{
	static char bytes[MUX_DATA_MAX];

	for (size_t at = 0; at <= MUX_WINDOW; at += sizeof(bytes))
		guest_say_data(3, bytes, sizeof(bytes));
	for (size_t at = 0; at <= MUX_WINDOW; at += sizeof(bytes))
		guest_say_data(3, bytes, sizeof(bytes));
}

static void lie_credit(void)
{
	const uint32_t all = UINT32_MAX;

	guest_say(MUX_CREDIT, 1, &all, sizeof(all));
}

static void lie_too_long(void)
{
	uint8_t head[FRAME_HEAD];

	frame_head_stream(head, MUX_DATA, 3, MUX_DATA_MAX + 1);
	bed_write(bed_guest, head, sizeof(head));
}

static void lie_message_too_long(void)
{
	uint8_t head[FRAME_HEAD];

	frame_head_stream(head, AGENT_STATED, 0, 1U << 30);
	bed_write(bed_guest, head, sizeof(head));
}

static void lie_type(void)
{
	guest_say(9999, 0, NULL, 0);
}

static void lie_streams_in_use(void)
{
	bed_spawn(2, "x", AGENT_HOLD, 0);
	(void)guest_hear(AGENT_SPAWN);
	say_event(AGENT_STARTED, 2, BED_PIPES, 1);
}

static void lie_shape(void)
{
	bed_spawn(2, "x", AGENT_HOLD, 0);
	(void)guest_hear(AGENT_SPAWN);
	say_event(AGENT_STARTED, 2, AGENT_IS_HELD | AGENT_IS_TTY, 21);
}

static void lie_dial(void)
{
	const uint32_t window = MUX_WINDOW;

	CHECK(agent_send_dial(&agent, 5, 80, &e) == 0);
	(void)guest_hear(MUX_OPEN);
	guest_say(MUX_CREDIT, 2, &window, sizeof(window));
	guest_say(MUX_RESET, 2, &(uint32_t){ 0 }, 4);
	guest_say_data(2, "x", 1);
	(void)bed_hear(AGENT_DIALED);
}

static const struct {
	const char *name;
	void (*tell)(void);
	const char *why;
} lies[] = {
	{ "STARTED that was not asked for", lie_started_unasked, "not known" },
	{ "STARTED twice", lie_started_twice, "not as asked" },
	{ "EXITED of a program that is not known", lie_exited_unknown, "not known" },
	{ "FAILED after STARTED", lie_failed, "was not asked for" },
	{ "TREE_DEAD that was not asked for", lie_tree_dead, "not by a request" },
	{ "HELD without a greeting", lie_held, "unasked" },
	{ "SYNCED without a greeting", lie_synced, "unasked" },
	{ "ALL_DEAD that was not asked for", lie_all_dead, "unasked" },
	{ "STATED that was not asked for", lie_stated, "unasked" },
	{ "READY without a greeting", lie_ready, "unasked" },
	{ "PONG without PING", lie_pong, "too many" },
	{ "QUIESCED without QUIESCE", lie_quiesced, "unasked" },
	{ "a request", lie_request, "" },
	{ "an event of channel B", lie_channel_event, "" },
	{ "a stream that is not known", lie_unknown_stream, "stream 33" },
	{ "a stream of the shim that is not open", lie_shims_stream, "stream 2" },
	{ "bytes on the input of a program", lie_data_on_input, "stream 1" },
	{ "bytes after the end", lie_data_after_eof, "stream 3" },
	{ "bytes without credit", lie_beyond_credit, "stream 3" },
	{ "credit beyond measure", lie_credit, "stream 1" },
	{ "a frame that is too long", lie_too_long, "" },
	{ "a message that is too long", lie_message_too_long, "" },
	{ "an unknown type", lie_type, "" },
	{ "streams that are in use", lie_streams_in_use, "" },
	{ "another shape than was asked for", lie_shape, "not as asked" },
};

static void every_lie_ends_the_guest(void)
{
	for (size_t i = 0; i < COUNT(lies); i++) {
		begin();
		lies[i].tell();
		expect_breach(lies[i].name, lies[i].why);
	}
}

/* A guest that was booted, not restored, has no programs when it is greeted. */
static void a_new_guest_holds_nothing(void)
{
	struct agent_event v;

	bed_start();
	bed_boot("");
	(void)guest_greet();
	say_event(AGENT_HELD, 7, BED_PIPES, 21);
	v = bed_hear(AGENT_BOOTED);
	CHECK(v.sys == EPROTO && v.stage == BOOT_AT_AGENT);
	bed_end();
}

static void an_exit_is_told_once(void)
{
	begin();
	lie_exited_twice();
	(void)bed_hear(AGENT_EXITED);
	expect_breach("EXITED twice", "did not run");
}

static void bytes_after_a_reset_are_a_breach(void)
{
	begin();
	lie_dial();
	expect_breach("bytes after RESET", "stream 2");
}

/* Half a frame, then nothing: the shim goes on with the rest. */
static void a_truncated_frame_holds_up_its_guest_only(void)
{
	uint8_t head[FRAME_HEAD];

	begin();
	frame_head_stream(head, MUX_DATA, 3, 100);
	bed_write(bed_guest, head, 5);
	CHECK(agent_send_lease(&agent, 1000, &e) == 0);
	CHECK(agent_send_snapshot(&agent, false, 0, &e) == 0);
	(void)guest_hear(GUEST_QUIESCE);
	(void)close(bed_guest);
	bed_guest = -1;
	CHECK(bed_hear(AGENT_SNAPSHOT_DONE).sys != 0);
	CHECK(bed_hear(AGENT_GUEST).stage == BOOT_GUEST_BROKE);
	CHECK(bed_is_over(WAIT_MS));
	bed_end();
}

/* In bytes. */
static long memory_of(pid_t pid)
{
	char path[64], text[256];
	struct err err;

	(void)snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	CHECK(io_read_file(AT_FDCWD, path, text, sizeof(text), &err) > 0);
	return strtol(strchr(text, ' '), NULL, 10) * 4096;
}

/* The shim itself is the child of the process that the bed waits for. */
static pid_t shim_of(pid_t parent)
{
	char path[64], text[64];
	struct err err;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent, (int)parent);
	CHECK(io_read_file(AT_FDCWD, path, text, sizeof(text), &err) > 0);
	return (pid_t)strtol(text, NULL, 10);
}

/* OPEN of all numbers that a guest has: each is answered, and memory stays what it was. The shim
 * has no network here: connections are refused. */
static void a_flood_of_opens_is_answered(void)
{
	const uint8_t open[MUX_OPEN_SIZE] = { MUX_TCP, 4, 80, [6] = 1, [16] = 192, 0, 2, 1 };
	unsigned answered = 0;

	/* A network without routes refuses each at once, wherever the test runs. */
	CHECK(unshare(CLONE_NEWNET) == 0);
	bed_begin();
	for (unsigned n = 1; n < MUX_NUMBERS; n += 2)
		guest_say(MUX_OPEN, (uint16_t)n, open, sizeof(open));
	while (answered < MUX_NUMBERS / 2) {
		struct frame f = guest_find(MUX_RESET);

		answered++;
		guest_say(MUX_RESET, f.stream, &(uint32_t){ 0 }, 4);
	}
	CHECK(agent_send_stat(&agent, &e) == 0);
	(void)guest_find(AGENT_STAT);
	CHECK(memory_of(shim_of(bed_shim)) < 16L << 20);
	bed_end();
}

/* Loopback of the cell is not for the guest: the egress listener and dialed ends are there. */
static void the_cells_own_addresses_are_refused(void)
{
	static const uint8_t own[][MUX_OPEN_SIZE] = {
		{ MUX_TCP, 4, 1, [6] = 1, [16] = 127, 0, 0, 1 },
		{ MUX_TCP, 4, 1, [6] = 1, [16] = 0 },
		{ MUX_TCP, 6, 1, [6] = 1, [31] = 1 },
		{ MUX_TCP, 6, 1, [6] = 1 },
		{ MUX_TCP, 6, 1, [6] = 1, [26] = 0xff, 0xff, 127, 0, 0, 1 },
	};
	uint32_t sys;

	bed_begin();
	for (uint16_t i = 0; i < COUNT(own); i++) {
		struct frame f;

		guest_say(MUX_OPEN, (uint16_t)(2 * i + 1), own[i], sizeof(own[i]));
		f = guest_find(MUX_RESET);
		memcpy(&sys, f.body, sizeof(sys));
		CHECK(f.stream == 2 * i + 1 && sys == ECONNREFUSED);
	}
	bed_end();
}

/* A guest that does not read: requests wait, memory does not grow, and the next server can come. */
static void a_guest_that_does_not_read(void)
{
	static char strings[1U << 20];
	struct agent_spawn s = { .handle = 50,
				 .flags = AGENT_HOLD,
				 .argc = 1,
				 .user = "u",
				 .cwd = "",
				 .strings = strings,
				 .strings_len = sizeof(strings) };

	memset(strings, 'x', sizeof(strings) - 1);
	begin();
	while (agent_send_spawn(&agent, &s, &e) == 0)
		s.handle++;
	CHECK(e.reason == REASON_UNAVAILABLE);
	CHECK(bed_is_silent(100));
	CHECK(memory_of(shim_of(bed_shim)) < 24L << 20);
	bed_reconnect();
	CHECK(bed_hear(AGENT_HELD).handle == 1);
	agent_release(&agent);
	CHECK(kill(shim_of(bed_shim), SIGKILL) == 0 && bed_is_over(WAIT_MS));
	bed_end();
}

/* A TCP socket with bytes that nobody reads; closing it takes an hour. */
static int slow_socket(void)
{
	struct ifreq up = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const struct linger hour = { .l_onoff = 1, .l_linger = 3600 };
	static char bytes[8U << 20];
	socklen_t len = sizeof(a);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(ioctl(fd, SIOCSIFFLAGS, &up) == 0);
	CHECK(bind(listener, (struct sockaddr *)&a, len) == 0 && listen(listener, 1) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&a, &len) == 0);
	CHECK(connect(fd, (struct sockaddr *)&a, len) == 0);
	CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &hour, sizeof(hour)) == 0);
	CHECK(send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0);
	return fd;
}

/* An engine that sends descriptors with its bytes: to close them must not hold up the shim. */
static void a_descriptor_does_not_block(void)
{
	uint8_t head[FRAME_HEAD];
	int fd;

	if (getuid() != 0)
		SKIP("needs root");
	CHECK(unshare(CLONE_NEWNET) == 0);
	begin();
	fd = slow_socket();
	CHECK(kill(shim_of(bed_shim), SIGSTOP) == 0);
	frame_head_stream(head, MUX_OPEN, 1, MUX_OPEN_SIZE);
	CHECK(io_send(bed_guest, head, sizeof(head), &fd, 1, &e) == 0);
	(void)close(fd);
	CHECK(agent_send_stat(&agent, &e) == 0);
	CHECK(kill(shim_of(bed_shim), SIGCONT) == 0);
	(void)guest_find(AGENT_STAT);
	bed_end();
}

/* Output that no server reads: at most the window for each stream. */
static void output_without_a_reader_is_bounded(void)
{
	static char bytes[MUX_DATA_MAX];
	int fds[3];

	bed_begin();
	for (uint32_t i = 0; i < 60; i++) {
		uint16_t first = (uint16_t)(6 * i + 1);

		bed_spawn(i, "x", AGENT_HOLD, 0);
		CHECK(guest_start_program(first, BED_PIPES) == i);
		(void)bed_hear(AGENT_STARTED);
		bed_take_fds(fds, 3);
		io_close_all(fds, 3); /* the shim has copies */
		for (size_t at = 0; at < MUX_WINDOW; at += sizeof(bytes))
			guest_say(MUX_DATA, (uint16_t)(first + 2), bytes, sizeof(bytes));
	}
	CHECK(agent_send_stat(&agent, &e) == 0);
	(void)guest_find(AGENT_STAT);
	CHECK(memory_of(shim_of(bed_shim)) < (60L * 2 * MUX_WINDOW) + (8L << 20));
	bed_end();
}

/* Random frames, some of them nearly right: the shim answers in the end, or ends its guest. */
static void random_frames_do_no_harm(void)
{
	static const uint16_t types[] = { MUX_DATA,	 MUX_EOF,	MUX_CREDIT,   MUX_RESET,
					  MUX_OPEN,	 AGENT_STARTED, AGENT_EXITED, AGENT_FAILED,
					  AGENT_HELD,	 AGENT_STATED,	GUEST_READY,  GUEST_PONG,
					  GUEST_QUIESCED };
	uint8_t body[300];

	for (int round = 0; round < 40; round++) {
		enum agent_type type = 0;
		struct agent_event v;
		int n;

		begin();
		for (int i = 0; i < 200; i++) {
			uint8_t head[FRAME_HEAD];
			size_t len = rand_below(4) == 0 ? rand_below(sizeof(body)) : 4;

			rand_bytes(body, sizeof(body));
			if (rand_below(2) == 0)
				memset(body, 0, sizeof(body));
			frame_head_stream(head, types[rand_below(COUNT(types))],
					  (uint16_t)rand_below(8), (uint32_t)len);
			if (send(bed_guest, head, sizeof(head), MSG_NOSIGNAL) < 0 ||
			    send(bed_guest, body, len, MSG_NOSIGNAL) < 0)
				break; /* it was ended */
		}
		while ((n = agent_next(&agent, WAIT_MS, &type, &v, &e)) == 1 && type != AGENT_GUEST)
			;
		CHECK(n == 1 && v.stage == BOOT_GUEST_BROKE);
		CHECK(bed_is_over(WAIT_MS));
		bed_end();
	}
}

TEST_MAIN({ "every lie ends the guest", every_lie_ends_the_guest },
	  { "a new guest holds nothing", a_new_guest_holds_nothing },
	  { "an exit is told once", an_exit_is_told_once },
	  { "bytes after a reset are a breach", bytes_after_a_reset_are_a_breach },
	  { "a truncated frame holds up its guest only",
	    a_truncated_frame_holds_up_its_guest_only },
	  { "a flood of OPEN is answered", a_flood_of_opens_is_answered },
	  { "the cell's own addresses are refused", the_cells_own_addresses_are_refused },
	  { "a guest that does not read", a_guest_that_does_not_read },
	  { "a descriptor does not block", a_descriptor_does_not_block },
	  { "output without a reader is bounded", output_without_a_reader_is_bounded },
	  { "random frames do no harm", random_frames_do_no_harm })
