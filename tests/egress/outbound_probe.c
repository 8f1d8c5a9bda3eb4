/* outbound_probe.c - connects as cordon-egress does, and prints the result.
 *
 *	outbound_probe POLICY RESOLV_CONF HOSTS TARGET...
 *
 * Three texts (the policy, merged or as a node's document), then targets, one after the other:
 *"name:port",
 * "@address:port", or "N*name:port" for N at the same time ("N*#.name:port": each with a name of
 * its own, 100.name and so on). One line for each connection: result, address, errno, milliseconds,
 * message, and what the server said first, with tabs between them. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/base/clock.h"
#include "lib/policy/host.h"
#include "lib/outbound/resolver.h"
#include "egress/control/session_outbound.h"

#define SAID_MS 1000
#define MANY 256

static struct egress egress;
static struct egress_session session = { .egress = &egress, .tcp = -1, .udp = -1 };
static struct outbound calls[MANY];
static unsigned under_way;
static uint64_t began_ns;
static char **next_target;

static void die(const char *what, const struct err *e)
{
	(void)fprintf(stderr, "outbound_probe: %s%s%s\n", what, e ? ": " : "", e ? e->msg : "");
	exit(2);
}

static void read_said(int fd, char *ret, size_t cap)
{
	struct pollfd p = { fd, POLLIN, 0 };
	ssize_t n = poll(&p, 1, SAID_MS) > 0 ? recv(fd, ret, cap - 1, MSG_DONTWAIT) : 0;

	ret[n > 0 ? n : 0] = '\0';
}

static void on_task(struct loop_task *t);
static struct loop_task next_task = { .on_run = on_task };

static void on_done(struct outbound *o, int fd, const struct ip *ip, const struct err *e)
{
	uint64_t ms = (clock_now_ns() - began_ns) / CLOCK_MS;
	char said[128] = "", text[IP_TEXT_MAX] = "";

	if (fd >= 0) {
		ip_format(ip, text);
		read_said(fd, said, sizeof(said));
		(void)close(fd);
	}
	(void)printf("%s\t%s\t%d\t%llu\t%s\t%s\n", fd >= 0 ? "connected" : err_code_name(e->code),
		     text, fd >= 0 ? 0 : e->sys, (unsigned long long)ms, fd >= 0 ? "" : e->msg,
		     said);
	(void)fflush(stdout);
	if (--under_way == 0)
		loop_defer(egress.loop, &next_task);
}

static void start(char *target)
{
	char *star = strchr(target, '*'), *colon = strrchr(target, ':');
	unsigned n = star ? (unsigned)strtoul(target, NULL, 10) : 1;
	struct policy_target to = { 0 };

	if (!colon || n == 0 || n > MANY)
		die("malformed target", NULL);
	*colon = '\0';
	to.port = (uint16_t)strtoul(colon + 1, NULL, 10);
	if (star)
		target = star + 1;
	if (target[0] != '@')
		to.host = target;
	else if (ip_read(target + 1, strlen(target + 1), &to.ip) < 0)
		die("malformed address", NULL);
	under_way = n;
	began_ns = clock_now_ns();
	for (unsigned i = 0; i < n; i++) {
		char own[HOST_MAX];

		if (target[0] == '#') {
			(void)snprintf(own, sizeof(own), "%u%s", 100 + i, target + 1);
			to.host = own;
		}
		calls[i] = (struct outbound){ .on_done = on_done };
		session_outbound(&session, &to, &calls[i]);
		if (!calls[i].call)
			die("a call was over before it began", NULL);
	}
}

static void on_task(struct loop_task *t)
{
	if (*next_target)
		start(*next_target++);
	else
		loop_stop(egress.loop);
}

int main(int argc, char **argv)
{
	struct err e;

	if (argc < 5)
		die("usage: outbound_probe POLICY RESOLV_CONF HOSTS TARGET...", NULL);
	if (policy_read(argv[1], strlen(argv[1]),
			strstr(argv[1], "\"merged\"") ? POLICY_LAYERS : POLICY_NODE,
			&session.policy, &e) < 0)
		die("policy", &e);
	egress.loop = loop_new(&e);
	if (!egress.loop)
		die("loop", &e);
	egress.resolver = resolver_new(egress.loop, argv[2], argv[3], &e);
	if (!egress.resolver)
		die("resolver", &e);
	next_target = argv + 4;
	loop_defer(egress.loop, &next_task);
	if (loop_run(egress.loop, &e) < 0)
		die("loop", &e);
	resolver_free(egress.resolver);
	loop_free(egress.loop);
	policy_free(session.policy);
	return 0;
}
