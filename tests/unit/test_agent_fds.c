/* Goal: descriptors that PID 1 of a cell sends are what was asked for, ready for use and of the
 * right number, or the connection is over; and nothing leaks. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/timerfd.h>

#include "agent_peer.h"

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

#define ALL_SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static int memory_file(size_t len, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(fd >= 0 && ftruncate(fd, (off_t)len) == 0 && pwrite(fd, "text", 4, 0) == 4);
	if (len == 4 || seals != 0)
		CHECK(fcntl(fd, F_ADD_SEALS, seals) == 0);
	return fd;
}

/* What came, with these two: whether it was accepted. */
static bool takes_image(int a, int b)
{
	int fds[2] = { a, b };
	bool taken;

	begin();
	fds_before -= 2;
	say_event(AGENT_SNAPSHOT_DONE, &(struct agent_event){ 0 }, fds, 2);
	io_close_all(fds, 2);
	taken = next(true, NULL) == 1;
	CHECK(!taken || agent.nfds == 2);
	end();
	return taken;
}

static void a_memory_image_is_two_sealed_files(void)
{
	int pipes[2];

	CHECK(takes_image(memory_file(1 << 20, ALL_SEALS), memory_file(9, ALL_SEALS)));
	CHECK(!takes_image(memory_file(9, ALL_SEALS), memory_file(9, F_SEAL_WRITE)));
	CHECK(!takes_image(memory_file(9, ALL_SEALS & ~F_SEAL_WRITE), memory_file(9, ALL_SEALS)));
	CHECK(pipe2(pipes, O_CLOEXEC) == 0);
	CHECK(!takes_image(pipes[0], pipes[1]));
}

static void what_a_guest_printed_is_a_small_sealed_file(void)
{
	const struct agent_event v = { .sys = 5, .flags = AGENT_HAS_TEXT };
	char text[8];
	int fd;

	begin();
	fd = memory_file(4, ALL_SEALS);
	say_event(AGENT_BOOTED, &v, &fd, 1);
	CHECK(next(true, NULL) == 1 && agent.nfds == 1);
	agent_read_text(&agent, &v, text, sizeof(text));
	CHECK_STR(text, "text");
	agent_read_text(&agent, &v, text, 3);
	CHECK_STR(text, "te");
	agent_read_text(&agent, &(struct agent_event){ 0 }, text, sizeof(text));
	CHECK_STR(text, "");
	(void)close(fd);
	fd = memory_file(BOOT_TEXT_MAX, ALL_SEALS);
	say_event(AGENT_BOOTED, &v, &fd, 1);
	CHECK(next(true, NULL) == 1 && agent.nfds == 1);
	(void)close(fd);
	fd = memory_file(BOOT_TEXT_MAX + 1, ALL_SEALS);
	say_event(AGENT_GUEST, &v, &fd, 1);
	CHECK(next(true, NULL) == -1);
	(void)close(fd);
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
		CHECK(next(true, NULL) == (n >= 2 && n <= 3 ? 1 : -1));
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

/* A pipe that is written where it should be read would never end, or be read by another process. */
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
		for (size_t n = 0; n <= AGENT_FDS; n++) {
			const uint32_t never = AGENT_IS_TTY | AGENT_HAS_RESULTS;
			const uint32_t hit =
				AGENT_HIT_MEMORY | AGENT_HIT_PIDS; /* once it has ended */
			const uint32_t known = never | AGENT_IS_HELD | AGENT_HAS_STDIN |
					       AGENT_IS_STARTING | AGENT_HAS_EXITED |
					       ((flags & AGENT_HAS_EXITED) != 0 ? hit : 0);
			struct agent_event v = event;
			size_t want = (flags & AGENT_IS_TTY) ? 1 : 2;
			int fds[AGENT_FDS], ends[2];

			want += (flags & AGENT_HAS_STDIN) != 0;
			want += (flags & AGENT_HAS_RESULTS) != 0;
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
			      ((flags & ~known) == 0 && (flags & never) != never &&
					       (flags & AGENT_IS_HELD) != 0 &&
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

static uint32_t random_state = 0x2545f491;

static uint32_t random_below(uint32_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 17;
	random_state ^= random_state << 5;
	return random_state % n;
}

/* Messages with a few bytes changed, in pieces of any size, descriptors of any kind anywhere. */
static void malformed_input_ends_and_leaks_nothing(void)
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

TEST_MAIN({ "descriptors come ready for use", descriptors_come_ready_for_use },
	  { "two pipes are enough", two_pipes_are_enough },
	  { "a memory image is two sealed files", a_memory_image_is_two_sealed_files },
	  { "what a guest printed is a small sealed file",
	    what_a_guest_printed_is_a_small_sealed_file },
	  { "a PTY master comes alone", a_pty_master_comes_alone },
	  { "other kinds of files are refused", other_kinds_of_files_are_refused },
	  { "descriptors are counted", descriptors_are_counted },
	  { "descriptors come with STARTED only", descriptors_come_with_started_only },
	  { "descriptors left over are closed", descriptors_left_over_are_closed },
	  { "directions are checked", directions_are_checked },
	  { "descriptors are as the flags say", descriptors_are_as_the_flags_say },
	  { "descriptors are counted over pieces", descriptors_are_counted_over_pieces },
	  { "descriptors do not wait for their message",
	    descriptors_do_not_wait_for_their_message },
	  { "malformed input ends and leaks nothing", malformed_input_ends_and_leaks_nothing })
