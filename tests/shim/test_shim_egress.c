/* Goal: what programs in a guest want to reach is connected in the cell's network, byte for byte,
 * with both ends of a connection; DNS queries are asked there; and cordon-egress can ask which
 * program it was. The network here has one address beside loopback, at which this test listens. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "lib/base/io.h"
#include "lib/wire/owner_msg.h"
#include "shim_bed.h"

#define ADDRESS "192.0.2.1"
#define PORT 8080
#define MARK 4242

static struct err e;

static struct sockaddr_in address_of(uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };

	CHECK(inet_pton(AF_INET, ADDRESS, &a.sin_addr) == 1);
	return a;
}

static void make_network(void)
{
	struct ifreq up = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	struct ifreq set = { .ifr_name = "lo:1" };
	struct sockaddr_in a = address_of(0);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (getuid() != 0)
		SKIP("needs root");
	CHECK(unshare(CLONE_NEWNET) == 0);
	(void)close(fd);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	memcpy(&set.ifr_addr, &a, sizeof(a));
	CHECK(ioctl(fd, SIOCSIFFLAGS, &up) == 0 && ioctl(fd, SIOCSIFADDR, &set) == 0);
	(void)close(fd);
}

static int listen_at(int type, uint16_t port)
{
	struct sockaddr_in a = address_of(port);
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
	CHECK(type == SOCK_DGRAM || listen(fd, 16) == 0);
	return fd;
}

/* kind, family, port, credit, mark, address, zero: as mux.c writes it */
static void say_open(uint16_t stream, enum mux_kind kind, uint16_t port)
{
	uint8_t o[MUX_OPEN_SIZE] = { (uint8_t)kind, 4, (uint8_t)port,
				     (uint8_t)(port >> 8), [6] = 4 };

	o[8] = MARK & 0xff;
	o[9] = MARK >> 8;
	CHECK(inet_pton(AF_INET, ADDRESS, o + 16) == 1);
	guest_say(MUX_OPEN, stream, o, sizeof(o));
}

static void begin(void)
{
	make_network();
	bed_begin();
}

/* An established connection: stream 1, and the server's end. */
static int connect_one(int listener)
{
	int fd;

	say_open(1, MUX_TCP, PORT);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	CHECK(fd >= 0);
	CHECK(guest_hear(MUX_CREDIT).stream == 1);
	return fd;
}

static void a_connection_goes_both_ways(void)
{
	char bytes[16];
	struct frame f;
	int listener, fd;

	begin();
	listener = listen_at(SOCK_STREAM, PORT);
	fd = connect_one(listener);
	guest_say_data(1, "request", 7);
	CHECK(bed_read(fd, bytes, 7) == 7 && memcmp(bytes, "request", 7) == 0);
	guest_say(MUX_EOF, 1, NULL, 0);
	CHECK(bed_read(fd, bytes, 1) == 0); /* half closed: the answer can still be sent */
	bed_write(fd, "answer", 6);
	f = guest_hear(MUX_DATA);
	CHECK(f.len == 6 && memcmp(f.body, "answer", 6) == 0);
	(void)close(fd);
	(void)guest_hear(MUX_EOF);
	CHECK(guest_hear(MUX_RESET).stream == 1);
	guest_say(MUX_RESET, 1, &(uint32_t){ 0 }, 4);
	say_open(1, MUX_TCP, PORT); /* the number is free again */
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	CHECK(fd >= 0 && guest_hear(MUX_CREDIT).stream == 1);
	bed_end();
}

static void a_refusal_is_passed_on(void)
{
	uint32_t sys;
	struct frame f;

	begin();
	say_open(1, MUX_TCP, PORT);
	f = guest_hear(MUX_RESET);
	memcpy(&sys, f.body, sizeof(sys));
	CHECK(f.stream == 1 && sys == ECONNREFUSED);
	bed_end();
}

/* OPEN, and in the same bytes another frame: the connection is not established yet when it is read.
 */
static void say_open_with(uint16_t type, uint16_t stream)
{
	uint8_t bytes[2 * FRAME_HEAD + MUX_OPEN_SIZE + 4] = { 0 };
	uint8_t *o = bytes + FRAME_HEAD, *next = o + MUX_OPEN_SIZE;

	frame_head_stream(bytes, MUX_OPEN, 1, MUX_OPEN_SIZE);
	memcpy(o, (uint8_t[]){ MUX_TCP, 4, PORT & 0xff, PORT >> 8, 0, 0, 4 }, 7);
	CHECK(inet_pton(AF_INET, ADDRESS, o + 16) == 1);
	frame_head_stream(next, type, stream, type == MUX_EOF ? 0 : 4);
	bed_write(bed_guest, bytes, sizeof(bytes) - (type == MUX_EOF ? 4 : 0));
}

static void a_connection_given_up_at_once(void)
{
	begin();
	(void)listen_at(SOCK_STREAM, PORT);
	say_open_with(MUX_RESET, 1);
	CHECK(guest_hear(MUX_RESET).stream == 1);
	say_open(1, MUX_TCP, PORT);
	CHECK(guest_hear(MUX_CREDIT).stream == 1); /* one answer, to the second */
	CHECK(guest_is_silent(50));
	bed_end();
}

static void an_end_at_once_is_passed_on(void)
{
	int listener, fd;
	char byte;

	begin();
	listener = listen_at(SOCK_STREAM, PORT);
	say_open_with(MUX_EOF, 1);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	CHECK(fd >= 0 && guest_hear(MUX_CREDIT).stream == 1);
	CHECK(bed_read(fd, &byte, 1) == 0);
	bed_end();
}

/* The guest is ended for the second frame, while the connection is not established. */
static void a_breach_with_a_connection_on_its_way(void)
{
	begin();
	(void)listen_at(SOCK_STREAM, PORT);
	say_open_with(MUX_RESET, 33);
	CHECK(bed_hear(AGENT_GUEST).stage == BOOT_GUEST_BROKE);
	CHECK(bed_is_over(WAIT_MS));
	bed_end();
}

/* The stream is gone, and the shim lives for two more seconds. */
static void an_end_with_a_connection_on_its_way(void)
{
	begin();
	(void)listen_at(SOCK_STREAM, PORT);
	say_open(1, MUX_TCP, PORT);
	(void)close(bed_guest);
	bed_guest = -1;
	CHECK(bed_hear(AGENT_GUEST).stage == BOOT_GUEST_BROKE);
	CHECK(bed_is_over(WAIT_MS));
	bed_end();
}

/* A guest that gives a connection up: the server sees a reset, not an end. */
static void an_abort_is_passed_on(void)
{
	char byte;
	int fd;

	begin();
	fd = connect_one(listen_at(SOCK_STREAM, PORT));
	guest_say(MUX_RESET, 1, &(uint32_t){ ECONNRESET }, 4);
	CHECK(guest_hear(MUX_RESET).stream == 1);
	CHECK(read(fd, &byte, 1) == -1 && errno == ECONNRESET);
	bed_end();
}

/* What the server does not read is bounded by the credit, which does not come back. */
static void a_server_that_does_not_read(void)
{
	static char bytes[MUX_DATA_MAX];
	int fd, small = 4096;
	size_t sent = 0, credit = MUX_WINDOW;

	begin();
	fd = connect_one(listen_at(SOCK_STREAM, PORT));
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	for (;;) { /* socket buffers take some megabytes first */
		if (credit < sizeof(bytes)) {
			uint32_t more;
			struct frame f;

			if (guest_is_silent(300))
				break;
			f = guest_hear(MUX_CREDIT);
			memcpy(&more, f.body, sizeof(more));
			credit += more;
			continue;
		}
		guest_say_data(1, bytes, sizeof(bytes));
		credit -= sizeof(bytes);
		sent += sizeof(bytes);
		CHECK(sent < 64U << 20);
	}
	bed_end();
}

static void a_name_is_asked_for(void)
{
	static const uint8_t query[] = { 0, 5, 'q', 'u', 'e', 'r', 'y' };
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	uint8_t bytes[64];
	struct frame f;
	int udp;

	begin();
	udp = listen_at(SOCK_DGRAM, 53);
	say_open(1, MUX_DNS, 53);
	CHECK(guest_hear(MUX_CREDIT).stream == 1);
	guest_say_data(1, query, 3);
	guest_say_data(1, query + 3, sizeof(query) - 3);
	CHECK(recvfrom(udp, bytes, sizeof(bytes), 0, (struct sockaddr *)&from, &len) == 5);
	CHECK(memcmp(bytes, "query", 5) == 0);
	CHECK(sendto(udp, "the answer", 10, 0, (struct sockaddr *)&from, len) == 10);
	f = guest_hear(MUX_DATA);
	CHECK(f.len == 12 && f.body[0] == 0 && f.body[1] == 10);
	CHECK(memcmp(f.body + 2, "the answer", 10) == 0);
	(void)guest_hear(MUX_EOF);
	bed_end();
}

/* The guest tells the length. A datagram of this length goes to the place in the cell. */
static void a_refused_datagram_is_sent_in_the_cell(void)
{
	static const uint8_t zeros[300];
	uint8_t bytes[1000];
	int udp;

	begin();
	udp = listen_at(SOCK_DGRAM, 9999);
	for (uint16_t n = 1; n <= 5; n += 2) {
		size_t want = n == 1 ? 300 : n == 3 ? 0 : 1;

		say_open(n, MUX_DNS, 9999);
		CHECK(guest_hear(MUX_CREDIT).stream == n);
		guest_say_data(n, (const uint8_t[]){ (uint8_t)(want >> 8), (uint8_t)want }, 2);
		CHECK(recv(udp, bytes, sizeof(bytes), 0) == (ssize_t)want);
		CHECK(memcmp(bytes, zeros, want) == 0);
		CHECK(guest_hear(MUX_EOF).stream == n);
	}
	bed_end();
}

/* There is no resolver: the program is told so, unless its query has no head. */
static void a_name_without_a_network_is_refused(void)
{
	static const uint8_t query[] = { 0, 14, 'i', 'd', 1, 3, 0, 1, 0, 0, 0, 0, 0, 0, 'q', 'q' };
	struct frame f;

	begin();
	say_open(1, MUX_DNS, 53);
	CHECK(guest_hear(MUX_CREDIT).stream == 1);
	guest_say_data(1, query, sizeof(query));
	f = guest_hear(MUX_DATA);
	CHECK(f.len == sizeof(query) && memcmp(f.body, query, 4) == 0);
	CHECK(f.body[4] == 0x81 && f.body[5] == 5);
	CHECK(memcmp(f.body + 6, query + 6, sizeof(query) - 6) == 0);
	(void)guest_hear(MUX_EOF);
	say_open(3, MUX_DNS, 53);
	CHECK(guest_hear(MUX_CREDIT).stream == 3);
	guest_say_data(3, (const uint8_t[]){ 0, 1, 'x' }, 3);
	CHECK(guest_hear(MUX_EOF).stream == 3);
	bed_end();
}

static void the_program_of_a_connection_is_known(void)
{
	struct owner_question q = { .id = 5, .to_port = PORT };
	struct owner_answer a;
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	int listener, fd, pair[2];

	begin();
	listener = listen_at(SOCK_STREAM, PORT);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	CHECK(agent_send_listen_egress(&agent, pair[1], &e) == 0);
	CHECK(bed_hear(AGENT_EGRESS_LISTENS).sys == EOPNOTSUPP); /* no keeper made its socket */
	say_open(1, MUX_TCP, PORT);
	fd = accept4(listener, (struct sockaddr *)&from, &len, SOCK_CLOEXEC);
	CHECK(fd >= 0 && guest_hear(MUX_CREDIT).stream == 1);
	q.from_port = ntohs(from.sin_port);
	CHECK(send(pair[0], &q, sizeof(q), 0) == sizeof(q));
	CHECK(recv(pair[0], &a, sizeof(a), 0) == sizeof(a));
	CHECK(a.id == 5 && a.result == OWNER_FOUND && a.mark == MARK);
	q.from_port++;
	CHECK(send(pair[0], &q, sizeof(q), 0) == sizeof(q));
	CHECK(recv(pair[0], &a, sizeof(a), 0) == sizeof(a));
	CHECK(a.result == OWNER_GONE && a.mark == 0);
	bed_end();
}

TEST_MAIN({ "a connection goes both ways", a_connection_goes_both_ways },
	  { "a refusal is passed on", a_refusal_is_passed_on },
	  { "a connection given up at once", a_connection_given_up_at_once },
	  { "an end at once is passed on", an_end_at_once_is_passed_on },
	  { "a breach with a connection on its way", a_breach_with_a_connection_on_its_way },
	  { "an end with a connection on its way", an_end_with_a_connection_on_its_way },
	  { "an abort is passed on", an_abort_is_passed_on },
	  { "a server that does not read", a_server_that_does_not_read },
	  { "a name is asked for", a_name_is_asked_for },
	  { "a refused datagram is sent in the cell", a_refused_datagram_is_sent_in_the_cell },
	  { "a name without a network is refused", a_name_without_a_network_is_refused },
	  { "the program of a connection is known", the_program_of_a_connection_is_known })
