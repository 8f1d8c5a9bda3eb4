#include "front/e2b/control/destination.h"

#include <stdio.h>
#include <string.h>

#include "support.h"

static struct destination find(const char *head)
{
	struct http1_request q;
	struct http1_fault fault;
	struct destination to;
	char text[1024];
	int n = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n%s\r\n", head);

	CHECK_CASE(head, http1_request_read(text, (size_t)n, &q, &fault) == n);
	destination_find(&q, &to);
	return to;
}

static void by_name(void)
{
	static const struct {
		const char *host, *id;
		unsigned port;
	} good[] = {
		{ "3000-iabc.localhost:4983", "iabc", 3000 },
		{ "49983-i0123456789abcdef.cordon.example", "i0123456789abcdef", 49983 },
		{ "1-iabc-client-more.x", "iabc", 1 },
		{ "65535-iabc.x.y.z", "iabc", 65535 },
		{ "80-IaBC.LOCALHOST", "iabc", 80 },
	};
	static const char *const bad[] = { "0-iabc.x",	    "65536-iabc.x",
					   "123456-iabc.x", "3000-.x",
					   "3000-I_BC.x",   "3000-a_b.x",
					   "3000--abc.x",   "99999999999999999999-iabc.x" };
	static const char *const node[] = { "localhost",
					    "localhost:4983",
					    "127.0.0.1:4983",
					    "[::1]:4983",
					    "api.example",
					    "sandbox.example",
					    "3000.example",
					    "iabc.example",
					    "3000-iabc",
					    "a3000-iabc.dev",
					    "x" };
	char head[256];

	for (size_t i = 0; i < COUNT(good); i++) {
		struct destination to;

		(void)snprintf(head, sizeof(head), "Host: %s\r\n", good[i].host);
		to = find(head);
		CHECK_CASE(head, to.kind == DESTINATION_SANDBOX);
		CHECK_CASE(head, to.port == good[i].port);
		CHECK_STR(to.id, good[i].id);
	}
	for (size_t i = 0; i < COUNT(bad); i++) {
		(void)snprintf(head, sizeof(head), "Host: %s\r\n", bad[i]);
		CHECK_CASE(head, find(head).kind == DESTINATION_BAD);
	}
	for (size_t i = 0; i < COUNT(node); i++) {
		(void)snprintf(head, sizeof(head), "Host: %s\r\n", node[i]);
		CHECK_CASE(head, find(head).kind == DESTINATION_NODE);
	}
}

static void by_header(void)
{
	static const char *const bad[] = {
		"Host: x\r\nE2b-Sandbox-Id: iabc\r\n",
		"Host: x\r\nE2b-Sandbox-Port: 80\r\n",
		"Host: 3000-iabc.x\r\nE2b-Sandbox-Port: 80\r\n",
		"Host: x\r\nE2b-Sandbox-Id: iabc\r\nE2b-Sandbox-Id: iabc\r\nE2b-Sandbox-Port: "
		"80\r\n",
		"Host: x\r\nE2b-Sandbox-Id: iabc\r\nE2b-Sandbox-Port: 80\r\nE2b-Sandbox-Port: "
		"80\r\n",
		"Host: x\r\nE2b-Sandbox-Id:\r\nE2b-Sandbox-Port: 80\r\n",
		"Host: x\r\nE2b-Sandbox-Id: a/b\r\nE2b-Sandbox-Port: 80\r\n",
		"Host: x\r\nE2b-Sandbox-Id: iabc\r\nE2b-Sandbox-Port: -1\r\n",
		"Host: x\r\nE2b-Sandbox-Id: iabc\r\nE2b-Sandbox-Port: 8o\r\n",
	};
	struct destination to =
		find("Host: 1-iother.x\r\nE2B-SANDBOX-ID: iabc\r\ne2b-sandbox-port: 49983\r\n");

	CHECK(to.kind == DESTINATION_SANDBOX && to.port == 49983);
	CHECK_STR(to.id, "iabc"); /* headers before the host's name */
	for (size_t i = 0; i < COUNT(bad); i++) {
		to = find(bad[i]);
		CHECK_CASE(bad[i], to.kind == DESTINATION_BAD && to.why != NULL);
	}
}

static void ids(void)
{
	static const char *const bad[] = {
		"",
		"-",
		"a-",
		"-a",
		"a-b-c",
		"a--b",
		"A",
		"a.b",
		"a b",
		"a%20",
		"\xc3\xa4",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	};
	char id[STORE_ID_MAX];

	CHECK(destination_id((struct http1_span){ "iabc-client1", 12 }, id));
	CHECK_STR(id, "iabc");
	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK_CASE(bad[i],
			   !destination_id((struct http1_span){ bad[i], strlen(bad[i]) }, id));
}

TEST_MAIN({ "by the host's name", by_name }, { "by headers", by_header }, { "ids", ids })
