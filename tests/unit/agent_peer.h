/* agent_peer.h - a test that plays PID 1 of a cell towards agent_client.h, on a socketpair, with
 * raw sendmsg(2). begin(), then say*() and next(), then end(), which checks that no descriptor has
 * leaked. */
#pragma once

#include "cell/cellctl/agent_client.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "lib/base/io.h"
#include "support.h"

#define MESSAGE (FRAME_HEAD + sizeof(struct agent_event))
#define FDS_MAX 64

static struct agent agent;
static int pid1 = -1;  /* our end of the hostile side */
static int fds_before; /* descriptors at the start */

static inline void begin(void)
{
	int pair[2];

	fds_before = count_fds();
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	agent_init(&agent, pair[0]);
	pid1 = pair[1];
}

static inline void hang_up(void)
{
	if (pid1 >= 0)
		(void)close(pid1);
	pid1 = -1;
}

static inline void end(void)
{
	hang_up();
	agent_release(&agent);
	CHECK(agent.sock == -1 && agent.nfds == 0);
	CHECK(count_fds() == fds_before);
}

static inline void make_message(uint8_t ret[MESSAGE], unsigned type, const struct agent_event *v)
{
	frame_head(ret, (uint16_t)type, sizeof(*v));
	memcpy(ret + FRAME_HEAD, v, sizeof(*v));
}

/* Sends bytes with descriptors, as many as the kernel allows. */
static inline void say(const void *bytes, size_t len, const int *fds, size_t nfds)
{
	static char space[CMSG_SPACE(FDS_MAX * sizeof(int))];
	struct iovec iov = { .iov_base = (void *)(uintptr_t)bytes, .iov_len = len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr c = { .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };

	CHECK(nfds <= FDS_MAX);
	memset(space, 0, sizeof(space));
	if (nfds > 0) {
		c.cmsg_len = (__typeof__(c.cmsg_len))CMSG_LEN(nfds * sizeof(int));
		memcpy(space, &c, sizeof(c));
		memcpy(space + CMSG_LEN(0), fds, nfds * sizeof(int));
		m.msg_control = space;
		m.msg_controllen = (__typeof__(m.msg_controllen))CMSG_SPACE(nfds * sizeof(int));
	}
	CHECK(syscall(SYS_sendmsg, pid1, &m, MSG_NOSIGNAL) == (long)len);
}

static inline void say_event(unsigned type, const struct agent_event *v, const int *fds,
			     size_t nfds)
{
	uint8_t bytes[MESSAGE];

	make_message(bytes, type, v);
	say(bytes, sizeof(bytes), fds, nfds);
}

static const struct agent_event event = { .handle = 1, .pid = 2 };

/* A STARTED that so many descriptors belong to. */
static inline struct agent_event started(size_t nfds)
{
	struct agent_event v = event;

	v.flags = nfds == 1 ? AGENT_IS_TTY : nfds == 3 ? AGENT_HAS_STDIN : 0;
	return v;
}

__attribute__((unused)) static const struct agent_event three = { .handle = 1,
								  .pid = 2,
								  .flags = AGENT_HAS_STDIN };

static inline void say_started(const int *fds, size_t nfds)
{
	const struct agent_event v = started(nfds);

	say_event(AGENT_STARTED, &v, fds, nfds);
}

static inline int next(bool wait, enum agent_type *ret_type)
{
	struct agent_event v;
	struct err e = { 0 };
	enum agent_type type = 0;
	int got = agent_next(&agent, wait ? 5000 : 0, &type, &v, &e);

	CHECK(got >= -1 && got <= 1);
	CHECK((got < 0) == (e.code != ERR_NONE));
	CHECK(got < 1 || (type >= AGENT_READY && type < AGENT_EVENTS_END));
	if (ret_type != NULL)
		*ret_type = type;
	return got;
}

/* Ends of pipes as PID 1 would send them, three with a stdin; the other ends are closed. */
static inline void make_pipes(int *ret, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int ends[2], mine = n == 3 && i == 0 ? 1 : 0;

		CHECK(pipe2(ends, O_CLOEXEC) == 0);
		ret[i] = ends[mine];
		(void)close(ends[1 - mine]);
	}
}
