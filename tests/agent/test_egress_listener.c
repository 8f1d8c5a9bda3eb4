/* Goal: with its door open, whatever a program of a cell connects to, and every name it asks for,
 * arrives outside with the address it wanted; loopback and every port stay the cell's own. Without
 * it the kernel refuses at once. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/untrusted_fd.h"
#include "held.h"
#include "lib/base/io.h"
#include "test.h"

static struct err e;
static int door[2] = { -1, -1 };

/* Asks for the door; its sockets are in door[]. Returns the errno of the answer. */
static int open_door(void)
{
	struct agent_event v;

	io_close_all(door, 2);
	CHECK(agent_send_listen_egress(&agent, -1, &e) == 0);
	v = held_hear_in_time(AGENT_EGRESS_LISTENS);
	CHECK(v.handle == 0 && v.flags == 0);
	if (v.sys == 0)
		held_take_fds(door, 2);
	return v.sys;
}

static void begin(bool locked)
{
	held_locked = locked;
	held_make_cell(256);
	if (open_door() == EOPNOTSUPP) {
		held_end_cell();
		SKIP("no nftables with tproxy in this kernel");
	}
	CHECK(door[0] >= 0 && door[1] >= 0);
}

static void end(void)
{
	io_close_all(door, 2);
	held_end_cell();
}

/* Runs Python in the cell; what it prints comes out of the descriptor returned. */
static int python(uint32_t handle, const char *script)
{
	char command[2048];
	int fds[2];

	CHECK((size_t)snprintf(command, sizeof(command), "exec /usr/bin/python3 -uc \"%s\"",
			       script) < sizeof(command));
	(void)held_spawn(handle, command, AGENT_NO_STDIN, 0, fds);
	(void)close(fds[1]);
	return fds[0];
}

/* Accepts one and compares what it was meant for with "address port". */
static int expect_call(const char *wanted)
{
	struct pollfd p = { .fd = door[0], .events = POLLIN };
	struct sockaddr_storage from;
	struct sockaddr_in6 to = { 0 };
	struct sockaddr_in v4;
	socklen_t len = sizeof(from), to_len = sizeof(to);
	char text[INET6_ADDRSTRLEN], both[64];
	int fd;

	CHECK(poll(&p, 1, WAIT_MS) == 1);
	fd = untrusted_accept(door[0], &from, &len);
	CHECK(fd >= 0);
	CHECK(getsockname(fd, (struct sockaddr *)&to, &to_len) == 0);
	memcpy(&v4, &to, sizeof(v4));
	CHECK(inet_ntop(to.sin6_family,
			to.sin6_family == AF_INET6 ? (void *)&to.sin6_addr : (void *)&v4.sin_addr,
			text, sizeof(text)) != NULL);
	(void)snprintf(both, sizeof(both), "%s %u", text, ntohs(to.sin6_port));
	if (strcmp(both, wanted) != 0)
		printf("# got %s, want %s\n", both, wanted);
	CHECK(strcmp(both, wanted) == 0);
	return fd;
}

static void calls_arrive(bool locked)
{
	static const char *const to[][2] = {
		{ "('203.0.113.5', 443)", "::ffff:203.0.113.5 443" },
		{ "('2001:db8::1', 22)", "2001:db8::1 22" },
		{ "('169.254.169.254', 80)", "::ffff:169.254.169.254 80" },
		{ "('10.0.0.1', 65535)", "::ffff:10.0.0.1 65535" },
		{ "('198.18.0.1', 1)", "::ffff:198.18.0.1 1" },
		{ "('fd63:6f72:646f:6e00::7', 8443)", "fd63:6f72:646f:6e00::7 8443" },
	};
	char script[512], text[8] = "";

	begin(locked);
	for (size_t i = 0; i < COUNT(to); i++) {
		int out, fd;

		(void)snprintf(script, sizeof(script),
			       "import socket\nc = socket.create_connection(%s, 5)\n"
			       "c.sendall(b'ask'); print(c.recv(10)); c.close()",
			       to[i][0]);
		out = python((uint32_t)i + 1, script);
		fd = expect_call(to[i][1]);
		CHECK(fcntl(fd, F_SETFL, 0) == 0);
		CHECK(recv(fd, text, 3, MSG_WAITALL) == 3 && memcmp(text, "ask", 3) == 0);
		CHECK(send(fd, "answer", 6, MSG_NOSIGNAL) == 6);
		held_expect(out, "b'answer'");
		CHECK(recv(fd, text, 1, 0) == 0); /* the end comes through, too */
		(void)close(fd);
		(void)close(out);
		CHECK(held_hear_in_time(AGENT_EXITED).exit_code == 0);
	}
	end();
}

static void what_is_connected_to_arrives(void)
{
	calls_arrive(false);
}

static void in_the_locked_profile_too(void)
{
	calls_arrive(true);
}

static void loopback_is_the_cells_own(void)
{
	int out;

	begin(false);
	out = python(1,
		     "import socket\n"
		     "for a in ('127.0.0.1', 80), ('127.9.9.9', 443), ('::1', 80):\n"
		     "    try: socket.create_connection(a, 5); print('connected', a)\n"
		     "    except ConnectionRefusedError: print('refused', a)\n"
		     "    s = socket.create_server(a, family=socket.AF_INET6 if ':' in a[0] else "
		     "socket.AF_INET)\n"
		     "    c = socket.create_connection(a, 5); s.accept (); print('own', a)\n"
		     "print('done')");
	held_expect(out, "refused ('127.0.0.1', 80)\nown ('127.0.0.1', 80)\n"
			 "refused ('127.9.9.9', 443)\nown ('127.9.9.9', 443)\n"
			 "refused ('::1', 80)\nown ('::1', 80)\ndone");
	(void)close(out);
	end();
}

/* A program that listens at every address still gets what is meant for loopback, and what it
 * connects to elsewhere goes out and not to itself. */
static void every_port_but_one_is_free(void)
{
	int out, fd;

	begin(false);
	out = python(
		1,
		"import socket\n"
		"for p in 80, 443, 53, 2, 65535:\n"
		"    s = socket.create_server(('0.0.0.0', p)); v = socket.create_server(('::', p), "
		"family=socket.AF_INET6)\n"
		"    c = socket.create_connection(('127.0.0.1', p), 5); s.accept ()\n"
		"    c = socket.create_connection(('::1', p), 5); v.accept ()\n"
		"u = socket.socket(type=socket.SOCK_DGRAM)\n"
		"u.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
		"u.bind(('127.0.0.1', 53)); u.settimeout(5)\n"
		"socket.socket(type=socket.SOCK_DGRAM).sendto(b'own', ('127.0.0.1', 53))\n"
		"print(u.recv(9))\n"
		"socket.create_connection(('203.0.113.9', 65535), 5)\n"
		"try: socket.create_server(('0.0.0.0', 1))\n"
		"except OSError as e: print('errno', e.errno)");
	fd = expect_call("::ffff:203.0.113.9 65535");
	held_expect(out, "b'own'\nerrno 98"); /* EADDRINUSE */
	(void)close(fd);
	(void)close(out);
	end();
}

/* The address asked, from the control messages; IPv4 as mapped IPv6. By hand: musl's CMSG_NXTHDR
 * does not pass our warnings. */
static void asked_address(const uint8_t *bytes, size_t len, char *ret, socklen_t cap)
{
	struct in6_pktinfo v6;
	struct cmsghdr c;

	*ret = '\0';
	for (size_t at = 0; at + CMSG_LEN(0) <= len; at += CMSG_ALIGN(c.cmsg_len)) {
		memcpy(&c, bytes + at, sizeof(c));
		if (c.cmsg_level != IPPROTO_IPV6 || c.cmsg_type != IPV6_PKTINFO)
			continue;
		CHECK(c.cmsg_len == CMSG_LEN(sizeof(v6)));
		memcpy(&v6, bytes + at + CMSG_LEN(0), sizeof(v6));
		CHECK(inet_ntop(AF_INET6, &v6.ipi6_addr, ret, cap) != NULL);
	}
}

static void answer_name(const char *wanted)
{
	struct pollfd p = { .fd = door[1], .events = POLLIN };
	struct sockaddr_in6 from;
	char bytes[64], text[INET6_ADDRSTRLEN];
	uint8_t control[256];
	struct iovec iov = { bytes, sizeof(bytes) };
	struct msghdr m = { .msg_name = &from,
			    .msg_namelen = sizeof(from),
			    .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };

	CHECK(poll(&p, 1, WAIT_MS) == 1);
	CHECK(recvmsg(door[1], &m, MSG_DONTWAIT) == 5 && memcmp(bytes, "query", 5) == 0);
	asked_address(control, m.msg_controllen, text, sizeof(text));
	if (strcmp(text, wanted) != 0)
		printf("# got %s, want %s\n", text, wanted);
	CHECK(strcmp(text, wanted) == 0);
	/* The same control message sends the answer from the address that was asked. */
	iov = (struct iovec){ (char *)(uintptr_t) "reply", 5 };
	CHECK(sendmsg(door[1], &m, MSG_DONTWAIT | MSG_NOSIGNAL) == 5);
}

static void names_are_asked_for(void)
{
	int out;

	begin(false);
	out = python(
		1,
		"import socket\n"
		"for a in '8.8.8.8', '198.18.0.1', '2001:4860:4860::8888':\n"
		"    c = socket.socket(socket.AF_INET6 if ':' in a else socket.AF_INET, "
		"socket.SOCK_DGRAM)\n"
		"    c.settimeout(5); c.connect((a, 53)); c.send(b'query'); print(a, c.recv(9))\n"
		"c = socket.socket(type=socket.SOCK_DGRAM); c.connect(('8.8.8.8', 443))\n"
		"c.send(b'quic'); c.settimeout(5)\n"
		"try: c.recv(9)\n"
		"except ConnectionRefusedError: print('refused')");
	answer_name("::ffff:8.8.8.8");
	held_expect(out, "8.8.8.8 b'reply'");
	answer_name("::ffff:198.18.0.1");
	held_expect(out, "198.18.0.1 b'reply'");
	answer_name("2001:4860:4860::8888");
	held_expect(out, "2001:4860:4860::8888 b'reply'\nrefused");
	(void)close(out);
	end();
}

/* Nobody has asked for it: each connection and each name is refused by the kernel, at once. */
static void a_closed_door_refuses(void)
{
	uint64_t begun;
	int out;

	held_make_cell(256);
	begun = clock_now_ns();
	out = python(1, "import socket\n"
			"for a in ('203.0.113.5', 443), ('2001:db8::1', 22), ('10.0.0.1', 1):\n"
			"    try: socket.create_connection(a, 20)\n"
			"    except ConnectionRefusedError: print('refused')\n"
			"c = socket.socket(type=socket.SOCK_DGRAM); c.connect(('8.8.8.8', 53))\n"
			"c.send(b'x'); c.settimeout(20)\n"
			"try: c.recv(9)\n"
			"except ConnectionRefusedError: print('refused')");
	held_expect(out, "refused\nrefused\nrefused\nrefused");
	CHECK(clock_now_ns() - begun < 5000 * CLOCK_MS);
	(void)close(out);
	held_end_cell();
}

/* The same two for every process that asks, also after one died with its copies. */
static void it_outlives_who_asked(void)
{
	struct sockaddr_in6 at = { 0 };
	socklen_t len = sizeof(at);
	int out, fd;

	begin(false);
	held_linger();
	CHECK(open_door() == 0);
	io_close_all(door, 2);
	held_disconnect();
	held_connect(NULL);
	CHECK(held_hear(AGENT_READY).pid == AGENT_VERSION);
	CHECK(held_hear(AGENT_SYNCED).pid == 0);
	/* Somebody calls while nobody is there to answer. */
	out = python(1, "import socket\nc = socket.create_connection(('203.0.113.5', 443), 5)\n"
			"print('there'); print(c.recv(9))");
	held_expect(out, "there");
	CHECK(open_door() == 0);
	CHECK(getsockname(door[1], (struct sockaddr *)&at, &len) == 0);
	CHECK(ntohs(at.sin6_port) == 53);
	fd = expect_call("::ffff:203.0.113.5 443");
	CHECK(send(fd, "hello", 5, MSG_NOSIGNAL) == 5);
	held_expect(out, "b'hello'");
	(void)close(fd);
	(void)close(out);
	end();
}

/* No program has the door's sockets, nor can it take the port away; and in the way of its opening
 * the sender gets an errno and PID 1 goes on. */
static void programs_do_not_have_it(void)
{
	int out;

	begin(false);
	out = python(1, "import os\nprint(sorted(map(int, os.listdir('/proc/self/fd')))[:4])");
	held_expect(out, "[0, 1, 2, 3]\n"); /* 3 is the directory itself */
	(void)close(out);
	end();

	held_make_cell(256);
	out = python(1, "import socket, time\ns = socket.create_server(('0.0.0.0', 1))\n"
			"print('mine'); time.sleep(1000)");
	held_expect(out, "mine");
	CHECK(open_door() == EADDRINUSE);
	CHECK(agent_send_signal(&agent, 1, 9, &e) == 0);
	CHECK(held_hear_in_time(AGENT_EXITED).signal == 9);
	CHECK(open_door() == 0);
	(void)close(out);
	end();
}

/* From now on, also for the keeper and the cell, there are no sockets of this kind: as on a kernel
 * without it. protocol -1: whatever that is. */
static void take_sockets_away(int family, int protocol, int error)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 5),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 (uint32_t)offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)family, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 (uint32_t)offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)protocol, 0, protocol < 0 ? 0 : 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { .len = COUNT(filter), .filter = filter };

	if (geteuid() != 0)
		SKIP("not root");
	CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
	CHECK(socket(family, SOCK_STREAM, protocol < 0 ? 0 : protocol) < 0 && errno == error);
}

static void a_kernel_without_nftables_makes_cells_without_door(void)
{
	int out;

	take_sockets_away(AF_NETLINK, 12 /* NETLINK_NETFILTER */, EPROTONOSUPPORT);
	held_make_cell(256);
	CHECK(open_door() == EOPNOTSUPP && open_door() == EOPNOTSUPP);
	out = python(1, "import socket\ntry: socket.create_connection(('203.0.113.5', 443), 5)\n"
			"except ConnectionRefusedError: print('refused')");
	held_expect(out, "refused");
	(void)close(out);
	held_end_cell();
}

static void a_kernel_without_ipv6_has_a_door(void)
{
	int out, fd;

	take_sockets_away(AF_INET6, -1, EAFNOSUPPORT);
	begin(false);
	out = python(1, "import socket\nsocket.create_connection(('203.0.113.5', 443), 5)\n"
			"print('connected')");
	fd = expect_call("203.0.113.5 443");
	held_expect(out, "connected");
	(void)close(fd);
	(void)close(out);
	end();
}

/* As soon as the template says so, and not over what the caller says. */
static void programs_are_told_whom_to_trust(void)
{
	int fds[2];

	held_make_cell(256);
	(void)held_spawn(1, "env", AGENT_NO_STDIN, 0, fds);
	held_expect(fds[0], "SHELL=");
	io_close_all(fds, 2);
	CHECK(held_hear_in_time(AGENT_EXITED).exit_code == 0);
	(void)held_spawn(2, "env | grep -c -e CERT -e _CA; sudo touch /etc/ssl/certs/cordon.pem",
			 AGENT_NO_STDIN, 0, fds);
	held_expect(fds[0], "0\n");
	io_close_all(fds, 2);
	CHECK(held_hear_in_time(AGENT_EXITED).exit_code == 0);
	(void)held_spawn(3, "env | grep -e CERT -e _CA | sort; echo end", AGENT_NO_STDIN, 0, fds);
	held_expect(fds[0], "AWS_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt\n"
			    "CURL_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt\n"
			    "GIT_SSL_CAINFO=/etc/ssl/certs/ca-certificates.crt\n"
			    "NODE_EXTRA_CA_CERTS=/etc/ssl/certs/cordon.pem\n"
			    "PIP_CERT=/etc/ssl/certs/ca-certificates.crt\n"
			    "REQUESTS_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt\n"
			    "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt\nend");
	io_close_all(fds, 2);
	held_end_cell();
}

TEST_MAIN({ "what is connected to arrives", what_is_connected_to_arrives },
	  { "in the locked profile too", in_the_locked_profile_too },
	  { "loopback is the cell's own", loopback_is_the_cells_own },
	  { "every port but one is free", every_port_but_one_is_free },
	  { "names are asked for", names_are_asked_for },
	  { "a closed door refuses", a_closed_door_refuses },
	  { "it outlives who asked", it_outlives_who_asked },
	  { "programs do not have it", programs_do_not_have_it },
	  { "a kernel without nftables makes cells without door",
	    a_kernel_without_nftables_makes_cells_without_door },
	  { "a kernel without IPv6 has a door", a_kernel_without_ipv6_has_a_door },
	  { "programs are told whom to trust", programs_are_told_whom_to_trust })
