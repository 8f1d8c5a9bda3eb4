/* Goal: sockets that PID 1 of a cell sends are those that were asked for, and whatever PID 1 left
 * set on them, they do not block and do not keep us waiting. */

#include "agent_peer.h"
#include "lib/base/clock.h"

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

/* What an egress listener is made of, and what is not: each in the place of the listener, then of
 * the UDP socket. */
static void an_egress_listener_is_two_sockets(void)
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

/* A socket is closed that is refused, that is not taken, that is one of too many, or that waits
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

TEST_MAIN({ "a dialed socket is ready for use", a_dialed_socket_is_ready_for_use },
	  { "only TCP sockets are dialed", only_tcp_sockets_are_dialed },
	  { "an egress listener is a TCP socket that listens and a UDP socket",
	    an_egress_listener_is_two_sockets },
	  { "no socket keeps us waiting", no_socket_keeps_us_waiting })
