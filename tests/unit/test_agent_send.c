/* Goal: requests to PID 1 arrive as they were asked for, wait in order while it does not read, and
 * are bounded. */
#include <errno.h>
#include <fcntl.h>

#include "agent_peer.h"

static void hear(uint8_t **at, const uint8_t *end_of, unsigned type, struct agent_order *ret)
{
	struct frame f;
	struct err e = { 0 };
	int took = frame_read(*at, (size_t)(end_of - *at), AGENT_REQUEST_MAX, &f, &e);

	CHECK(took == (int)(FRAME_HEAD + sizeof(*ret)) && f.type == type);
	CHECK(agent_order_read(&f, ret, &e) == 0);
	*at += took;
}

/* Each LINGER takes its descriptor. */
static int copy_of(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, 3);
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
static void sends_what_it_is_asked(void)
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
	int fd = -1, sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memset(large, 'x', sizeof(large) - 1);
	s.argc = 1;
	s.envc = 0;
	s.strings = large;
	s.strings_len = sizeof(large);
	begin();
	CHECK(agent_send_spawn(&agent, &s, &e) == 0 && agent_flush(&agent, &e) == 1);
	CHECK(agent_send_linger(&agent, copy_of(sock), 0, &e) == 0);
	CHECK(agent_send_linger(&agent, copy_of(sock), 0, &e) == -1 && e.code == ERR_CONFLICT);
	CHECK(agent_send_spawn(&agent, &s, &e) == -1 && e.reason == REASON_UNAVAILABLE);
	CHECK(agent_send_stat(&agent, &e) == -1 && e.reason == REASON_UNAVAILABLE);
	CHECK(agent_send_kill_tree(&agent, 7, 0, &e) == 0); /* what ends something is queued */
	CHECK(next(false, NULL) == 0);
	CHECK(listen_to(&fd) ==
	      FRAME_HEAD + agent_spawn_size(&s) + 2 * (FRAME_HEAD + sizeof(struct agent_order)));
	CHECK(fd >= 0 && agent.out == NULL && agent.out_bytes == 0 && !agent.fds_wait);
	(void)close(fd);
	CHECK(agent_send_linger(&agent, copy_of(sock), 0, &e) == 0);
	CHECK(listen_to(&fd) == FRAME_HEAD + sizeof(struct agent_order));
	(void)close(fd);
	end();
	begin(); /* let go of with all of it still waiting */
	CHECK(agent_send_spawn(&agent, &s, &e) == 0 &&
	      agent_send_linger(&agent, copy_of(sock), 0, &e) == 0);
	end();
	(void)close(sock);
}

/* A PID 1 that does not read costs the same for each of 10,000 orders: nothing that waits is moved.
 * And it is counted for the account, until it is sent or dropped. */
static void what_waits_is_not_moved(void)
{
	static char large[1 << 20];
	struct agent_account account = { .max = 2 * sizeof(large) };
	const size_t order = FRAME_HEAD + sizeof(struct agent_order);
	struct agent_spawn s = spawn;
	const struct agent_block *first;
	struct err e = { 0 };
	size_t waits, n = 0;

	memset(large, 'x', sizeof(large) - 1);
	s.argc = 1;
	s.envc = 0;
	s.strings = large;
	s.strings_len = sizeof(large);
	begin();
	agent_count_for(&agent, &account);
	CHECK(agent_send_spawn(&agent, &s, &e) == 0 && agent.out != NULL);
	first = agent.out;
	waits = agent.out_bytes;
	for (unsigned i = 0; i < 10000; i++)
		n += agent_send_kill_tree(&agent, i, 0, &e) == 0 ? 1 : 0;
	CHECK(n == 10000 && agent.out == first);
	CHECK(agent.out_bytes == waits + n * order && account.bytes == agent.out_bytes);
	while (agent_send_forget(&agent, 1, &e) == 0)
		n++;
	CHECK(e.reason == REASON_UNAVAILABLE && agent.out_bytes <= AGENT_OUT_MAX);
	CHECK(listen_to(NULL) == waits + n * order && account.bytes == 0);
	/* Other sessions of the account have more than its share already. */
	account.bytes = account.max;
	while (agent_send_dial(&agent, 1, 80, &e) == 0)
		CHECK(agent.out_bytes < AGENT_OUT_BUSY);
	CHECK(e.reason == REASON_UNAVAILABLE && agent.out_bytes <= 2 * order);
	agent_count_for(&agent, NULL);
	CHECK(account.bytes == account.max && agent_send_dial(&agent, 1, 80, &e) == 0);
	agent_count_for(&agent, &account);
	end();
	CHECK(account.bytes == account.max);
}

/* What only queues wakes nobody, and is sent in one call with what comes next, but descriptors come
 * with the first byte of their own request. */
static void queued_requests_are_sent_together(void)
{
	struct agent_order o;
	uint8_t bytes[1024], *at = bytes;
	struct err e = { 0 };
	int fds[1], sock;
	size_t nfds = 0;

	begin();
	sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	for (uint32_t i = 1; i <= 3; i++)
		CHECK(agent_queue_forget(&agent, i, &e) == 0);
	CHECK(recv(pid1, bytes, sizeof(bytes), MSG_DONTWAIT) < 0);
	CHECK(agent_send_end(&agent, &e) == 0 && agent.out == NULL);
	CHECK(recv(pid1, bytes, sizeof(bytes), MSG_DONTWAIT) ==
	      4 * (ssize_t)(FRAME_HEAD + sizeof(o)));
	for (uint32_t i = 1; i <= 3; i++) {
		hear(&at, bytes + sizeof(bytes), AGENT_FORGET, &o);
		CHECK(o.handle == i);
	}
	hear(&at, bytes + sizeof(bytes), AGENT_END, &o);
	CHECK(agent_queue_forget(&agent, 4, &e) == 0);
	CHECK(agent_send_linger(&agent, sock, 5, &e) == 0);
	CHECK(io_recv(pid1, bytes, FRAME_HEAD + sizeof(o), fds, 1, &nfds, &e) ==
		      (ssize_t)(FRAME_HEAD + sizeof(o)) &&
	      nfds == 0);
	CHECK(io_recv(pid1, bytes, sizeof(bytes), fds, 1, &nfds, &e) ==
		      (ssize_t)(FRAME_HEAD + sizeof(o)) &&
	      nfds == 1);
	(void)close(fds[0]);
	end();
}

/* BOOT brings its descriptors, with its first byte; RESUME has none. */
static void a_boot_brings_its_descriptors(void)
{
	struct boot_request r = { .engine = BOOT_GVISOR,
				  .fds = BOOT_FD_ENGINE | BOOT_FD_INIT,
				  .hostname = "h",
				  .machine_id = "0123456789abcdef0123456789abcdef" },
			    got;
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fds[2], came[2];
	uint8_t bytes[1024];
	struct err e = { 0 };
	struct frame f;
	size_t n = 0;
	ssize_t len;

	begin();
	fds[0] = copy_of(sock);
	fds[1] = copy_of(sock);
	CHECK(agent_send_boot(&agent, &r, fds, &e) == 0 && fds[0] == -1 && fds[1] == -1);
	len = io_recv(pid1, bytes, sizeof(bytes), came, 2, &n, &e);
	CHECK(len > 0 && n == 2);
	io_close_all(came, 2);
	CHECK(frame_read(bytes, (size_t)len, BOOT_REQUEST_MAX, &f, &e) == len &&
	      f.type == AGENT_BOOT);
	CHECK(boot_request_read(&f, &got, &e) == 0 && memcmp(&got, &r, sizeof(r)) == 0);
	fds[0] = copy_of(sock);
	fds[1] = copy_of(sock);
	r.vcpus = 3;
	CHECK(agent_send_boot(&agent, &r, fds, &e) == -1 && e.code == ERR_INVALID && fds[0] == -1);
	r.vcpus = r.fds = 0;
	CHECK(agent_send_resume(&agent, &r, &e) == 0);
	CHECK(agent_send_snapshot(&agent, true, 0, &e) == 0);
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

static void a_closed_channel_is_an_error(void)
{
	struct err e = { 0 };

	begin();
	hang_up();
	CHECK(agent_send_signal(&agent, 1, 9, &e) == -1); /* and no SIGPIPE */
	CHECK(e.code == ERR_SYSTEM && e.sys == EPIPE && e.reason == REASON_PEER_DIED);
	CHECK(next(true, NULL) == -1);
	end();
	agent_release(&agent); /* twice is harmless */
}

TEST_MAIN({ "sends what it is asked", sends_what_it_is_asked },
	  { "requests wait for room", requests_wait_for_room },
	  { "what waits is not moved", what_waits_is_not_moved },
	  { "queued requests are sent together", queued_requests_are_sent_together },
	  { "a BOOT brings its descriptors", a_boot_brings_its_descriptors },
	  { "too much to say is refused", too_much_to_say_is_refused },
	  { "a closed channel is an error", a_closed_channel_is_an_error })
