/* Goal: a port of a cell can be reached from outside, whatever listens there and however; nothing
 * of it stays behind in PID 1, and PID 1 never waits. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#include "lib/base/clock.h"
#include "held.h"
#include "lib/base/io.h"
#include "test.h"

#define PORT 8123

static struct err e;

/* Dials and returns the connected socket, or -1 and errno. */
static int dial(uint16_t port)
{
	struct agent_event v;
	struct pollfd p = { .events = POLLOUT };
	int late = 0;
	socklen_t len = sizeof(late);

	CHECK(agent_send_dial(&agent, 77, port, &e) == 0);
	v = held_hear_in_time(AGENT_DIALED);
	CHECK(v.handle == 77 && v.flags == 0);
	errno = v.sys;
	if (v.sys != 0)
		return -1;
	held_take_fds(&p.fd, 1);
	CHECK(poll(&p, 1, WAIT_MS) == 1);
	CHECK(getsockopt(p.fd, SOL_SOCKET, SO_ERROR, &late, &len) == 0);
	errno = late;
	if (late == 0)
		return p.fd;
	(void)close(p.fd);
	errno = late;
	return -1;
}

/* A server in the cell that says who called and then says everything back. */
static void serve(const char *family, const char *address)
{
	char script[1024];
	int fds[3];

	(void)snprintf(script, sizeof(script),
		       "exec /usr/bin/python3 -uc \"\n"
		       "import socket, threading\n"
		       "s = socket.socket(socket.%s); s.setsockopt(socket.SOL_SOCKET, "
		       "socket.SO_REUSEADDR, 1)\n"
		       "s.bind(('%s', %d)); s.listen(100); print('up')\n"
		       "def run(c, a):\n"
		       "    c.sendall(('hello ' + a[0] + '\\n').encode())\n"
		       "    while True:\n"
		       "        d = c.recv(65536)\n"
		       "        if not d: c.close(); return\n"
		       "        c.sendall(d)\n"
		       "while True:\n"
		       "    threading.Thread(target=run, args=s.accept (), daemon=True).start()\n"
		       "\"",
		       family, address, PORT);
	(void)held_spawn(1, script, AGENT_NO_STDIN, 0, fds);
	held_expect(fds[0], "up\n");
	io_close_all(fds, 2);
}

static unsigned descriptors_of_pid1(void)
{
	char path[64];
	unsigned n = 0;

	for (int fd = 0; fd < 512; fd++) {
		(void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid1, fd);
		n += faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	}
	CHECK(n >= 4);
	return n;
}

static void a_port_is_reached(void)
{
	static const char *const where[][3] = { { "AF_INET", "127.0.0.1", "hello 127.0.0.1" },
						{ "AF_INET", "0.0.0.0", "hello 127.0.0.1" },
						{ "AF_INET6", "::1", "hello ::1" },
						{ "AF_INET6", "::", "hello ::ffff:127.0.0.1" } };

	for (size_t i = 0; i < COUNT(where); i++) {
		int fd;

		held_make_cell(256);
		serve(where[i][0], where[i][1]);
		fd = dial(PORT);
		CHECK(fd >= 0);
		CHECK((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
		held_expect(fd, where[i][2]);
		held_type(fd, "echo this\n");
		held_expect(fd, "echo this\n");
		(void)close(fd);
		held_end_cell();
	}
}

static void a_closed_port_is_refused(void)
{
	held_make_cell(256);
	for (uint32_t port = 1; port < 65536; port += 13107)
		CHECK(dial((uint16_t)port) < 0 && errno == ECONNREFUSED);
	held_end_cell();
}

static void nothing_stays_behind(void)
{
	unsigned before;
	int fds[200];

	held_make_cell(256);
	serve("AF_INET", "127.0.0.1");
	before = descriptors_of_pid1();
	for (size_t i = 0; i < COUNT(fds); i++) {
		fds[i] = dial(PORT);
		CHECK(fds[i] >= 0 && dial(1) < 0);
	}
	CHECK(descriptors_of_pid1() == before);
	held_expect(fds[0], "hello");
	held_expect(fds[COUNT(fds) - 1], "hello");
	io_close_all(fds, COUNT(fds));
	held_end_cell();
}

/* Nobody accepts, and the queue is full: PID 1 has other things to do. */
static void pid1_does_not_wait(void)
{
	uint64_t begin;
	int fds[3];

	held_make_cell(256);
	(void)held_spawn(1,
			 "exec /usr/bin/python3 -uc \"import socket, time\n"
			 "s = socket.socket(); s.bind(('127.0.0.1', 8123)); s.listen(0)\n"
			 "print('up'); time.sleep(1000)\"",
			 AGENT_NO_STDIN, 0, fds);
	held_expect(fds[0], "up\n");
	begin = clock_now_ns();
	for (uint32_t i = 0; i < 50; i++)
		CHECK(agent_send_dial(&agent, i, PORT, &e) == 0);
	for (uint32_t i = 0; i < 50; i++)
		CHECK(held_hear(AGENT_DIALED).handle == i);
	CHECK(clock_now_ns() - begin < 2000 * CLOCK_MS);
	CHECK(held_processes() == 2);
	io_close_all(fds, 2);
	held_end_cell();
}

/* The answer to somebody who is gone is for nobody; and its socket is closed. */
static void an_answer_is_not_for_the_next(void)
{
	struct agent_event v;
	enum agent_type type;
	unsigned before;

	held_make_cell(256);
	held_linger();
	serve("AF_INET", "127.0.0.1");
	before = descriptors_of_pid1();
	for (int i = 0; i < 20; i++)
		CHECK(agent_send_dial(&agent, 5, PORT, &e) == 0);
	held_disconnect();
	held_connect(NULL);
	CHECK(held_hear(AGENT_READY).pid == AGENT_VERSION);
	CHECK(held_hear(AGENT_SYNCED).pid == 0);
	CHECK(agent_next(&agent, 100, &type, &v, &e) == 0);
	/* The channel itself is another one now; the server died with the old one. */
	CHECK(descriptors_of_pid1() == before);
	CHECK(dial(1) < 0 && errno == ECONNREFUSED);
	held_end_cell();
}

static void in_the_locked_profile_too(void)
{
	int fd;

	held_locked = true;
	held_make_cell(256);
	serve("AF_INET", "127.0.0.1");
	fd = dial(PORT);
	CHECK(fd >= 0);
	held_expect(fd, "hello");
	(void)close(fd);
	CHECK(dial(1) < 0 && errno == ECONNREFUSED);
	held_end_cell();
}

TEST_MAIN({ "a port is reached", a_port_is_reached },
	  { "a closed port is refused", a_closed_port_is_refused },
	  { "nothing stays behind", nothing_stays_behind },
	  { "PID 1 does not wait", pid1_does_not_wait },
	  { "an answer is not for the next", an_answer_is_not_for_the_next },
	  { "in the locked profile too", in_the_locked_profile_too })
