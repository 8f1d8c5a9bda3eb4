/* Goal: PID 1 of a cell may have been taken over. Whatever bytes it sends, the outside gets a
 * message that is well formed or -1, and nothing leaks. */
#include "agent_peer.h"

static void takes_every_message(void)
{
	for (unsigned type = AGENT_READY; type < AGENT_EVENTS_END; type++) {
		bool with = type == AGENT_STARTED || type == AGENT_HELD;
		struct agent_event sent = { .handle = type,
					    .pid = UINT32_MAX,
					    .stage = 2,
					    .sys = 13,
					    .exit_code = 9,
					    .cpu_us = UINT64_MAX,
					    .processes = UINT64_MAX };
		struct agent_event v;
		enum agent_type got;
		struct err e = { 0 };
		int fds[3];

		begin();
		sent.flags =
			(with ? AGENT_HAS_STDIN : 0U) | (type == AGENT_HELD ? AGENT_IS_HELD : 0U);
		make_pipes(fds, 3);
		say_event(type, &sent, fds, with ? 3 : 0);
		io_close_all(fds, 3);
		CHECK(agent_next(&agent, 5000, &got, &v, &e) == 1);
		CHECK(got == (enum agent_type)type && memcmp(&v, &sent, sizeof(v)) == 0);
		CHECK(agent.nfds == (with ? 3 : 0));
		CHECK(next(false, NULL) == 0); /* and no second one */
		end();
	}
}

static void messages_in_a_row_stay_apart(void)
{
	enum agent_type type;
	int fds[3];

	begin();
	make_pipes(fds, 3);
	say_event(AGENT_READY, &event, NULL, 0);
	say_started(fds, 3);
	say_event(AGENT_EXITED, &event, NULL, 0);
	io_close_all(fds, 3);
	CHECK(next(true, &type) == 1 && type == AGENT_READY && agent.nfds == 0);
	CHECK(next(true, &type) == 1 && type == AGENT_STARTED && agent.nfds == 3);
	io_close_all(agent.fds, 3);
	agent.nfds = 0;
	CHECK(next(false, &type) == 1 && type == AGENT_EXITED);
	CHECK(next(false, &type) == 0);
	hang_up();
	CHECK(next(false, &type) == -1);
	CHECK(next(true, &type) == -1);
	end();
}

/* The descriptors with any of the bytes; each message is there with its last byte and not before.
 */
static void takes_it_byte_by_byte(void)
{
	for (size_t with = 0; with < MESSAGE; with++) {
		uint8_t bytes[MESSAGE];
		int fds[3];

		begin();
		make_pipes(fds, 3);
		make_message(bytes, AGENT_STARTED, &three);
		for (size_t i = 0; i < MESSAGE; i++) {
			CHECK(next(false, NULL) == 0);
			say(bytes + i, 1, fds, i == with ? 3 : 0);
		}
		io_close_all(fds, 3);
		CHECK(next(false, NULL) == 1 && agent.nfds == 3);
		end();
	}
}

static void an_end_in_the_middle_is_an_end(void)
{
	for (size_t cut = 0; cut < MESSAGE; cut++)
		for (int wait = 0; wait < 2; wait++) {
			uint8_t bytes[MESSAGE];
			int fds[3];

			begin();
			make_pipes(fds, 3);
			make_message(bytes, AGENT_STARTED, &three);
			if (cut > 0)
				say(bytes, cut, fds, 3);
			io_close_all(fds, 3);
			hang_up();
			CHECK(next(wait, NULL) == -1);
			end();
		}
}

static void unknown_types_are_refused(void)
{
	static const unsigned types[] = { 0,
					  AGENT_SPAWN,
					  AGENT_SIGNAL,
					  AGENT_KILL_ALL,
					  AGENT_READY - 1,
					  AGENT_EVENTS_END,
					  AGENT_REQUESTS_END,
					  0x140,
					  0xffff };

	for (size_t i = 0; i < COUNT(types); i++)
		for (size_t n = 0; n <= 1; n++) {
			int fd;

			begin();
			make_pipes(&fd, 1);
			say_event(types[i], &event, &fd, n);
			io_close_all(&fd, 1);
			CHECK(next(true, NULL) == -1);
			end();
		}
}

/* Whatever length the head announces, with fewer bytes, as many and more: only the exact one
 * passes. */
static void wrong_sizes_are_refused(void)
{
	static uint8_t bytes[FRAME_HEAD + 2 * AGENT_REPLY_MAX];
	static const uint32_t lengths[] = { 0,		1,	    7,		8,
					    103,	104,	    105,	500,
					    1023,	1024,	    1025,	65536,
					    0x7fffffff, 0x80000000, UINT32_MAX, UINT32_MAX - 7 };
	static const size_t sizes[] = { 8,	 9,	      50,  MESSAGE - 1,
					MESSAGE, MESSAGE + 1, 600, sizeof(bytes) };

	for (size_t i = 0; i < COUNT(lengths); i++)
		for (size_t k = 0; k < COUNT(sizes); k++) {
			bool good = lengths[i] == sizeof(struct agent_event) && sizes[k] >= MESSAGE;

			begin();
			frame_head(bytes, AGENT_EXITED, lengths[i]);
			say(bytes, sizes[k], NULL, 0);
			hang_up();
			CHECK(next(true, NULL) == (good ? 1 : -1));
			CHECK(!good ||
			      next(true, NULL) == -1); /* zeros follow, which are no message */
			end();
		}
}

/* A size that cannot be right is known from the head; the rest is not waited for. */
static void a_wrong_size_is_known_at_once(void)
{
	static const uint32_t lengths[] = { AGENT_REPLY_MAX + 1, UINT32_MAX, 0 };
	uint8_t head[FRAME_HEAD];

	for (size_t i = 0; i < COUNT(lengths); i++) {
		begin();
		frame_head(head, AGENT_EXITED, lengths[i]);
		say(head, sizeof(head), NULL, 0);
		CHECK(next(false, NULL) == -1);
		end();
	}
	begin();
	frame_head(head, AGENT_EXITED, sizeof(struct agent_event));
	head[7] = 1;
	say(head, sizeof(head), NULL, 0);
	CHECK(next(false, NULL) == -1);
	end();
}

static void values_out_of_range_are_refused(void)
{
	const struct agent_event bad[] = {
		{ .stage = BOOT_STAGES }, { .sys = -1 },
		{ .sys = 4096 },	  { .exit_code = 256 },
		{ .signal = 65 },	  { .timed_out = 2 },
		{ .flags = 1U << 7 },	  { .flags = AGENT_SOME_REMAIN | AGENT_NOT_KNOWN },
	};

	for (size_t i = 0; i < COUNT(bad); i++)
		for (unsigned type = AGENT_READY; type < AGENT_EVENTS_END; type++) {
			bool with = type == AGENT_STARTED || type == AGENT_HELD;
			struct agent_event v = bad[i];
			int fds[3];

			begin();
			make_pipes(fds, 3);
			/* All else is right. */
			v.flags |= with ? AGENT_IS_HELD | AGENT_HAS_STDIN : 0;
			say_event(type, &v, fds, with ? 3 : 0);
			io_close_all(fds, 3);
			CHECK(next(true, NULL) == -1);
			end();
		}
}

TEST_MAIN({ "takes every message", takes_every_message },
	  { "messages in a row stay apart", messages_in_a_row_stay_apart },
	  { "takes it byte by byte", takes_it_byte_by_byte },
	  { "an end in the middle is an end", an_end_in_the_middle_is_an_end },
	  { "unknown types are refused", unknown_types_are_refused },
	  { "wrong sizes are refused", wrong_sizes_are_refused },
	  { "a wrong size is known at once", a_wrong_size_is_known_at_once },
	  { "values out of range are refused", values_out_of_range_are_refused })
