/* hostile_init.c - a PID 1 that was taken over: it stands in for cordon-init in the cells of a
 * test's server (test_attacks.py) and does what no cordon-init does. Which attack, a word in the
 * command or the path says that the server sends; without one it behaves, as far as the test needs.
 *
 * Nothing here is checked: it is the attacker's. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/wire/agent_msg.h"
#include "lib/wire/file_msg.h"
#include "hostile_dial.h"
#include "lib/base/io.h"

#define HELD_MANY 20000

static int channel = 3, listener = -1;
static uint8_t body[AGENT_REQUEST_MAX + FRAME_HEAD];

/* n descriptors go along. */
static void say(enum agent_type type, const struct agent_event *v, const int *fds, size_t n)
{
	uint8_t bytes[FRAME_HEAD + sizeof(*v)];
	struct err e;

	frame_head(bytes, (uint16_t)type, sizeof(*v));
	memcpy(bytes + FRAME_HEAD, v, sizeof(*v));
	IGNORED(io_send(channel, bytes, sizeof(bytes), fds, n, &e), "it is gone, then");
}

/* Pipes as the outside wants them: its ends in outside, ours in inside. */
static void make_pipes(int outside[3], int inside[3])
{
	for (int i = 0; i < 3; i++) {
		int ends[2];

		if (pipe2(ends, O_CLOEXEC) < 0)
			_exit(1);
		outside[i] = ends[i == 0];
		inside[i] = ends[i != 0];
	}
}

static void started(uint32_t handle, uint32_t pid, int inside[3])
{
	int outside[3];

	make_pipes(outside, inside);
	say(AGENT_STARTED,
	    &(struct agent_event){ .handle = handle, .pid = pid, .flags = AGENT_HAS_STDIN },
	    outside, 3);
	for (int i = 0; i < 3; i++)
		(void)close(outside[i]);
}

static void exited(uint32_t handle)
{
	say(AGENT_EXITED, &(struct agent_event){ .handle = handle }, NULL, 0);
}

static void put(int fd, const void *bytes, size_t n)
{
	while (n > 0) {
		ssize_t done = write(fd, bytes, n);

		if (done <= 0)
			return;
		bytes = (const char *)bytes + done;
		n -= (size_t)done;
	}
}

static void put_record(int fd, const struct file_msg *m)
{
	static uint8_t bytes[FILE_MSG_MAX];

	put(fd, bytes, file_msg_write(m, bytes));
}

static void put_entry(int fd, uint64_t size)
{
	put_record(fd, &(struct file_msg){ .kind = FILE_MSG_ENTRY,
					   .entry = { .size = size,
						      .mtime_ns = INT64_MIN,
						      .owner = "\x1b[2J",
						      .group = "\n",
						      .path = "/x",
						      .target = "" } });
}

/* ---- attacks of a program's start */

/* The same program starts again and again; afterwards all its pipes speak. */
static void start_often(uint32_t handle)
{
	int inside[40][3];

	for (int i = 0; i < 40; i++)
		started(handle, 0, inside[i]);
	exited(handle);
	(void)usleep(300000);
	for (int i = 0; i < 40; i++)
		for (int k = 0; k < 3; k++) {
			put(inside[i][k], "late", k > 0 ? 4 : 0);
			(void)close(inside[i][k]);
		}
}

/* A terminal nobody reads, that blocks who writes to it: we hold the same open file. */
static void start_terminal(uint32_t handle)
{
	int unlock = 0, master = open("/dev/ptmx", O_RDWR | O_NOCTTY), slave;

	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return;
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY);
	say(AGENT_STARTED,
	    &(struct agent_event){
		    .handle = handle, .pid = 7, .flags = AGENT_IS_TTY | AGENT_HAS_STDIN },
	    &master, 1);
	for (int i = 0; i < 50; i++) {
		(void)usleep(10000);
		(void)fcntl(master, F_SETFL, O_RDWR);
	}
	(void)slave;
}

static void start_after_end(uint32_t handle)
{
	int inside[3];

	exited(handle);
	started(handle, 9, inside);
	put(inside[1], "from the grave\n", 15);
	exited(handle);
}

static void lie(uint32_t handle)
{
	int inside[3];

	started(handle, 0x7fffffff, inside);
	put(inside[1], "true\n", 5);
	for (int i = 0; i < 3; i++)
		(void)close(inside[i]);
	say(AGENT_STATED,
	    &(struct agent_event){ .disk_bytes = UINT64_MAX,
				   .inodes = UINT64_MAX,
				   .processes = UINT64_MAX,
				   .disk_limit_bytes = UINT64_MAX },
	    NULL, 0);
	say(AGENT_EXITED,
	    &(struct agent_event){ .handle = handle,
				   .exit_code = 255,
				   .cpu_us = UINT64_MAX,
				   .maxrss_bytes = UINT64_MAX,
				   .disk_full = UINT64_MAX,
				   .mark = UINT64_MAX },
	    NULL, 0);
}

/* Descriptors of every wrong kind, with a message that may have some. */
static void send_wrong(uint32_t handle)
{
	int fds[3] = { open("/dev/zero", O_RDONLY), open("/", O_RDONLY), channel };

	say(AGENT_STARTED,
	    &(struct agent_event){ .handle = handle, .pid = 5, .flags = AGENT_HAS_STDIN }, fds, 3);
}

static void babble(void)
{
	uint8_t bytes[256];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 37 + 11);
	put(channel, bytes, sizeof(bytes));
}

/* ---- attacks of a built-in's answer */

static void answer_twice(int out)
{
	put_entry(out, 10);
	for (int i = 0; i < 2; i++) {
		put_record(out, &(struct file_msg){ .kind = FILE_MSG_DATA, .data.len = 10 });
		put(out, "0123456789", 10);
	}
}

/* More than anybody takes, from several at once, so that the pipe is never empty. */
static void flood(int out)
{
	static char bytes[65536];

	put_entry(out, 1);
	put(out, "\xff\xff\xff\xff\xff", 5);
	for (int i = 0; i < 3; i++)
		if (fork() == 0)
			for (;;)
				if (write(out, bytes, sizeof(bytes)) < 0)
					_exit(0);
}

static void wait_while_full(int out)
{
	for (int same = 0, before = -1, now = 0; same < 20; before = now) {
		(void)usleep(10000);
		(void)ioctl(out, FIONREAD, &now);
		same = now == before && now > 0 ? same + 1 : 0;
	}
}

/* While the client is slow the pipe loses its last writer, and then gets one again. */
static void hang_up(uint32_t handle)
{
	static char bytes[65536];
	int outside[3], inside[3], again;
	char path[32];
	bool full = false;

	make_pipes(outside, inside);
	say(AGENT_STARTED,
	    &(struct agent_event){ .handle = handle, .pid = 5, .flags = AGENT_HAS_STDIN }, outside,
	    3);
	put_entry(inside[1], 1U << 30);
	put_record(inside[1], &(struct file_msg){ .kind = FILE_MSG_DATA, .data.len = 1U << 30 });
	(void)fcntl(inside[1], F_SETFL, O_WRONLY | O_NONBLOCK);
	while (!full) {
		struct pollfd p = { .fd = inside[1], .events = POLLOUT };

		full = poll(&p, 1, 500) == 0;
		if (!full)
			(void)write(inside[1], bytes, sizeof(bytes));
	}
	wait_while_full(outside[1]);
	(void)close(inside[1]);
	(void)usleep(300000);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", outside[1]);
	again = open(path, O_WRONLY | O_NONBLOCK);
	(void)sleep(30);
	(void)close(again);
	_exit(0);
}

static void answer(uint32_t handle, const char *path)
{
	int inside[3];

	if (strstr(path, "hangup") != NULL) {
		if (fork() == 0)
			hang_up(handle);
		return;
	}
	started(handle, 5, inside);
	if (strstr(path, "twice") != NULL)
		answer_twice(inside[1]);
	if (strstr(path, "flood") != NULL) {
		flood(inside[1]);
		return;
	}
	for (int i = 0; i < 3; i++)
		(void)close(inside[i]);
	if (strstr(path, "endless") == NULL)
		exited(handle);
}

/* ---- the channel */

static void spawn(const uint8_t *bytes, size_t len)
{
	struct agent_spawn s;
	struct err e;
	const char *last;

	if (agent_spawn_read(bytes, len, &s, &e) < 0)
		_exit(1);
	last = s.strings;
	if ((s.flags & AGENT_BUILTIN) != 0) {
		answer(s.handle, last + strlen(last) + 1);
		return;
	}
	for (uint32_t i = 1; i < s.argc; i++)
		last += strlen(last) + 1;
	if (strstr(last, "often") != NULL)
		start_often(s.handle);
	else if (strstr(last, "terminal") != NULL)
		start_terminal(s.handle);
	else if (strstr(last, "grave") != NULL)
		start_after_end(s.handle);
	else if (strstr(last, "wrong") != NULL)
		send_wrong(s.handle);
	else if (strstr(last, "babble") != NULL)
		babble();
	else
		lie(s.handle);
}

static bool take(void *to, size_t n, int *ret_fd)
{
	char *at = to;

	while (n > 0) {
		char control[CMSG_SPACE(sizeof(int))];
		struct iovec iov = { at, n };
		struct msghdr m = { .msg_iov = &iov,
				    .msg_iovlen = 1,
				    .msg_control = control,
				    .msg_controllen = sizeof(control) };
		ssize_t got = recvmsg(channel, &m, MSG_CMSG_CLOEXEC);
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);

		if (got <= 0)
			return false;
		if (c != NULL)
			memcpy(ret_fd, CMSG_DATA(c), sizeof(int));
		at += got;
		n -= (size_t)got;
	}
	return true;
}

static bool obey(void)
{
	struct {
		uint32_t len;
		uint16_t type, zero;
	} head;
	int fd = -1;

	if (!take(&head, sizeof(head), &fd) || head.len > sizeof(body) ||
	    !take(body, head.len, &fd))
		return false;
	if (head.type == AGENT_SPAWN)
		spawn(body, head.len);
	if (head.type == AGENT_DIAL) {
		struct agent_order o;

		memcpy(&o, body, sizeof(o));
		dial_hostile(channel, o.handle, o.port);
	}
	if (head.type == AGENT_LINGER) {
		listener = fd;
		(void)listen(listener, 1);
		say(AGENT_LINGERING, &(struct agent_event){ 0 }, NULL, 0);
	}
	if (head.type == AGENT_END)
		_exit(0);
	return true;
}

/* Holds more programs than anybody ever started, and never says which is the last. */
static void greet_again(void)
{
	say(AGENT_READY, &(struct agent_event){ .pid = AGENT_VERSION }, NULL, 0);
	for (uint32_t i = 1; i <= HELD_MANY; i++) {
		int outside[3], inside[3];

		make_pipes(outside, inside);
		say(AGENT_HELD,
		    &(struct agent_event){ .handle = i,
					   .pid = 5,
					   .flags = AGENT_IS_HELD | AGENT_HAS_STDIN |
						    AGENT_HAS_EXITED },
		    outside, 3);
		for (int k = 0; k < 3; k++) {
			(void)close(outside[k]);
			(void)close(inside[k]);
		}
	}
}

int main(void)
{
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGCHLD, SIG_IGN);
	say(AGENT_READY, &(struct agent_event){ .pid = AGENT_VERSION }, NULL, 0);
	for (;;) {
		struct pollfd next = { .events = POLLIN };

		while (obey())
			;
		if (listener < 0)
			return 0;
		(void)close(channel);
		next.fd = listener;
		(void)poll(&next, 1, -1);
		channel = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (channel < 0)
			return 0;
		greet_again();
	}
}
