/* test_client.c - the HTTP client against echo_server: test_client ECHO_SERVER. Where a server must
 * misbehave, a child of the test sends fixed bytes. */
#include "lib/net/client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include "lib/base/addr.h"
#include "lib/base/clock.h"
#include "test.h"

static const char *program;
static char url[160];
static struct err e;

static void start_server(const char *address, const char *extra1, const char *extra2)
{
	char line[ADDR_TEXT_MAX] = "";
	int out[2];
	ssize_t n;

	CHECK(pipe(out) == 0);
	if (fork() == 0) {
		(void)dup2(out[1], 1);
		(void)close(out[0]);
		(void)alarm(60); /* ends with us at the latest */
		(void)execl(program, program, address, extra1, extra2, (char *)NULL);
		_exit(127);
	}
	(void)close(out[1]);
	n = read(out[0], line, sizeof(line) - 1);
	CHECK(n > 1);
	line[n - 1] = '\0';
	(void)snprintf(url, sizeof(url), "%s%s", strncmp(line, "unix:", 5) == 0 ? "" : "http://",
		       line);
}

static void stop_server(struct client *c)
{
	struct client_request r = { .method = "GET", .target = "/quit" };

	CHECK(client_send(c, &r, &e) == 0);
	client_free(c);
}

static struct client *open_client(void)
{
	struct client_options o = { .url = url, .io_ms = 10000 };
	struct client *c = client_new(&o, &e);

	CHECK(c);
	return c;
}

static void get(struct client *c, const char *target)
{
	struct client_request r = { .method = "GET", .target = target };

	if (client_send(c, &r, &e) < 0) {
		printf("# %s\n", e.msg);
		FAIL("not sent");
	}
}

static void check_body(struct client *c, const char *want)
{
	char *body;
	size_t len;

	CHECK(client_read_all(c, 1000000, &body, &len, &e) == 0);
	CHECK(len == strlen(want));
	CHECK_STR(body, want);
	free(body);
}

static void asks_and_keeps_alive(void)
{
	char peer[64], first[64];
	struct client *c;

	start_server("127.0.0.1:0", NULL, NULL);
	c = open_client();
	get(c, "/headers");
	CHECK(client_status(c) == 200 && client_length(c) == 8);
	CHECK(client_header(c, "x-peer", first, sizeof(first)));
	CHECK(!client_header(c, "X-Peer", first, 3) && !client_header(c, "X-None", peer, 10));
	check_body(c, "headers\n");
	for (int i = 0; i < 20; i++) {
		get(c, i % 2 ? "/nothing" : "/hello");
		CHECK(client_status(c) == (i % 2 ? 204 : 200)); /* body not read: goes by itself */
	}
	get(c, "/headers");
	CHECK(client_header(c, "X-Peer", peer, sizeof(peer)));
	CHECK_STR(peer, first);		  /* the same connection */
	get(c, "/stream?bytes=10000000"); /* too long to be dropped: a new one */
	get(c, "/headers");
	CHECK(client_header(c, "X-Peer", peer, sizeof(peer)) && strcmp(peer, first) != 0);
	stop_server(c);
}

static void bodies_go_and_come(void)
{
	static uint8_t bytes[1000000];
	struct client_request r = { .method = "POST", .target = "/echo", .type = "text/plain" };
	struct client *c;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 31 >> 3);
	start_server("127.0.0.1:0", NULL, NULL);
	c = open_client();
	for (size_t n = 0; n <= sizeof(bytes); n = n * 10 + 7) {
		char *body;
		size_t len;

		r.body = bytes;
		r.body_len = n;
		CHECK(client_send(c, &r, &e) == 0 && client_status(c) == 200);
		CHECK(client_read_all(c, sizeof(bytes), &body, &len, &e) == 0);
		CHECK(len == n && memcmp(body, bytes, n) == 0);
		free(body);
	}
	CHECK(client_send(c, &r, &e) == 0);
	{
		char *body;
		size_t len;

		CHECK(client_read_all(c, 10, &body, &len, &e) < 0 && e.code == ERR_LIMIT);
	}
	stop_server(c);
}

struct counter {
	uint64_t at, end;
};

static ssize_t count_up(void *arg, void *buf, size_t cap, struct err *err)
{
	struct counter *k = arg;
	uint8_t *to = buf;
	size_t n = 0;

	for (; n < cap && n < 5000 && k->at < k->end; n++)
		to[n] = (uint8_t)(k->at++ % 251);
	return (ssize_t)n;
}

static void sources_are_streamed(void)
{
	struct counter k = { 0, 3000000 };
	struct client_request r = {
		.method = "POST", .target = "/count", .source = count_up, .source_arg = &k
	};
	struct client *c;
	char path[] = "/tmp/test_client.XXXXXX";
	int fd = mkstemp(path);

	start_server("127.0.0.1:0", NULL, NULL);
	c = open_client();
	CHECK(client_send(c, &r, &e) == 0); /* chunked */
	check_body(c, "3000000\n");
	k.at = 0;
	r.source_len = k.end;
	CHECK(client_send(c, &r, &e) == 0);
	check_body(c, "3000000\n");
	k.at = 0;
	r.source_len = k.end + 1; /* fewer than promised: our own error */
	CHECK(client_send(c, &r, &e) < 0 && strstr(e.msg, "too early"));

	CHECK(fd >= 0 && unlink(path) == 0 && write(fd, "\0\1\2", 3) == 3 && lseek(fd, 0, 0) == 0);
	r.source = client_source_fd;
	r.source_arg = &fd;
	r.source_len = 0;
	CHECK(client_send(c, &r, &e) == 0);
	check_body(c, "3\n");
	(void)close(fd);

	/* Refused while it is being sent: the answer is seen, and sending stops. */
	k = (struct counter){ 0, 1000000000 };
	r.target = "/own-words";
	r.source = count_up;
	r.source_arg = &k;
	CHECK(client_send(c, &r, &e) == 0 && client_status(c) == 422 && k.at < k.end / 10);
	check_body(c, "my own words\n");
	get(c, "/hello");
	check_body(c, "hello\n");
	stop_server(c);
}

static int add_up(void *arg, const void *data, size_t len, struct err *err)
{
	*(uint64_t *)arg += len;
	return 0;
}

static void long_answers_are_read_in_pieces(void)
{
	static const char *const targets[] = { "/stream?bytes=50000000", "/length?bytes=50000000" };
	struct client_request cut = { .method = "GET", .target = "/short" };
	uint64_t total = 0;
	struct client *c;

	start_server("127.0.0.1:0", NULL, NULL);
	c = open_client();
	for (size_t i = 0; i < COUNT(targets); i++) {
		total = 0;
		get(c, targets[i]);
		CHECK(client_length(c) == (i == 0 ? UINT64_MAX : 50000000));
		CHECK(client_read_each(c, add_up, &total, &e) == 0 && total == 50000000);
	}
	CHECK(client_send(c, &cut, &e) < 0 || client_read_each(c, add_up, &total, &e) < 0);
	stop_server(c);
}

static void closed_connections_are_reopened(void)
{
	struct client_request r = {
		.method = "POST", .target = "/echo", .body = "x", .body_len = 1
	};
	struct client *c;

	start_server("127.0.0.1:0", "idle_ms=50", NULL);
	c = open_client();
	for (int i = 0; i < 3; i++) {
		get(c, "/hello");
		check_body(c, "hello\n");
		CHECK(usleep(120000) == 0); /* the server has closed */
		CHECK(client_send(c, &r, &e) == 0 && client_status(c) == 200);
		check_body(c, "x");
		CHECK(usleep(120000) == 0);
	}
	stop_server(c);
}

static void events_are_read(void)
{
	struct client_event event;
	struct client *c;

	start_server("127.0.0.1:0", NULL, NULL);
	c = open_client();
	get(c, "/ticks?n=4");
	for (int i = 0; i < 4; i++) {
		CHECK(client_sse_next(c, &event, &e) == 1);
		CHECK_STR(event.name, "message");
		CHECK_STR(event.data, "tick");
	}
	CHECK(client_sse_next(c, &event, &e) == 0);
	stop_server(c);
}

static void websockets(void)
{
	static uint8_t bytes[90000];
	struct client_ws_message m;
	struct client *c;

	start_server("127.0.0.1:0", NULL, NULL);
	c = open_client();
	CHECK(client_ws_open(c, "/hello", NULL, 0, &e) == 1 && client_status(c) == 200);
	CHECK(client_ws_open(c, "/ws", NULL, 0, &e) == 0);
	CHECK(client_ws_recv(c, 20, &m, &e) == 0);
	for (size_t n = 0; n < sizeof(bytes); n = n * 5 + 1) {
		memset(bytes, (int)n, sizeof(bytes));
		CHECK(client_ws_send(c, n % 2, bytes, n % 2 ? 0 : n, &e) == 0);
		CHECK(client_ws_recv(c, 5000, &m, &e) == 1);
		CHECK(m.kind == (n % 2 ? CLIENT_WS_TEXT : CLIENT_WS_BINARY));
		CHECK(m.len == (n % 2 ? 0 : n) &&
		      (m.len == 0 || memcmp(m.data, bytes, m.len) == 0));
	}
	CHECK(client_ws_send(c, true, "flood", 5, &e) == 0);
	for (int i = 0; i < 2000; i++)
		CHECK(client_ws_recv(c, 5000, &m, &e) == 1 && m.len == 1000);
	CHECK(client_ws_send(c, true, "close", 5, &e) == 0);
	CHECK(client_ws_recv(c, 5000, &m, &e) == 1 && m.kind == CLIENT_WS_CLOSED && m.code == 4001);
	CHECK_STR((const char *)m.data, "as you wish");
	CHECK(client_ws_recv(c, 5000, &m, &e) < 0 && client_ws_send(c, true, "x", 1, &e) < 0);
	CHECK(client_ws_open(c, "/ws", NULL, 0, &e) == 0);
	CHECK(client_ws_close(c, 1000, "bye", &e) == 0);
	CHECK(client_ws_recv(c, 5000, &m, &e) == 1 && m.kind == CLIENT_WS_CLOSED && m.code == 1000);
	get(c, "/hello");
	check_body(c, "hello\n");
	stop_server(c);
}

static void over_a_unix_socket(void)
{
	char folder[] = "/tmp/test_client.XXXXXX", path[64], address[80];
	struct client *c;

	CHECK(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/s", folder);
	(void)snprintf(address, sizeof(address), "unix:%s", path);
	start_server(address, NULL, NULL);
	c = open_client();
	get(c, "/hello");
	check_body(c, "hello\n");
	stop_server(c);
	CHECK(unlink(path) == 0 && rmdir(folder) == 0);
}

static int run_openssl(const char *folder, const char *name)
{
	char key[64], cert[64], subject[64];
	pid_t pid;
	int status;

	(void)snprintf(key, sizeof(key), "%s/key", folder);
	(void)snprintf(cert, sizeof(cert), "%s/cert", folder);
	(void)snprintf(subject, sizeof(subject), "subjectAltName=%s", name);
	pid = fork();
	if (pid == 0) {
		(void)fclose(stderr);
		(void)execlp("openssl", "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
			     "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", cert,
			     "-days", "2", "-subj", "/CN=x", "-addext", subject, (char *)NULL);
		_exit(127);
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void try_tls(const char *folder, const char *name, bool trust, bool insecure,
		    const char *want)
{
	char cert[64], cert_option[80], key_option[80], tls_url[200];
	struct client_options o = { .url = tls_url, .insecure = insecure, .connect_ms = 5000 };
	struct client_request r = { .method = "GET", .target = "/stream?bytes=1000000" };
	struct client *c;
	uint64_t total = 0;

	if (run_openssl(folder, name) != 0)
		SKIP("no openssl to make a certificate");
	(void)snprintf(cert, sizeof(cert), "%s/cert", folder);
	(void)snprintf(cert_option, sizeof(cert_option), "cert=%s", cert);
	(void)snprintf(key_option, sizeof(key_option), "key=%s/key", folder);
	start_server("127.0.0.1:0", cert_option, key_option);
	(void)snprintf(tls_url, sizeof(tls_url), "https://%s", url + strlen("http://"));
	o.ca_file = trust ? cert : NULL;
	c = client_new(&o, &e);
	CHECK(c);
	if (want) {
		CHECK(client_send(c, &r, &e) < 0);
		printf("# %s\n", e.msg);
		CHECK(strstr(e.msg, want));
		client_free(c);
		o.insecure = true; /* to end the server */
		c = client_new(&o, &e);
		CHECK(c);
	} else {
		CHECK(client_send(c, &r, &e) == 0);
		CHECK(client_read_each(c, add_up, &total, &e) == 0 && total == 1000000);
	}
	stop_server(c);
}

static void certificates_are_verified(void)
{
	char folder[] = "/tmp/test_client.XXXXXX", path[64];

	CHECK(mkdtemp(folder));
	try_tls(folder, "IP:127.0.0.1", true, false, NULL);
	try_tls(folder, "IP:127.0.0.1", false, false, "certificate");
	try_tls(folder, "IP:127.0.0.2", true, false, "IP address mismatch");
	try_tls(folder, "DNS:localhost", true, false, "IP address mismatch");
	try_tls(folder, "IP:127.0.0.2", false, true, NULL);
	(void)snprintf(path, sizeof(path), "%s/key", folder);
	(void)unlink(path);
	(void)snprintf(path, sizeof(path), "%s/cert", folder);
	(void)unlink(path);
	CHECK(rmdir(folder) == 0);
}

/* A server that reads a bit, sends these bytes, and closes. */
static void serve_bytes(const char *bytes)
{
	struct addr a;
	int fd;

	CHECK(addr_parse("127.0.0.1:0", &a, &e) == 0);
	fd = addr_listen(&a, 0, &e);
	CHECK(fd >= 0 && addr_of_socket(fd, &a, &e) == 0);
	(void)snprintf(url, sizeof(url), "http://127.0.0.1:%u", addr_port(&a));
	if (fork() == 0) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		char request[4096];
		int there;

		(void)alarm(20);
		(void)poll(&p, 1, -1);
		there = accept4(fd, NULL, NULL, 0);
		(void)recv(there, request, sizeof(request), 0);
		(void)send(there, bytes, strlen(bytes), 0);
		_exit(0);
	}
	(void)close(fd);
}

static void bad_answers_are_errors(void)
{
	static const struct {
		const char *bytes, *want;
	} cases[] = {
		{ "", "without an answer" },
		{ "HTTP/1.1 200", "inside a head" },
		{ "SSH-2.0-OpenSSH_9.2\r\n\r\n", "not answer in HTTP" },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", "inside an answer" },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
		  "inside an answer" },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
		  "malformed body" },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		  "not answer in HTTP" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct client_request r = { .method = "GET", .target = "/" };
		struct client *c;
		char *body = NULL;
		size_t len;

		serve_bytes(cases[i].bytes);
		c = open_client();
		CHECK(client_send(c, &r, &e) < 0 || client_read_all(c, 100, &body, &len, &e) < 0);
		printf("# %s\n", e.msg);
		CHECK(strstr(e.msg, cases[i].want));
		client_free(c);
	}
	serve_bytes("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\n\r\nuntil the end");
	{
		struct client *c = open_client();

		get(c, "/");
		check_body(c, "until the end");
		client_free(c);
	}
}

static void events_of_all_shapes(void)
{
	struct client_event event;
	struct client *c;

	serve_bytes("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: comment\n\nevent: "
		    "only\n\n"
		    "event: exit\r\nid: 7\r\ndata: a\r\ndata:  b\r\ndata\r\n\r\nunknown: "
		    "x\ndata:c\n\ndata: cut");
	c = open_client();
	get(c, "/");
	CHECK(client_sse_next(c, &event, &e) == 1);
	CHECK_STR(event.name, "exit");
	CHECK_STR(event.id, "7");
	CHECK_STR(event.data, "a\n b\n");
	CHECK(event.data_len == 5);
	CHECK(client_sse_next(c, &event, &e) == 1);
	CHECK_STR(event.name, "message");
	CHECK_STR(event.id, "");
	CHECK_STR(event.data, "c");
	CHECK(client_sse_next(c, &event, &e) == 0);
	client_free(c);
}

static void urls(void)
{
	static const char *const bad[] = {
		"",	    "ftp://x", "http://",     "http://:80",   "http://a:b", "http://a@b",
		"http://[", "unix:x",  "http://[::1", "127.0.0.1:80", "http://a b"
	};

	for (size_t i = 0; i < COUNT(bad); i++) {
		struct client_options o = { .url = bad[i] };

		CHECK(!client_new(&o, &e) && e.code == ERR_INVALID);
	}
	start_server("127.0.0.1:0", NULL, NULL);
	(void)snprintf(url + strlen(url), sizeof(url) - strlen(url), "/hello/");
	{
		struct client_request dirty = { .method = "GET", .target = "" };
		struct client_header header = { "X", "a\r\nY: b" };
		struct client *c = open_client();

		get(c, ""); /* "/hello" + "" */
		CHECK(client_status(c) == 200);
		dirty.headers = &header;
		dirty.nheaders = 1;
		CHECK(client_send(c, &dirty, &e) < 0 && e.code == ERR_INVALID);
		client_free(c);
	}
	*strstr(url, "/hello") = '\0';
	stop_server(open_client());
}

/* One that was given to a socket which is closed. In a cell, others than that may have a listener.
 */
static unsigned unused_port(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	OWN_FD fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&at, len) == 0 &&
	      getsockname(fd, (struct sockaddr *)&at, &len) == 0);
	return ntohs(at.sin_port);
}

static void no_server(void)
{
	struct client_request r = { .method = "GET", .target = "/" };
	unsigned port = unused_port();
	char want[100];
	struct client *c;

	(void)snprintf(url, sizeof(url), "http://127.0.0.1:%u", port);
	(void)snprintf(want, sizeof(want), "cannot connect to 127.0.0.1:%u: Connection refused",
		       port);
	c = open_client();
	CHECK(client_send(c, &r, &e) < 0);
	CHECK_STR(e.msg, want);
	client_free(c);
	(void)snprintf(url, sizeof(url), "unix:/nowhere/at.all");
	c = open_client();
	CHECK(client_send(c, &r, &e) < 0);
	CHECK_STR(e.msg, "cannot connect to unix:/nowhere/at.all: No such file or directory");
	client_free(c);
}

static void patience_ends(void)
{
	struct client_options o = { .url = url, .io_ms = 100 };
	struct client_request r = { .method = "GET", .target = "/never" };
	uint64_t began;
	struct client *c;

	start_server("127.0.0.1:0", NULL, NULL);
	c = client_new(&o, &e);
	CHECK(c);
	began = clock_now_ns();
	CHECK(client_send(c, &r, &e) < 0 && strstr(e.msg, "in time"));
	CHECK(clock_now_ns() - began < 3000 * CLOCK_MS);
	stop_server(c);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		{ "asks and keeps alive", asks_and_keeps_alive },
		{ "bodies go and come", bodies_go_and_come },
		{ "sources are streamed", sources_are_streamed },
		{ "long answers are read in pieces", long_answers_are_read_in_pieces },
		{ "closed connections are reopened", closed_connections_are_reopened },
		{ "events are read", events_are_read },
		{ "events of all shapes", events_of_all_shapes },
		{ "WebSockets", websockets },
		{ "over a Unix socket", over_a_unix_socket },
		{ "certificates are verified", certificates_are_verified },
		{ "bad answers are errors", bad_answers_are_errors },
		{ "URLs", urls },
		{ "no server", no_server },
		{ "patience ends", patience_ends },
	};

	if (argc < 2)
		return 2;
	program = argv[1];
	return test_run_all(tests, COUNT(tests));
}
