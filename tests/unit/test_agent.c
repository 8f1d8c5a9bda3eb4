/* Goal: PID 1 of a cell may have been taken over. Whatever it says, we get a message that is well
 * formed or -1, and when we let go of it, nothing has leaked.
 *
 * The test plays PID 1 on a socketpair, with raw sendmsg(2). */
#include "agent_client.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

#include "clock.h"
#include "io.h"
#include "support.h"

#define MESSAGE (FRAME_HEAD + sizeof(struct agent_event))
#define FDS_MAX 64

static struct agent agent;
static int pid1 = -1; /* our end of the hostile side */
static int before;    /* descriptors at the start */

static void begin(void)
{
	int pair[2];

	before = count_fds();
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	agent_init(&agent, pair[0]);
	pid1 = pair[1];
}

static void hang_up(void)
{
	if (pid1 >= 0)
		(void)close(pid1);
	pid1 = -1;
}

static void end(void)
{
	hang_up();
	agent_release(&agent);
	CHECK(agent.sock == -1 && agent.nfds == 0);
	CHECK(count_fds() == before);
}

static void make_message(uint8_t ret[MESSAGE], unsigned type, const struct agent_event *v)
{
	frame_head(ret, (uint16_t)type, sizeof(*v));
	memcpy(ret + FRAME_HEAD, v, sizeof(*v));
}

/* Sends bytes with descriptors, as many as the kernel allows. */
static void say(const void *bytes, size_t len, const int *fds, size_t nfds)
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

static void say_event(unsigned type, const struct agent_event *v, const int *fds, size_t nfds)
{
	uint8_t bytes[MESSAGE];

	make_message(bytes, type, v);
	say(bytes, sizeof(bytes), fds, nfds);
}

static const struct agent_event event = { .handle = 1, .pid = 2 };

/* A STARTED that so many descriptors belong to. */
static struct agent_event started(size_t nfds)
{
	struct agent_event v = event;

	v.flags = nfds == 1 ? AGENT_IS_TTY : nfds == 3 ? AGENT_HAS_STDIN : 0;
	return v;
}

static const struct agent_event three = { .handle = 1, .pid = 2, .flags = AGENT_HAS_STDIN };

static void say_started(const int *fds, size_t nfds)
{
	const struct agent_event v = started(nfds);

	say_event(AGENT_STARTED, &v, fds, nfds);
}

static int next(bool wait, enum agent_type *ret_type)
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
static void make_pipes(int *ret, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int ends[2], mine = n == 3 && i == 0 ? 1 : 0;

		CHECK(pipe2(ends, O_CLOEXEC) == 0);
		ret[i] = ends[mine];
		(void)close(ends[1 - mine]);
	}
}

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

/* The caller takes them; they must not block, and not be inherited. */
static void descriptors_come_ready_for_use(void)
{
	int fds[3], taken[3];

	begin();
	make_pipes(fds, 3);
	say_started(fds, 3);
	CHECK(next(true, NULL) == 1 && agent.nfds == 3);
	for (size_t i = 0; i < 3; i++) {
		struct stat a, b;

		CHECK((fcntl(agent.fds[i], F_GETFL) & O_NONBLOCK) != 0);
		CHECK((fcntl(agent.fds[i], F_GETFD) & FD_CLOEXEC) != 0);
		CHECK(fstat(agent.fds[i], &a) == 0 && fstat(fds[i], &b) == 0 &&
		      a.st_ino == b.st_ino);
	}
	memcpy(taken, agent.fds, sizeof(taken));
	agent.nfds = 0;
	io_close_all(fds, 3);
	io_close_all(taken, 3);
	say_event(AGENT_EXITED, &event, NULL, 0);
	CHECK(next(true, NULL) == 1);
	end();
}

static void two_pipes_are_enough(void)
{
	int fds[2];

	begin();
	make_pipes(fds, 2);
	say_started(fds, 2); /* a program without stdin */
	io_close_all(fds, 2);
	CHECK(next(true, NULL) == 1 && agent.nfds == 2);
	end();
}

static void a_pty_master_comes_alone(void)
{
	int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), fds[3];

	if (master < 0)
		SKIP("no PTY to be had here");
	begin();
	say_started(&master, 1);
	CHECK(next(true, NULL) == 1 && agent.nfds == 1);
	CHECK((fcntl(agent.fds[0], F_GETFL) & O_NONBLOCK) != 0);
	end();
	for (size_t n = 2; n <= 3; n++)
		for (size_t which = 0; which < n; which++) {
			begin();
			make_pipes(fds, n);
			(void)close(fds[which]);
			fds[which] = fcntl(master, F_DUPFD_CLOEXEC, 3);
			say_started(fds, n);
			io_close_all(fds, n);
			CHECK(next(true, NULL) == -1);
			end();
		}
	(void)close(master);
}

static int open_slave(void)
{
	int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), unlock = 0;
	int slave = -1;

	if (master >= 0 && ioctl(master, TIOCSPTLCK, &unlock) == 0)
		slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (master >= 0)
		(void)close(master);
	return slave;
}

static int open_fifo_path(void)
{
	char dir[] = "/tmp/cordon-test-agent-XXXXXX", path[64];
	int fd;

	CHECK(mkdtemp(dir) != NULL);
	(void)snprintf(path, sizeof(path), "%s/fifo", dir);
	CHECK(mkfifo(path, 0600) == 0);
	fd = open(path, O_PATH | O_CLOEXEC);
	CHECK(unlink(path) == 0 && rmdir(dir) == 0);
	return fd;
}

/* One of each kind of file there is, but the two that are wanted. */
static int open_kind(int kind)
{
	switch (kind) {
	case 0:
		return open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	case 1:
		return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	case 2:
		return open("/dev/null", O_RDWR | O_CLOEXEC);
	case 3:
		return open("/dev/zero", O_RDWR | O_CLOEXEC);
	case 4:
		return open_slave();
	case 5:
		return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	case 6:
		return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	case 7:
		return eventfd(0, EFD_CLOEXEC);
	case 8:
		return epoll_create1(EPOLL_CLOEXEC);
	case 9:
		return timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	case 10:
		return memfd_create("x", MFD_CLOEXEC);
	case 11:
		return open_fifo_path(); /* a name for a pipe is no pipe */
	case 12:
		return open("/dev/ptmx", O_PATH | O_CLOEXEC);
	case 13:
		return open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	case 14:
		return fcntl(pid1, F_DUPFD_CLOEXEC,
			     3); /* the channel itself, so that it never ends */
	default:
		return -1;
	}
}

static void other_kinds_of_files_are_refused(void)
{
	for (int kind = 0; kind < 15; kind++)
		for (size_t n = 1; n <= 3; n++)
			for (size_t which = 0; which < n; which++) {
				int fds[3];

				begin();
				make_pipes(fds, n);
				(void)close(fds[which]);
				fds[which] = open_kind(kind);
				if (fds[which] < 0)
					printf("# kind %d: %s\n", kind, strerror(errno));
				CHECK(fds[which] >= 0);
				say_started(fds, n);
				io_close_all(fds, n);
				int got = next(true, NULL);

				if (got != -1)
					printf("# kind %d, %zu of %zu\n", kind, which, n);
				CHECK(got == -1);
				end();
			}
}

static void descriptors_are_counted(void)
{
	int fds[FDS_MAX];

	for (size_t n = 0; n <= FDS_MAX; n++) {
		begin();
		make_pipes(fds, n);
		say_started(fds, n);
		io_close_all(fds, n);
		/* One pipe is no PTY. */
		CHECK(next(true, NULL) == (n >= 2 && n <= AGENT_FDS ? 1 : -1));
		end();
	}
}

static void descriptors_come_with_started_only(void)
{
	for (unsigned type = AGENT_READY; type < AGENT_EVENTS_END; type++)
		for (size_t n = 1; n <= 3; n++) {
			int fds[3];

			if (type == AGENT_STARTED || type == AGENT_HELD)
				continue;
			begin();
			make_pipes(fds, n);
			say_event(type, &event, fds, n);
			io_close_all(fds, n);
			CHECK(next(true, NULL) == -1);
			end();
		}
}

static int make_socket(int domain, int type)
{
	int fd = socket(domain, type | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	return fd;
}

/* As PID 1 should send it: and whatever it left set, it is not set when we have it. */
static void a_dialed_socket_is_ready_for_use(void)
{
	static const int domains[] = { AF_INET, AF_INET6 };

	for (size_t i = 0; i < COUNT(domains); i++) {
		struct linger linger = { .l_onoff = 1, .l_linger = 3600 };
		socklen_t len = sizeof(linger);
		int fd, taken;

		begin();
		fd = make_socket(domains[i], SOCK_STREAM);
		CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, len) == 0);
		CHECK(fcntl(fd, F_SETFL, O_ASYNC) == 0);
		say_event(AGENT_DIALED, &event, &fd, 1);
		(void)close(fd);
		CHECK(next(true, NULL) == 1 && agent.nfds == 1);
		taken = agent.fds[0];
		agent.nfds = 0;
		CHECK((fcntl(taken, F_GETFL) & (O_NONBLOCK | O_ASYNC)) == O_NONBLOCK);
		CHECK((fcntl(taken, F_GETFD) & FD_CLOEXEC) != 0);
		CHECK(getsockopt(taken, SOL_SOCKET, SO_LINGER, &linger, &len) == 0);
		CHECK(linger.l_onoff == 0);
		(void)close(taken);
		end();
	}
}

static void only_tcp_sockets_are_dialed(void)
{
	for (int kind = 0; kind < 6; kind++) {
		int pipes[2] = { -1, -1 }, fds[2] = { -1, -1 };

		begin();
		switch (kind) {
		case 0:
			fds[0] = make_socket(AF_INET, SOCK_DGRAM);
			break;
		case 1:
			fds[0] = make_socket(AF_UNIX, SOCK_STREAM);
			break;
		case 2:
			make_pipes(pipes, 2);
			fds[0] = pipes[0];
			break;
		case 3:
			fds[0] = open("/dev/null", O_RDWR | O_CLOEXEC);
			break;
		case 4:
			fds[0] = make_socket(AF_INET, SOCK_STREAM);
			CHECK(listen(fds[0], 1) == 0);
			break;
		default: /* one too many */
			fds[0] = make_socket(AF_INET, SOCK_STREAM);
			fds[1] = make_socket(AF_INET, SOCK_STREAM);
		}
		say_event(AGENT_DIALED, &event, fds, fds[1] >= 0 ? 2 : 1);
		io_close_all(fds, 2);
		io_close_all(pipes + 1, 1);
		CHECK(next(true, NULL) == -1);
		end();
	}
	begin();
	say_event(AGENT_DIALED, &event, NULL, 0); /* success without one */
	CHECK(next(true, NULL) == -1);
	end();
}

/* What a door is made of, and what is not: each in the place of the listener, then of the UDP
 * socket. */
static void a_door_is_a_listener_and_a_udp_socket(void)
{
	static const struct {
		int domain, type;
		bool listens;
	} kinds[] = { { AF_INET6, SOCK_STREAM, true }, { AF_INET6, SOCK_DGRAM, false },
		      { AF_INET, SOCK_STREAM, true },  { AF_INET, SOCK_DGRAM, false },
		      { AF_INET, SOCK_STREAM, false }, { AF_UNIX, SOCK_STREAM, true },
		      { AF_UNIX, SOCK_DGRAM, false } };

	for (size_t i = 0; i < COUNT(kinds) * COUNT(kinds); i++) {
		size_t at[2] = { i / COUNT(kinds), i % COUNT(kinds) };
		bool right = (at[0] == 0 || at[0] == 2) && (at[1] == 1 || at[1] == 3);
		int fds[2];

		begin();
		for (size_t k = 0; k < 2; k++) {
			fds[k] = make_socket(kinds[at[k]].domain, kinds[at[k]].type);
			/* Without a name a Unix socket cannot listen, and is wrong anyway. */
			CHECK(!kinds[at[k]].listens || kinds[at[k]].domain == AF_UNIX ||
			      listen(fds[k], 1) == 0);
		}
		say_event(AGENT_EGRESS_LISTENS, &event, fds, 2);
		io_close_all(fds, 2);
		CHECK(next(true, NULL) == (right ? 1 : -1));
		for (size_t k = 0; right && k < 2; k++)
			CHECK((fcntl(agent.fds[k], F_GETFL) & O_NONBLOCK) != 0);
		end();
	}
	begin();
	say_event(AGENT_EGRESS_LISTENS, &event, NULL, 0); /* success without any */
	CHECK(next(true, NULL) == -1);
	end();
}

/* A socket is closed that is refused, that nobody takes, that is one of too many, or that waits
 * where nobody reads any more. It must not hold us up then. PID 1 had it, too, and is gone. */
static void no_socket_keeps_us_waiting(void)
{
	static const struct {
		unsigned type;
		size_t before, behind; /* messages with it: read, and not */
		size_t copies;
	} cases[] = {
		{ AGENT_STARTED, 1, 0, 1 }, { AGENT_READY, 1, 0, 1 },  { AGENT_DIALED, 1, 0, 1 },
		{ AGENT_READY, 1, 0, 60 },  { AGENT_DIALED, 1, 1, 1 }, { AGENT_DIALED, 0, 3, 1 },
	};
	const struct linger linger = { .l_onoff = 1, .l_linger = 20 };

	for (size_t i = 0; i < COUNT(cases); i++) {
		bool dialed = cases[i].type == AGENT_DIALED;
		uint64_t begun = clock_now_ns();
		int peer, fd, copies[FDS_MAX];

		begin();
		fd = make_lingering(20, &peer);
		for (size_t k = 0; k < cases[i].copies; k++)
			copies[k] = fd;
		for (size_t k = 0; k < cases[i].before + cases[i].behind; k++)
			say_event(cases[i].type, &event, copies, cases[i].copies);
		if (cases[i].before > 0 && cases[i].copies == 1)
			CHECK(next(true, NULL) == (dialed ? 1 : -1));
		CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) == 0);
		(void)close(fd);
		if (cases[i].copies > 1)
			CHECK(next(true, NULL) == -1);
		if (dialed && cases[i].before > 0 && cases[i].behind == 0)
			CHECK(next(false, NULL) == 0 && agent.nfds == 0);
		agent_release(&agent);
		CHECK(clock_now_ns() - begun < 10000 * CLOCK_MS);
		(void)close(peer);
		end();
	}
}

/* What the caller did not take is closed, and not mixed up with what comes later. */
static void descriptors_left_over_are_closed(void)
{
	int fds[2], open_now;

	begin();
	make_pipes(fds, 2);
	say_started(fds, 2);
	say_started(fds, 2);
	say_event(AGENT_EXITED, &event, NULL, 0);
	io_close_all(fds, 2);
	open_now = count_fds();
	CHECK(next(true, NULL) == 1 && agent.nfds == 2);
	CHECK(next(true, NULL) == 1 && agent.nfds == 2);
	CHECK(next(true, NULL) == 1 && agent.nfds == 0);
	CHECK(count_fds() == open_now);
	end();
}

/* A pipe that is written where it should be read would never end, or be read by somebody else. */
static void directions_are_checked(void)
{
	for (size_t n = 2; n <= 3; n++)
		for (size_t which = 0; which < n; which++) {
			int fds[3], ends[2];
			bool reads = n == 3 && which == 0;

			begin();
			make_pipes(fds, n);
			CHECK(pipe2(ends, O_CLOEXEC) == 0);
			(void)close(fds[which]);
			fds[which] = ends[reads ? 0 : 1];
			(void)close(ends[reads ? 1 : 0]);
			say_started(fds, n);
			io_close_all(fds, n);
			CHECK(next(true, NULL) == -1);
			end();
		}
}

/* What the flags say is what must come: every set of flags with every number of pipes. */
static void descriptors_are_as_the_flags_say(void)
{
	for (uint32_t flags = 0; flags <= AGENT_EVENT_FLAGS; flags++)
		for (size_t n = 0; n <= 3; n++) {
			const uint32_t known = AGENT_IS_TTY | AGENT_IS_HELD | AGENT_HAS_STDIN |
					       AGENT_IS_STARTING | AGENT_HAS_EXITED;
			struct agent_event v = event;
			size_t want = (flags & AGENT_IS_TTY) ? 1 : 2;
			int fds[3], ends[2];

			want += (flags & AGENT_HAS_STDIN) != 0;
			want = (flags & AGENT_IS_STARTING) ? 0 : want;
			begin();
			make_pipes(fds, n);
			if (n > 0) {
				(void)close(fds[0]);
				CHECK(pipe2(ends, O_CLOEXEC) == 0);
				fds[0] = ends[(flags & AGENT_HAS_STDIN) ? 1 : 0];
				(void)close(ends[(flags & AGENT_HAS_STDIN) ? 0 : 1]);
			}
			v.flags = flags;
			say_event(AGENT_HELD, &v, fds, n);
			io_close_all(fds, n);
			CHECK(next(true, NULL) ==
			      ((flags & ~known) == 0 && (flags & AGENT_IS_HELD) != 0 &&
					       (~flags & (AGENT_IS_STARTING | AGENT_HAS_EXITED)) !=
						       0 &&
					       n == want
				       ? 1
				       : -1));
			end();
		}
}

/* In pieces: two with the head, two with the body are four. */
static void descriptors_are_counted_over_pieces(void)
{
	for (size_t first = 0; first <= 4; first++)
		for (size_t second = 0; second <= 4; second++) {
			uint8_t bytes[MESSAGE];
			int fds[8];

			begin();
			make_pipes(fds, 3);
			make_pipes(fds + 3, 5);
			make_message(bytes, AGENT_STARTED, &three);
			say(bytes, 30, fds, first);
			say(bytes + 30, sizeof(bytes) - 30, fds + first, second);
			io_close_all(fds, 8);
			hang_up();
			CHECK(next(true, NULL) == (first + second == 3 ? 1 : -1));
			end();
		}
}

/* Descriptors that come with one message do not count for the next in the same write. */
static void descriptors_do_not_wait_for_their_message(void)
{
	uint8_t bytes[2 * MESSAGE];
	int fds[3];

	begin();
	make_pipes(fds, 3);
	make_message(bytes, AGENT_READY, &event);
	make_message(bytes + MESSAGE, AGENT_STARTED, &three);
	say(bytes, sizeof(bytes), fds, 3);
	io_close_all(fds, 3);
	CHECK(next(true, NULL) == -1);
	end();
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

/* A size that cannot be right is known from the head; nobody waits for the rest. */
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
		{ .stage = AGENT_STAGES }, { .sys = -1 },
		{ .sys = 4096 },	   { .exit_code = 256 },
		{ .signal = 65 },	   { .timed_out = 2 },
		{ .flags = 1U << 7 },	   { .flags = AGENT_SOME_REMAIN | AGENT_NOT_KNOWN },
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

static uint32_t random_state = 0x2545f491;

static uint32_t random_below(uint32_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 17;
	random_state ^= random_state << 5;
	return random_state % n;
}

/* Messages with a few bytes changed, in pieces of any size, descriptors of any kind anywhere. */
static void nonsense_ends_and_leaks_nothing(void)
{
	for (int round = 0; round < 3000; round++) {
		uint8_t bytes[4 * MESSAGE];
		size_t len = 0;
		int got, messages = 0;

		begin();
		for (unsigned i = 1 + random_below(4); i > 0; i--, len += MESSAGE)
			make_message(bytes + len, AGENT_READY + random_below(10),
				     random_below(2) == 0 ? &event : &three);
		for (uint32_t i = random_below(4); i > 0; i--)
			bytes[random_below((uint32_t)len)] = (uint8_t)random_below(256);
		for (size_t at = 0, n; at < len; at += n) {
			int fds[6];
			size_t nfds = random_below(3) == 0 ? random_below(6) : 0;

			n = 1 + random_below((uint32_t)(len - at));
			make_pipes(fds, nfds);
			if (nfds > 0 && random_below(4) == 0) {
				(void)close(fds[0]);
				fds[0] = open_kind((int)random_below(11));
			}
			say(bytes + at, n, fds, nfds);
			io_close_all(fds, nfds);
		}
		hang_up();
		while ((got = next(true, NULL)) == 1) {
			CHECK(++messages <= 4);
			io_close_all(agent.fds, agent.nfds);
			agent.nfds = 0;
		}
		CHECK(got == -1);
		end();
	}
}

static void hear(uint8_t **at, const uint8_t *end_of, unsigned type, struct agent_order *ret)
{
	struct frame f;
	struct err e = { 0 };
	int took = frame_read(*at, (size_t)(end_of - *at), AGENT_REQUEST_MAX, &f, &e);

	CHECK(took == (int)(FRAME_HEAD + sizeof(*ret)) && f.type == type);
	CHECK(agent_order_read(&f, ret, &e) == 0);
	*at += took;
}

static const char strings[] = "sh\0-c\0A=b";
static const struct agent_spawn spawn = { .handle = 3,
					  .rows = 24,
					  .cols = 80,
					  .argc = 2,
					  .envc = 1,
					  .user = "u",
					  .cwd = "/",
					  .strings = strings,
					  .strings_len = sizeof(strings) };

/* What we say, read back with the decoders of the other side. */
static void says_what_it_is_told(void)
{
	uint8_t bytes[1024], *at = bytes, *last;
	struct agent_spawn got;
	struct agent_order o;
	struct frame f;
	struct err e = { 0 };
	ssize_t n;
	int took;

	begin();
	CHECK(agent_send_spawn(&agent, &spawn, &e) == 0 &&
	      agent_send_signal(&agent, 3, 15, &e) == 0);
	CHECK(agent_send_kill_all(&agent, &e) == 0 &&
	      agent_send_kill_tree(&agent, 4, UINT64_MAX, &e) == 0);
	CHECK(agent_send_close_stdin(&agent, 5, &e) == 0 && agent_send_forget(&agent, 6, &e) == 0);
	CHECK(agent_send_resize(&agent, 7, 8, 9, &e) == 0 && agent_send_stat(&agent, &e) == 0);
	CHECK(agent_send_paused(&agent, 10, &e) == 0 &&
	      agent_send_paused(&agent, UINT64_MAX, &e) == 0);
	CHECK(agent_send_end(&agent, &e) == 0 && agent.out == NULL && agent_flush(&agent, &e) == 0);
	n = recv(pid1, bytes, sizeof(bytes), MSG_DONTWAIT);
	CHECK(n > 0);
	last = bytes + n;
	took = frame_read(at, (size_t)n, AGENT_REQUEST_MAX, &f, &e);
	CHECK(took > 0 && f.type == AGENT_SPAWN && agent_spawn_read(f.body, f.len, &got, &e) == 0);
	CHECK(got.handle == 3 && got.argc == 2 && got.envc == 1 && strcmp(got.strings, "sh") == 0);
	at += took;
	hear(&at, last, AGENT_SIGNAL, &o);
	CHECK(o.handle == 3 && o.sig == 15);
	hear(&at, last, AGENT_KILL_ALL, &o);
	hear(&at, last, AGENT_KILL_TREE, &o);
	CHECK(o.handle == 4 && o.ms == UINT64_MAX);
	hear(&at, last, AGENT_CLOSE_STDIN, &o);
	CHECK(o.handle == 5);
	hear(&at, last, AGENT_FORGET, &o);
	CHECK(o.handle == 6);
	hear(&at, last, AGENT_RESIZE, &o);
	CHECK(o.handle == 7 && o.rows == 8 && o.cols == 9);
	hear(&at, last, AGENT_STAT, &o);
	hear(&at, last, AGENT_PAUSED, &o);
	CHECK(o.ms == 10);
	hear(&at, last, AGENT_PAUSED, &o);
	CHECK(o.ms == AGENT_TIME_MAX_MS);
	hear(&at, last, AGENT_END, &o);
	CHECK(at == last);
	end();
}

/* Takes all that was said, with a socket if one comes; returns the number of bytes, which are whole
 * frames. */
static size_t listen_to(int *ret_fd)
{
	static uint8_t bytes[AGENT_OUT_MAX + 65536];
	size_t have = 0, fd_from = 0, fd_to = 0, nfds;
	struct err e = { 0 };
	struct frame f;

	for (;;) {
		int fd = -1, more = agent_flush(&agent, &e);
		ssize_t n;

		CHECK(more >= 0);
		nfds = 0;
		CHECK(fcntl(pid1, F_SETFL, O_RDWR | O_NONBLOCK) == 0);
		n = io_recv(pid1, bytes + have, sizeof(bytes) - have, &fd, 1, &nfds, &e);
		CHECK(n != 0);
		if (n < 0 && more == 0)
			break;
		if (nfds > 0) {
			CHECK(ret_fd != NULL && fd_to == 0);
			*ret_fd = fd;
			fd_from = have;
			fd_to = have + (size_t)n;
		}
		have += n > 0 ? (size_t)n : 0;
	}
	for (size_t at = 0; at < have;) {
		int took = frame_read(bytes + at, have - at, AGENT_REQUEST_MAX, &f, &e);

		CHECK(took > 0);
		/* It came with a read that its request begins in. */
		CHECK(f.type != AGENT_LINGER || (fd_from <= at && at < fd_to));
		at += (size_t)took;
	}
	return have;
}

/* PID 1 does not listen for a while: requests wait, in order, up to a bound. */
static void requests_wait_for_room(void)
{
	static char large[1 << 20];
	struct agent_spawn s = spawn;
	struct err e = { 0 };
	size_t sent = 0;
	int fd = -1, sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memset(large, 'x', sizeof(large) - 1);
	s.argc = 1;
	s.envc = 0;
	s.strings = large;
	s.strings_len = sizeof(large);
	begin();
	CHECK(agent_send_spawn(&agent, &s, &e) == 0 && agent_flush(&agent, &e) == 1);
	CHECK(agent_send_linger(&agent, sock, 0, &e) == 0);
	CHECK(agent_send_linger(&agent, sock, 0, &e) == -1 && e.code == ERR_CONFLICT);
	while (agent_send_spawn(&agent, &s, &e) == 0)
		CHECK(++sent < 20);
	CHECK(e.code == ERR_LIMIT && sent >= 6);
	CHECK(agent_send_stat(&agent, &e) == 0); /* a small one still fits */
	CHECK(next(false, NULL) == 0);
	CHECK(listen_to(&fd) == (sent + 1) * (FRAME_HEAD + agent_spawn_size(&s)) +
					2 * (FRAME_HEAD + sizeof(struct agent_order)));
	CHECK(fd >= 0 && agent.out == NULL && agent.out_fd == -1);
	(void)close(fd);
	CHECK(agent_send_linger(&agent, sock, 0, &e) == 0);
	CHECK(listen_to(&fd) == FRAME_HEAD + sizeof(struct agent_order));
	(void)close(fd);
	end();
	begin(); /* let go of with all of it still waiting */
	CHECK(agent_send_spawn(&agent, &s, &e) == 0 && agent_send_linger(&agent, sock, 0, &e) == 0);
	end();
	(void)close(sock);
}

static void too_much_to_say_is_refused(void)
{
	const struct agent_spawn s = {
		.argc = 1, .user = "", .cwd = "", .strings = "", .strings_len = AGENT_REQUEST_MAX
	};
	struct err e = { 0 };
	char byte;

	begin();
	CHECK(agent_send_spawn(&agent, &s, &e) == -1);
	CHECK(e.code == ERR_LIMIT);
	CHECK(recv(pid1, &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN); /* not even the head */
	end();
}

static void nobody_there_is_an_error(void)
{
	struct err e = { 0 };

	begin();
	hang_up();
	CHECK(agent_send_signal(&agent, 1, 9, &e) == -1); /* and no SIGPIPE */
	CHECK(e.code == ERR_SYSTEM && e.sys == EPIPE);
	CHECK(next(true, NULL) == -1);
	end();
	agent_release(&agent); /* twice is harmless */
}

TEST_MAIN({ "takes every message", takes_every_message },
	  { "descriptors come ready for use", descriptors_come_ready_for_use },
	  { "two pipes are enough", two_pipes_are_enough },
	  { "a PTY master comes alone", a_pty_master_comes_alone },
	  { "other kinds of files are refused", other_kinds_of_files_are_refused },
	  { "descriptors are counted", descriptors_are_counted },
	  { "descriptors come with STARTED only", descriptors_come_with_started_only },
	  { "descriptors left over are closed", descriptors_left_over_are_closed },
	  { "a dialed socket is ready for use", a_dialed_socket_is_ready_for_use },
	  { "only TCP sockets are dialed", only_tcp_sockets_are_dialed },
	  { "a door is a listener and a UDP socket", a_door_is_a_listener_and_a_udp_socket },
	  { "no socket keeps us waiting", no_socket_keeps_us_waiting },
	  { "directions are checked", directions_are_checked },
	  { "descriptors are as the flags say", descriptors_are_as_the_flags_say },
	  { "descriptors are counted over pieces", descriptors_are_counted_over_pieces },
	  { "descriptors do not wait for their message",
	    descriptors_do_not_wait_for_their_message },
	  { "messages in a row stay apart", messages_in_a_row_stay_apart },
	  { "takes it byte by byte", takes_it_byte_by_byte },
	  { "an end in the middle is an end", an_end_in_the_middle_is_an_end },
	  { "unknown types are refused", unknown_types_are_refused },
	  { "wrong sizes are refused", wrong_sizes_are_refused },
	  { "a wrong size is known at once", a_wrong_size_is_known_at_once },
	  { "values out of range are refused", values_out_of_range_are_refused },
	  { "nonsense ends and leaks nothing", nonsense_ends_and_leaks_nothing },
	  { "says what it is told", says_what_it_is_told },
	  { "requests wait for room", requests_wait_for_room },
	  { "too much to say is refused", too_much_to_say_is_refused },
	  { "nobody there is an error", nobody_there_is_an_error })
