/* Goal: bytes and descriptors arrive whole or not at all, and nothing leaks, whatever a peer does.
 *
 * The peer is played with raw sendmsg(2) where it does what io_send() would not. */
#include "lib/base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "support.h"

#define MANY 253 /* SCM_MAX_FD of the kernel */

static char dir[] = "/tmp/cordon-test-io-XXXXXX";

static const char *path_in_dir(const char *name)
{
	static char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void make_dir(void)
{
	CHECK(mkdtemp(dir) != NULL);
}

static void make_file(const char *name, const void *bytes, size_t len)
{
	OWN_FD fd = open(path_in_dir(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
}

static void remove_dir(const char *name)
{
	if (name != NULL)
		CHECK(unlink(path_in_dir(name)) == 0);
	CHECK(rmdir(dir) == 0);
}

static void make_pair(int type, int ret[2])
{
	CHECK(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ret) == 0);
}

/* Sends without any of io_send()'s care: n descriptors (all stdin's file) in `headers` headers. */
static void send_raw(int sock, const void *bytes, size_t len, size_t n, size_t headers)
{
	static char space[2 * CMSG_SPACE(MANY * sizeof(int))];
	struct iovec iov = { .iov_base = (void *)(uintptr_t)bytes, .iov_len = len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space };
	char *at = space;

	memset(space, 0, sizeof(space));
	for (size_t h = 0; h < headers; h++) {
		size_t count = n / headers;
		struct cmsghdr c = { .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };

		c.cmsg_len = (__typeof__(c.cmsg_len))CMSG_LEN(count * sizeof(int));
		memcpy(at, &c, sizeof(c));
		memset(at + CMSG_LEN(0), 0, count * sizeof(int)); /* descriptor 0 */
		at += CMSG_SPACE(count * sizeof(int));
	}
	m.msg_controllen = (__typeof__(m.msg_controllen))(at - space);
	/* The bare call: musl's function takes no more than 1,024 bytes of control. */
	CHECK(syscall(SYS_sendmsg, sock, &m, MSG_NOSIGNAL) == (long)len);
}

static void on_alarm(int sig)
{
}

/* Interrupts every blocking call of this process each millisecond. */
static void interrupt_often(void (*handler)(int))
{
	struct sigaction a = { .sa_handler = handler };
	struct itimerval t = { { 0, 1000 }, { 0, 1000 } };

	CHECK(sigaction(SIGALRM, &a, NULL) == 0 && setitimer(ITIMER_REAL, &t, NULL) == 0);
}

static void interrupt_no_more(void)
{
	struct itimerval t = { { 0, 0 }, { 0, 0 } };

	CHECK(setitimer(ITIMER_REAL, &t, NULL) == 0);
}

static unsigned char pattern(size_t i)
{
	return (unsigned char)(i * 7 + i / 251);
}

/* A small pipe, a reader that takes odd amounts, and signals all the time. */
static void writes_all_of_it(void)
{
	const size_t len = 1 << 20;
	unsigned char *bytes = malloc(len), part[777];
	struct err e = { 0 };
	int ends[2], status;
	size_t at = 0;
	pid_t pid;

	CHECK(bytes != NULL && pipe2(ends, O_CLOEXEC) == 0);
	(void)fcntl(ends[1], F_SETPIPE_SZ, 4096);
	for (size_t i = 0; i < len; i++)
		bytes[i] = pattern(i);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		(void)close(ends[1]);
		for (ssize_t n; (n = read(ends[0], part, sizeof(part))) > 0;)
			for (ssize_t i = 0; i < n; i++, at++)
				if (part[i] != pattern(at))
					_exit(1);
		_exit(at == len ? 0 : 2);
	}
	interrupt_often(on_alarm);
	CHECK(io_write_all(ends[1], bytes, len, &e) == 0);
	interrupt_no_more();
	(void)close(ends[1]);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	(void)close(ends[0]);
	free(bytes);
}

static void writes_nothing(void)
{
	struct err e = { 0 };

	CHECK(io_write_all(-1, "", 0, &e) == 0);
}

static void says_why_it_cannot_write(void)
{
	struct err e = { 0 };
	int ends[2];

	(void)signal(SIGPIPE, SIG_IGN);
	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	(void)close(ends[0]);
	CHECK(io_write_all(ends[1], "x", 1, &e) == -1);
	CHECK(e.code == ERR_SYSTEM && e.sys == EPIPE);
	(void)close(ends[1]);
	CHECK(io_write_all(ends[1], "x", 1, &e) == -1);
	CHECK(e.sys == EBADF);
}

static void reads_files_that_fit(void)
{
	static const struct {
		size_t size, cap;
		int fits;
	} cases[] = { { 0, 1, 1 },     { 0, 100, 1 },	{ 1, 1, 0 },
		      { 1, 2, 1 },     { 98, 100, 1 },	{ 99, 100, 1 },
		      { 100, 100, 0 }, { 101, 100, 0 }, { 5000, 100, 0 } };
	static const char bytes[5000] = "attribute";
	int before = count_fds();

	make_dir();
	for (size_t i = 0; i < COUNT(cases); i++) {
		char *text = malloc(cases[i].cap);
		struct err e = { 0 };

		CHECK(text != NULL);
		make_file("file", bytes, cases[i].size);
		ssize_t n = io_read_file(AT_FDCWD, path_in_dir("file"), text, cases[i].cap, &e);

		CHECK(n == (cases[i].fits ? (ssize_t)cases[i].size : -1));
		CHECK(n >= 0 || e.code == ERR_LIMIT);
		CHECK(n < 0 || (text[n] == '\0' && memcmp(text, bytes, (size_t)n) == 0));
		free(text);
	}
	remove_dir("file");
	CHECK(count_fds() == before);
}

static void says_why_it_cannot_read(void)
{
	char text[16];
	struct err e = { 0 };
	int before = count_fds();

	make_dir();
	{
		OWN_FD dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		CHECK(io_read_file(dir_fd, "missing", text, sizeof(text), &e) == -1);
		CHECK(e.code == ERR_SYSTEM && e.sys == ENOENT);
		CHECK_HAS("missing", e.msg, "open missing");
		CHECK(io_read_file(dir_fd, ".", text, sizeof(text), &e) == -1);
		CHECK(e.sys == EISDIR);
		make_file("here", "relative", 8);
		CHECK(io_read_file(dir_fd, "here", text, sizeof(text), &e) == 8);
		CHECK_STR(text, "relative");
	}
	remove_dir("here");
	CHECK(count_fds() == before);
}

static void writes_attributes(void)
{
	char text[16];
	struct err e = { 0 };
	int before = count_fds();

	make_dir();
	CHECK(io_write_file(AT_FDCWD, path_in_dir("file"), "max", &e) == -1); /* makes none */
	CHECK(e.sys == ENOENT);
	make_file("file", "", 0);
	CHECK(io_write_file(AT_FDCWD, path_in_dir("file"), "max", &e) == 0);
	CHECK(io_read_file(AT_FDCWD, path_in_dir("file"), text, sizeof(text), &e) == 3);
	CHECK_STR(text, "max");
	CHECK(io_write_file(AT_FDCWD, "/dev/full", "max", &e) == -1);
	CHECK(e.sys == ENOSPC);
	remove_dir("file");
	CHECK(count_fds() == before);
}

static void writes_through_no_link(void)
{
	char text[16], target[128];
	struct err e = { 0 };

	make_dir();
	make_file("target", "", 0);
	(void)snprintf(target, sizeof(target), "%s", path_in_dir("target"));
	CHECK(symlink(target, path_in_dir("link")) == 0);
	CHECK(io_write_file(AT_FDCWD, path_in_dir("link"), "x", &e) == -1);
	CHECK(e.sys == ELOOP);
	CHECK(io_read_file(AT_FDCWD, target, text, sizeof(text), &e) == 0);
	CHECK(unlink(target) == 0);
	remove_dir("link");
}

/* Half an attribute is as bad as none. */
static void half_an_attribute_is_a_failure(void)
{
	struct rlimit limit = { 4, 4 };
	struct err e = { 0 };

	(void)signal(SIGXFSZ, SIG_IGN);
	make_dir();
	make_file("file", "", 0);
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	errno = 0;
	CHECK(io_write_file(AT_FDCWD, path_in_dir("file"), "too much", &e) == -1);
	remove_dir("file");
}

/* Sends n descriptors, receives with room for cap; checks what arrived. */
static void pass(int type, size_t n, size_t cap)
{
	int pair[2], fds[IO_FDS_MAX], got[IO_FDS_MAX];
	struct err e = { 0 };
	struct stat st, want;
	size_t nfds = 99;
	char byte = 0;

	make_pair(type, pair);
	for (size_t i = 0; i < n; i++)
		fds[i] = i % 2 == 0 ? pair[0] : 0;
	CHECK(io_send(pair[0], "x", 1, fds, n, &e) == 0);
	if (n > cap) {
		CHECK(io_recv(pair[1], &byte, 1, got, cap, &nfds, &e) == -1);
		CHECK(e.code == ERR_INVALID);
	} else {
		CHECK(io_recv(pair[1], &byte, 1, got, cap, &nfds, &e) == 1);
		CHECK(byte == 'x' && nfds == n);
		for (size_t i = 0; i < n; i++) {
			CHECK((fcntl(got[i], F_GETFD) & FD_CLOEXEC) != 0);
			CHECK(fstat(got[i], &st) == 0 && fstat(fds[i], &want) == 0);
			CHECK(st.st_ino == want.st_ino && st.st_dev == want.st_dev);
		}
		io_close_all(got, nfds);
	}
	io_close_all(pair, 2);
}

static void passes_descriptors(void)
{
	static const size_t counts[] = { 0, 1, 2, 3, 31, IO_FDS_MAX };
	static const int types[] = { SOCK_STREAM, SOCK_SEQPACKET };
	int before = count_fds();

	for (size_t t = 0; t < COUNT(types); t++)
		for (size_t i = 0; i < COUNT(counts); i++)
			for (size_t k = 0; k < COUNT(counts); k++) {
				pass(types[t], counts[i], counts[k]);
				CHECK(count_fds() == before);
			}
}

static void sends_no_more_than_the_maximum(void)
{
	int pair[2], fds[IO_FDS_MAX + 1] = { 0 };
	struct err e = { 0 };
	char byte;

	make_pair(SOCK_SEQPACKET, pair);
	CHECK(io_send(pair[0], "x", 1, fds, COUNT(fds), &e) == -1);
	CHECK(e.code == ERR_LIMIT);
	CHECK(recv(pair[1], &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN); /* nor the bytes */
	io_close_all(pair, 2);
}

/* Up to what the kernel lets a peer send, in one header and in two. */
static void refuses_too_many_and_leaks_none(void)
{
	static const size_t counts[] = { 2, 4, 32, 34, 64, 100, 252 };
	static const int types[] = { SOCK_STREAM, SOCK_SEQPACKET };
	int before = count_fds();

	for (size_t t = 0; t < COUNT(types); t++)
		for (size_t i = 0; i < COUNT(counts); i++)
			for (size_t headers = 1; headers <= 2; headers++) {
				int pair[2], got[IO_FDS_MAX];
				struct err e = { 0 };
				size_t nfds = 0;
				char byte;

				make_pair(types[t], pair);
				send_raw(pair[0], "x", 1, counts[i], headers);
				CHECK(io_recv(pair[1], &byte, 1, got, 1, &nfds, &e) == -1);
				CHECK(e.code == ERR_INVALID);
				send_raw(pair[0], "x", 1, counts[i], headers);
				ssize_t n = io_recv(pair[1], &byte, 1, got, IO_FDS_MAX, &nfds, &e);

				CHECK(n == (counts[i] <= IO_FDS_MAX ? 1 : -1));
				if (n == 1) {
					CHECK(nfds == counts[i]);
					io_close_all(got, nfds);
				}
				io_close_all(pair, 2);
				CHECK(count_fds() == before);
			}
}

static void refuses_a_message_too_long(void)
{
	int pair[2], got[4], before = count_fds();
	struct err e = { 0 };
	size_t nfds = 0;
	char bytes[4];

	make_pair(SOCK_SEQPACKET, pair);
	send_raw(pair[0], "12345", 5, 3, 1);
	CHECK(io_recv(pair[1], bytes, 4, got, 4, &nfds, &e) == -1);
	CHECK(e.code == ERR_INVALID);
	io_close_all(pair, 2);
	CHECK(count_fds() == before);
}

/* What SO_PASSCRED would ask for, nobody asked for. */
static void ignores_other_control_messages(void)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
	} space;
	struct ucred cred = { getpid(), getuid(), getgid() };
	struct cmsghdr c = { .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_CREDENTIALS };
	char byte = 'x';
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space.bytes };
	int pair[2], got[4];
	struct err e = { 0 };
	size_t nfds = 99;

	make_pair(SOCK_SEQPACKET, pair);
	memset(&space, 0, sizeof(space));
	c.cmsg_len = (__typeof__(c.cmsg_len))CMSG_LEN(sizeof(cred));
	memcpy(space.bytes, &c, sizeof(c));
	memcpy(space.bytes + CMSG_LEN(0), &cred, sizeof(cred));
	m.msg_controllen = sizeof(space.bytes);
	CHECK(sendmsg(pair[0], &m, MSG_NOSIGNAL) == 1);
	CHECK(io_recv(pair[1], &byte, 1, got, 4, &nfds, &e) == 1 && nfds == 0);
	io_close_all(pair, 2);
}

static void keeps_messages_apart(void)
{
	int pair[2], got[4], fd = 0;
	struct err e = { 0 };
	size_t nfds;
	char bytes[16];

	make_pair(SOCK_SEQPACKET, pair);
	CHECK(io_send(pair[0], "one", 3, &fd, 1, &e) == 0);
	CHECK(io_send(pair[0], "three", 5, NULL, 0, &e) == 0);
	CHECK(io_recv(pair[1], bytes, sizeof(bytes), got, 4, &nfds, &e) == 3 && nfds == 1);
	io_close_all(got, nfds);
	CHECK(io_recv(pair[1], bytes, sizeof(bytes), got, 4, &nfds, &e) == 5 && nfds == 0);
	CHECK(memcmp(bytes, "three", 5) == 0);
	io_close_all(pair, 2);
}

static void sees_the_end(void)
{
	static const int types[] = { SOCK_STREAM, SOCK_SEQPACKET };

	for (size_t t = 0; t < COUNT(types); t++) {
		int pair[2], got[4];
		struct err e = { 0 };
		size_t nfds = 99;
		char byte;

		make_pair(types[t], pair);
		CHECK(io_send(pair[0], "x", 1, NULL, 0, &e) == 0);
		(void)close(pair[0]);
		CHECK(io_recv(pair[1], &byte, 1, got, 4, &nfds, &e) == 1);
		CHECK(io_recv(pair[1], &byte, 1, got, 4, &nfds, &e) == 0 && nfds == 0);
		/* SIGPIPE is not blocked: it would end the test. */
		CHECK(io_send(pair[1], "x", 1, NULL, 0, &e) == -1);
		CHECK(e.code == ERR_SYSTEM && e.sys == EPIPE);
		(void)close(pair[1]);
		CHECK(io_recv(pair[1], &byte, 1, got, 4, &nfds, &e) == -1);
		CHECK(e.sys == EBADF);
	}
}

/* Much more than the socket holds, with signals: descriptors come once, with the first bytes. */
static void sends_a_long_stream(void)
{
	const size_t len = 3 << 20;
	unsigned char *bytes = malloc(len), part[70000];
	int pair[2], fds[3] = { 0, 0, 0 }, status;
	struct err e = { 0 };
	size_t at = 0, total = 0;
	pid_t pid;

	CHECK(bytes != NULL);
	make_pair(SOCK_STREAM, pair);
	for (size_t i = 0; i < len; i++)
		bytes[i] = pattern(i);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		(void)close(pair[0]);
		for (;;) {
			int got[4];
			size_t nfds = 0;
			ssize_t n = io_recv(pair[1], part, sizeof(part), got, 4, &nfds, &e);

			if (n <= 0)
				_exit(n == 0 && at == len && total == 3 ? 0 : 1);
			if (nfds > 0 && at > 0)
				_exit(2);
			total += nfds;
			for (ssize_t i = 0; i < n; i++, at++)
				if (part[i] != pattern(at))
					_exit(3);
		}
	}
	interrupt_often(on_alarm);
	CHECK(io_send(pair[0], bytes, len, fds, 3, &e) == 0);
	interrupt_no_more();
	io_close_all(pair, 2);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	free(bytes);
}

static int drained_sock;
static unsigned drained, alarms;

/* The first signal interrupts, the second makes room. */
static void drain_at_second(int sig)
{
	char byte;

	if (++alarms >= 2)
		while (recv(drained_sock, &byte, 1, MSG_DONTWAIT) >= 0)
			drained++;
}

/* An empty message is a message: interrupted, it must be sent again as any other. */
static void a_signal_does_not_swallow_an_empty_message(void)
{
	int pair[2], small = 1;
	struct err e = { 0 };
	unsigned sent = 0;
	char byte;

	make_pair(SOCK_SEQPACKET, pair);
	CHECK(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)) == 0);
	while (send(pair[0], "", 0, MSG_DONTWAIT) == 0)
		sent++;
	CHECK(errno == EAGAIN && sent > 0);
	drained_sock = pair[1];
	interrupt_often(drain_at_second);
	CHECK(io_send(pair[0], "", 0, NULL, 0, &e) == 0);
	interrupt_no_more();
	while (recv(pair[1], &byte, 1, MSG_DONTWAIT) >= 0)
		drained++;
	CHECK(drained == sent + 1);
	io_close_all(pair, 2);
}

static void closes_each_once(void)
{
	int fds[4], before = count_fds();

	CHECK(pipe2(fds, O_CLOEXEC) == 0);
	fds[2] = fds[1];
	fds[1] = -1;
	fds[3] = -1;
	io_close_all(fds, 4);
	for (size_t i = 0; i < 4; i++)
		CHECK(fds[i] == -1);
	CHECK(count_fds() == before);
	io_close_all(fds, 4);
	io_close_all(NULL, 0);
	CHECK(count_fds() == before);
}

/* Without opening any. */
static int count_fds_upto(int end)
{
	int n = 0;

	for (int fd = 0; fd < end; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* A process at its limit of descriptors loses those of one message, not the connection. */
static void says_when_there_is_no_room(void)
{
	int pair[2], got[4];
	struct err e = { 0 };
	size_t nfds = 0;
	char bytes[4];
	struct rlimit few;

	make_pair(SOCK_SEQPACKET, pair);
	send_raw(pair[0], "1234", 4, 3, 1);
	send_raw(pair[0], "567", 3, 1, 1);
	CHECK(getrlimit(RLIMIT_NOFILE, &few) == 0);
	const struct rlimit many = few;

	few.rlim_cur = (rlim_t)pair[1] + 2; /* room for one */
	CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
	int before = count_fds_upto(pair[1] + 2);

	CHECK(io_recv(pair[1], bytes, 4, got, 4, &nfds, &e) == -1);
	CHECK(e.code == ERR_LIMIT && memcmp(bytes, "1234", 4) == 0);
	CHECK(count_fds_upto(pair[1] + 2) == before);
	CHECK(setrlimit(RLIMIT_NOFILE, &many) == 0);
	CHECK(io_recv(pair[1], bytes, 4, got, 4, &nfds, &e) == 3 && nfds == 1);
}

TEST_MAIN({ "writes all of it", writes_all_of_it }, { "writes nothing", writes_nothing },
	  { "says why it cannot write", says_why_it_cannot_write },
	  { "reads files that fit", reads_files_that_fit },
	  { "says why it cannot read", says_why_it_cannot_read },
	  { "writes attributes", writes_attributes },
	  { "writes through no link", writes_through_no_link },
	  { "half an attribute is a failure", half_an_attribute_is_a_failure },
	  { "passes descriptors", passes_descriptors },
	  { "sends no more than the maximum", sends_no_more_than_the_maximum },
	  { "refuses too many and leaks none", refuses_too_many_and_leaks_none },
	  { "says when there is no room", says_when_there_is_no_room },
	  { "refuses a message too long", refuses_a_message_too_long },
	  { "ignores other control messages", ignores_other_control_messages },
	  { "keeps messages apart", keeps_messages_apart }, { "sees the end", sees_the_end },
	  { "sends a long stream", sends_a_long_stream },
	  { "a signal does not swallow an empty message",
	    a_signal_does_not_swallow_an_empty_message },
	  { "closes each once", closes_each_once })
