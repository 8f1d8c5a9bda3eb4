/* evil_init.c - a PID 1 that has been taken over: speaks channel B, and lies. The tests put it in
 * the place of cordon-init; how it lies is a word in the file itself, which they overwrite, since
 * nothing else reaches a cell. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#include "lib/wire/agent_msg.h"
#include "lib/base/io.h"

#define CHANNEL 3

static volatile char how[32] = "HOW:................"; /* the tests look for these bytes */

static bool is(const char *word)
{
	for (size_t i = 0; word[i] != '\0'; i++)
		if (how[4 + i] != word[i])
			return false;
	return true;
}

static void NORETURN wait_for_ever(void)
{
	for (;;)
		(void)poll(NULL, 0, -1);
}

static void say(enum agent_type type, struct agent_event v, const int *fds, size_t nfds)
{
	uint8_t bytes[FRAME_HEAD + sizeof(v)];
	struct err e;

	frame_head(bytes, (uint16_t)type, sizeof(v));
	memcpy(bytes + FRAME_HEAD, &v, sizeof(v));
	if (io_send(CHANNEL, bytes, sizeof(bytes), fds, nfds, &e) < 0)
		_exit(1);
}

/* The frame that came, with its descriptor. */
static uint16_t hear(uint8_t *body, size_t cap, int *ret_fd)
{
	uint8_t head[FRAME_HEAD];
	size_t have = 0, nfds = 0;
	uint32_t len;
	uint16_t type;
	struct err e;

	*ret_fd = -1;
	while (have < sizeof(head)) {
		ssize_t n =
			io_recv(CHANNEL, head + have, sizeof(head) - have, ret_fd, 1, &nfds, &e);

		if (n <= 0)
			wait_for_ever(); /* who is really taken over does not end by itself */
		have += (size_t)n;
	}
	memcpy(&len, head, sizeof(len));
	memcpy(&type, head + 4, sizeof(type));
	for (have = 0; have < len;) {
		uint8_t over[4096];
		size_t room = have < cap ? cap - have : sizeof(over);
		ssize_t n = read(CHANNEL, have < cap ? body + have : over,
				 len - have < room ? len - have : room);

		if (n <= 0)
			wait_for_ever();
		have += (size_t)n;
	}
	return type;
}

static void NORETURN garbage(void)
{
	uint8_t bytes[4096];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 167 + 13);
	IGNORED(write(CHANNEL, bytes, sizeof(bytes)), "whatever arrives");
	wait_for_ever();
}

static void NORETURN huge_frame(void)
{
	static const uint8_t head[FRAME_HEAD] = { 0xff, 0xff, 0xff, 0xff, AGENT_STATED };

	IGNORED(write(CHANNEL, head, sizeof(head)), "whatever arrives");
	wait_for_ever();
}

static void NORETURN flood(void)
{
	struct agent_event v = { .disk_bytes = 1 };

	for (;;)
		say(AGENT_STATED, v, NULL, 0);
}

/* Pipes with nothing in them, and made to block behind the reader's back, again and again. */
static void NORETURN blocking(uint32_t handle, bool builtin)
{
	int in[2], out[2], err[2], ends[3];
	const struct timespec moment = { .tv_nsec = 200000 };
	struct agent_event v = { .handle = handle,
				 .pid = 2,
				 .flags = AGENT_HAS_STDIN | (builtin ? 0 : AGENT_IS_HELD) };

	if (pipe(in) < 0 || pipe(out) < 0 || pipe(err) < 0)
		_exit(1);
	ends[0] = in[1];
	ends[1] = out[0];
	ends[2] = err[0];
	say(AGENT_STARTED, v, ends, 3);
	for (unsigned i = 0;; i++) {
		for (int k = 0; k < 3; k++)
			(void)fcntl(ends[k], F_SETFL, 0);
		/* something to read, which is gone when the reader comes */
		if (i % 2 == 0)
			IGNORED(write(out[1], "x", 1), "it is full, then");
		else
			IGNORED(read(out[0], &v, 1), "taken, or not");
		(void)nanosleep(&moment, NULL);
	}
}

static void NORETURN wrong_fds(uint32_t handle)
{
	int file = memfd_create("no pipe", 0), ends[2] = { file, file };
	struct agent_event v = { .handle = handle, .pid = 2, .flags = AGENT_IS_HELD };

	say(AGENT_STARTED, v, ends, 2);
	wait_for_ever();
}

/* Every message is well-formed, and none is true. */
static void lies(uint32_t handle)
{
	struct agent_event v = { .handle = handle + 1000, .pid = 7 };

	say(AGENT_EXITED, v, NULL, 0);
	say(AGENT_TREE_DEAD, v, NULL, 0);
	say(AGENT_ALL_DEAD, (struct agent_event){ 0 }, NULL, 0);
	say(AGENT_SYNCED, (struct agent_event){ 0 }, NULL, 0);
	say(AGENT_LINGERING, (struct agent_event){ .sys = EPERM }, NULL, 0);
	v.handle = handle;
	say(AGENT_EXITED, v, NULL, 0); /* before it started */
	v.exit_code = 3;
	say(AGENT_EXITED, v, NULL, 0); /* and again */
}

static void on_spawn(uint32_t handle, uint32_t flags)
{
	if (is("garbage"))
		garbage();
	if (is("huge"))
		huge_frame();
	if (is("flood"))
		flood();
	if (is("fds"))
		wrong_fds(handle);
	if (is("block"))
		blocking(handle, (flags & AGENT_BUILTIN) != 0);
	if (is("lies"))
		lies(handle);
}

int main(void)
{
	static uint8_t body[4096];
	int fd;

	if (is("early"))
		garbage();
	if (is("silent"))
		wait_for_ever();
	say(AGENT_READY, (struct agent_event){ .pid = AGENT_VERSION }, NULL, 0);
	for (;;) {
		uint16_t type = hear(body, sizeof(body), &fd);
		uint32_t words[2];

		if (type == AGENT_LINGER) {
			int failed = listen(fd, 8) < 0 ? errno : 0;

			say(AGENT_LINGERING, (struct agent_event){ .sys = failed }, NULL, 0);
			if (is("deaf"))
				wait_for_ever();
		} else if (type == AGENT_SPAWN) {
			memcpy(words, body, sizeof(words)); /* as agent_spawn_write() puts them */
			on_spawn(words[0], words[1]);
		}
	}
}
