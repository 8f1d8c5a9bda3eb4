/* SOCKS5, byte by byte. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "lib/outbound/outbound_socks.h"

static const struct policy_proxy open_proxy = { "proxy.example", 1080, "", "" };
static const struct policy_proxy password_proxy = { "proxy.example", 1080, "me", "secret" };
static const struct policy_target by_name = { .host = "a.example", .port = 443 };

static void start(struct outbound_socks *s, const struct policy_proxy *p,
		  const struct policy_target *to)
{
	struct err e;

	CHECK(outbound_socks_init(s, p, to, &e) == 0);
}

static void hear(struct outbound_socks *s, const void *bytes, size_t n, int result)
{
	struct err e = { 0 };

	CHECK(s->want == n);
	memcpy(s->in, bytes, n);
	CHECK(outbound_socks_take(s, &e) == result);
	CHECK(result == 0 || e.code == ERR_SYSTEM);
}

static void said(const struct outbound_socks *s, const void *bytes, size_t n)
{
	CHECK(s->nout == n && memcmp(s->out, bytes, n) == 0 && s->sent == 0);
}

static void by_name_without_password(void)
{
	struct outbound_socks s;

	start(&s, &open_proxy, &by_name);
	said(&s, "\5\1\0", 3);
	hear(&s, "\5\0", 2, 0);
	said(&s, "\5\1\0\3\11a.example\1\273", 16);
	hear(&s, "\5\0\0\1\12", 5, 0);
	hear(&s, "\0\0\1\4\70", 5, 0);
	CHECK(s.step == OUTBOUND_SOCKS_DONE);
}

static void password(void)
{
	struct outbound_socks s;

	start(&s, &password_proxy, &by_name);
	said(&s, "\5\2\0\2", 4);
	hear(&s, "\5\2", 2, 0);
	said(&s, "\1\2me\6secret", 11);
	hear(&s, "\1\0", 2, 0);
	said(&s, "\5\1\0\3\11a.example\1\273", 16);
	hear(&s, "\5\0\0\3\4", 5, 0);
	hear(&s, "host\0\120", 6, 0);
	CHECK(s.step == OUTBOUND_SOCKS_DONE);
	outbound_socks_clear(&s);
	CHECK(memmem(&s, sizeof(s), "secret", 6) == NULL);
}

static void by_address(void)
{
	struct policy_target to = { .port = 80 };
	struct outbound_socks s;

	CHECK(ip_read("192.0.2.7", 9, &to.ip) == 0);
	start(&s, &open_proxy, &to);
	hear(&s, "\5\0", 2, 0);
	said(&s, "\5\1\0\1\300\0\2\7\0\120", 10);
	CHECK(ip_read("2001:db8::1", 11, &to.ip) == 0);
	start(&s, &open_proxy, &to);
	hear(&s, "\5\0", 2, 0);
	said(&s, "\5\1\0\4\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1\0\120", 22);
	hear(&s, "\5\0\0\4\0", 5, 0);
	CHECK(s.want == 17);
}

static void refused(void)
{
	static const struct {
		const char *bytes;
		int sys;
	} replies[] = { { "\5\2\0\1\0", EACCES },
			{ "\5\5\0\1\0", ECONNREFUSED },
			{ "\5\4\0\1\0", EHOSTUNREACH },
			{ "\5\x63\0\1\0", EIO },
			{ "\4\0\0\1\0", 0 },
			{ "\5\0\1\1\0", 0 },
			{ "\5\0\0\2\0", 0 },
			{ "\5\0\0\0\0", 0 } };
	struct outbound_socks s;
	struct err e;

	for (size_t i = 0; i < COUNT(replies); i++) {
		start(&s, &open_proxy, &by_name);
		hear(&s, "\5\0", 2, 0);
		memcpy(s.in, replies[i].bytes, 5);
		e = (struct err){ 0 };
		CHECK(outbound_socks_take(&s, &e) == -1 && e.code == ERR_SYSTEM);
		CHECK(replies[i].sys == 0 || e.sys == replies[i].sys);
	}
}

static void bad_method(void)
{
	struct outbound_socks s;

	start(&s, &open_proxy, &by_name);
	hear(&s, "\4\0", 2, -1);
	start(&s, &open_proxy, &by_name);
	hear(&s, "\5\2", 2, -1); /* a password was not offered, and none is sent */
	start(&s, &open_proxy, &by_name);
	hear(&s, "\5\377", 2, -1);
	start(&s, &password_proxy, &by_name);
	hear(&s, "\5\1", 2, -1);
	start(&s, &password_proxy, &by_name);
	hear(&s, "\5\2", 2, 0);
	hear(&s, "\1\1", 2, -1);
}

static void too_long(void)
{
	char text[258];
	struct policy_proxy p = { "proxy.example", 1080, text, "x" };
	struct outbound_socks s;
	struct err e;

	memset(text, 'a', 256);
	text[256] = '\0';
	CHECK(outbound_socks_init(&s, &p, &by_name, &e) == -1 && e.code == ERR_INVALID);
	text[255] = '\0';
	p.password = text;
	CHECK(outbound_socks_init(&s, &p, &by_name, &e) == 0 && s.nauth == 513);
	p.user = "u";
	text[255] = 'a';
	CHECK(outbound_socks_init(&s, &p, &by_name, &e) == -1);
}

/* The server's first bytes, in the same packet as the proxy's reply, stays in the socket. */
static void leaves_the_rest(void)
{
	static const uint8_t answer[] = "\5\0\5\0\0\1\12\0\0\1\4\70SSH-2.0";
	struct outbound_socks s;
	uint32_t events = 0;
	char rest[32];
	struct err e;
	int pair[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
	start(&s, &open_proxy, &by_name);
	CHECK(outbound_socks_go(&s, pair[0], &events, &e) == 0 && events == EPOLLIN);
	CHECK(write(pair[1], answer, sizeof(answer) - 1) == sizeof(answer) - 1);
	CHECK(outbound_socks_go(&s, pair[0], &events, &e) == 1);
	CHECK(read(pair[0], rest, sizeof(rest)) == 7 && memcmp(rest, "SSH-2.0", 7) == 0);
	(void)close(pair[0]);
	(void)close(pair[1]);
}

static void closed(void)
{
	struct outbound_socks s;
	uint32_t events = 0;
	struct err e;
	int pair[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
	start(&s, &open_proxy, &by_name);
	CHECK(write(pair[1], "\5", 1) == 1);
	CHECK(outbound_socks_go(&s, pair[0], &events, &e) == 0);
	(void)close(pair[1]);
	CHECK(outbound_socks_go(&s, pair[0], &events, &e) == -1 && e.code == ERR_SYSTEM);
	(void)close(pair[0]);
}

TEST_MAIN({ "by name", by_name_without_password }, { "user and password", password },
	  { "by address", by_address }, { "refused", refused }, { "methods", bad_method },
	  { "too long", too_long }, { "bytes behind the reply", leaves_the_rest },
	  { "closed in the middle", closed })
