/* test_addr.c - addresses: what is one, what is loopback, and sockets made of them. */
#include "lib/base/addr.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "test.h"

static void reads_and_writes(void)
{
	static const struct {
		const char *text, *back;
		bool loopback;
		uint16_t port;
	} good[] = {
		{ "127.0.0.1:4983", "127.0.0.1:4983", true, 4983 },
		{ "127.255.0.9:1", "127.255.0.9:1", true, 1 },
		{ "localhost:80", "127.0.0.1:80", true, 80 },
		{ "0.0.0.0:65535", "0.0.0.0:65535", false, 65535 },
		{ "10.1.2.3:0", "10.1.2.3:0", false, 0 },
		{ "[::1]:4983", "[::1]:4983", true, 4983 },
		{ "[::]:80", "[::]:80", false, 80 },
		{ "*:80", "[::]:80", false, 80 },
		{ "[::ffff:127.0.0.1]:80", "[::ffff:127.0.0.1]:80", true, 80 },
		{ "[::ffff:10.0.0.1]:80", "[::ffff:10.0.0.1]:80", false, 80 },
		{ "[fe80::1]:80", "[fe80::1]:80", false, 80 },
		{ "unix:/run/x.sock", "unix:/run/x.sock", true, 0 },
	};

	for (size_t i = 0; i < COUNT(good); i++) {
		char text[ADDR_TEXT_MAX];
		struct addr a;
		struct err e;

		CHECK(addr_parse(good[i].text, &a, &e) == 0);
		addr_format(&a, text, sizeof(text));
		CHECK_STR(text, good[i].back);
		CHECK(addr_is_loopback(&a) == good[i].loopback);
		CHECK(addr_port(&a) == good[i].port);
		CHECK(addr_is_unix(&a) == (strncmp(text, "unix:", 5) == 0));
	}
}

static void refuses(void)
{
	static const char *const bad[] = {
		"",
		":",
		":80",
		"127.0.0.1",
		"127.0.0.1:",
		"127.0.0.1:65536",
		"127.0.0.1:+1",
		"127.0.0.1: 1",
		"127.0.0.1:123456",
		"127.0.0.1:80 ",
		"127.1:80",
		"0x7f.0.0.1:80",
		"example.org:80",
		"::1:80",
		"[::1]",
		"[::1:80",
		"::1]:80",
		"[]:80",
		"[127.0.0.1]:80",
		"[::1]80",
		"unix:",
		"unix:relative",
		"unix:/",
		"LOCALHOST:80",
		"**:80",
		"[aaaa:bbbb:cccc:dddd:eeee:ffff:aaaa:bbbb:cccc:dddd:eeee]:80",
	};
	char longest[200];
	struct addr a;
	struct err e;

	for (size_t i = 0; i < COUNT(bad); i++) {
		e.code = ERR_NONE;
		CHECK(addr_parse(bad[i], &a, &e) < 0);
		CHECK(e.code == ERR_INVALID && e.msg[0]);
	}
	memset(longest, 'a', sizeof(longest));
	memcpy(longest, "unix:/", 6);
	longest[5 + 107] = '\0';
	CHECK(addr_parse(longest, &a, &e) == 0);
	longest[5 + 107] = 'a';
	longest[5 + 108] = '\0';
	CHECK(addr_parse(longest, &a, &e) < 0);
}

static void connects_over_tcp(void)
{
	OWN_FD listener = -1, there = -1;
	char text[ADDR_TEXT_MAX];
	struct addr a;
	struct err e;

	CHECK(addr_parse("127.0.0.1:0", &a, &e) == 0);
	listener = addr_listen(&a, 0, &e);
	CHECK(listener >= 0);
	CHECK(addr_of_socket(listener, &a, &e) == 0 && addr_port(&a) != 0);
	CHECK(fcntl(listener, F_GETFD) & FD_CLOEXEC && fcntl(listener, F_GETFL) & O_NONBLOCK);
	there = addr_connect(&a, 1000, &e);
	CHECK(there >= 0);
	CHECK(addr_listen(&a, 0, &e) < 0);
	CHECK(strstr(e.msg, "cannot listen on 127.0.0.1:"));
	(void)close(there);
	there = -1;
	(void)close(listener);
	listener = -1;
	CHECK(addr_connect(&a, 1000, &e) < 0);
	addr_format(&a, text, sizeof(text));
	CHECK(strstr(e.msg, "cannot connect to 127.0.0.1:") && strstr(e.msg, text) &&
	      strstr(e.msg, "Connection refused"));
}

static void unix_sockets_are_replaced_only_when_stale(void)
{
	char folder[] = "/tmp/test_addr.XXXXXX", path[64], text[80];
	struct addr a, got;
	struct err e;
	struct stat st;
	int listener, there;

	CHECK(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/s", folder);
	(void)snprintf(text, sizeof(text), "unix:%s", path);
	CHECK(addr_parse(text, &a, &e) == 0);
	listener = addr_listen(&a, 0660, &e);
	CHECK(listener >= 0);
	CHECK(lstat(path, &st) == 0 && (st.st_mode & 0777) == 0660);
	there = addr_connect(&a, 1000, &e);
	CHECK(there >= 0);
	CHECK(addr_of_socket(there, &got, &e) == 0);
	addr_format(&got, text, sizeof(text));
	CHECK_STR(text, "unix");
	CHECK(addr_listen(&a, 0600, &e) < 0 && e.code == ERR_CONFLICT);
	(void)close(there);
	(void)close(listener);
	listener = addr_listen(&a, 0600, &e); /* left behind */
	CHECK(listener >= 0);
	CHECK(lstat(path, &st) == 0 && (st.st_mode & 0777) == 0600);
	(void)close(listener);
	CHECK(unlink(path) == 0);
	CHECK(close(open(path, O_CREAT | O_CLOEXEC, 0600)) == 0);
	CHECK(addr_listen(&a, 0600, &e) < 0 && e.code == ERR_CONFLICT); /* no socket: not ours */
	CHECK(unlink(path) == 0 && rmdir(folder) == 0);
}

TEST_MAIN({ "reads and writes", reads_and_writes }, { "refuses", refuses },
	  { "connects over TCP", connects_over_tcp },
	  { "Unix sockets are replaced only when stale",
	    unix_sockets_are_replaced_only_when_stale })
