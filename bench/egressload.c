/* egressload.c - asks a server for the same thing over many connections for some time, on one epoll
 * loop, and prints what came of it as one line of JSON. What it is connected through (nothing, a
 * proxy, a tunnel, a cell's door) is what bench/egress.py measures. */
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "link.h"
#include "load_conn.h"
#include "samples.h"

#define CONNECTIONS_MAX 1024
#define FAILURES_MAX 100
#define STALL_MS 20000

static const char usage[] = "usage: egressload [options] http[s]://NAME:PORT/PATH\n"
			    "  -c N          connections (default 1)\n"
			    "  -t SECONDS    for how long (default 2)\n"
			    "  -w SECONDS    of warming up before (default 0.2)\n"
			    "  -n N          until so many answers, without warming up, instead\n"
			    "  -p HOST:PORT  through this proxy: the request names the whole URL\n"
			    "  -T            with -p: through a tunnel (CONNECT) instead\n"
			    "  -a FILE       authorities, PEM (default: those of the system)\n"
			    "  -x            a connection, and a handshake, for each request\n";

struct load {
	struct load_plan plan;
	struct load_conn conns[CONNECTIONS_MAX];
	int epoll;
	int n;
	int64_t from_ns, until_ns; /* samples that begin and end in between count */
	uint64_t wanted;	   /* answers; 0: by time */
	struct samples samples;
	char failure[256]; /* the first */
};

static void find(struct load *l, const char *host, const char *port)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *found;
	int err = getaddrinfo(host, port, &hints, &found);

	if (err != 0)
		link_die("%s: %s", host, gai_strerror(err));
	memcpy(&l->plan.to, found->ai_addr, found->ai_addrlen);
	l->plan.to_len = found->ai_addrlen;
	freeaddrinfo(found);
}

/* "name:port" in place; returns the port. */
static const char *cut_port(char *at)
{
	char *colon = strrchr(at, ':');

	if (colon == NULL)
		link_die("%s: no port", at);
	*colon = '\0';
	return colon + 1;
}

static SSL_CTX *make_tls(const char *authorities)
{
	SSL_CTX *tls = SSL_CTX_new(TLS_client_method());

	if (tls == NULL || (authorities == NULL ? SSL_CTX_set_default_verify_paths(tls)
						: SSL_CTX_load_verify_file(tls, authorities)) != 1)
		link_die("TLS: authorities cannot be read");
	SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, NULL);
	(void)SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
	return tls;
}

static void plan(struct load *l, const char *url, char *proxy, bool tunnel, const char *authorities)
{
	bool tls = strncmp(url, "https://", 8) == 0;
	const char *at = url + (tls ? 8 : 7), *path = strchr(at, '/');
	static char host[256];
	const char *port;
	int len;

	if ((!tls && strncmp(url, "http://", 7) != 0) || path == NULL)
		link_die("%s: not a URL", url);
	if (tls && proxy != NULL && !tunnel)
		link_die("https needs a tunnel (-T)");
	(void)snprintf(host, sizeof(host), "%.*s", (int)(path - at), at);
	if (tunnel)
		(void)snprintf(l->plan.tunnel, LOAD_TEXT_MAX,
			       "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", host, host);
	len = snprintf(l->plan.request, LOAD_TEXT_MAX,
		       "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: egressload\r\n"
		       "Accept: */*\r\n%s\r\n",
		       proxy != NULL && !tunnel ? url : path, host,
		       l->plan.close ? "Connection: close\r\n" : "");
	if (len >= LOAD_TEXT_MAX)
		link_die("%s: too long", url);
	port = cut_port(host);
	l->plan.name = host;
	l->plan.tls = tls ? make_tls(authorities) : NULL;
	if (proxy != NULL) {
		port = cut_port(proxy);
		find(l, proxy, port);
	} else {
		find(l, host, port);
	}
}

static void note(struct load *l, struct load_conn *c)
{
	int64_t now = link_now_ns();

	if (c->begin_ns >= l->from_ns && now <= l->until_ns)
		samples_add(&l->samples, now - c->begin_ns);
	c->begin_ns = 0;
}

static void note_failure(struct load *l)
{
	if (l->samples.failed++ == 0)
		(void)snprintf(l->failure, sizeof(l->failure), "%s", load_conn_why());
}

static bool is_over(const struct load *l)
{
	if (l->samples.failed >= FAILURES_MAX)
		return true;
	return l->wanted > 0 ? l->samples.n + l->samples.failed >= l->wanted
			     : link_now_ns() >= l->until_ns;
}

/* One connection, until it has to wait. */
static void drive(struct load *l, struct load_conn *c)
{
	enum load_event got;

	while ((got = load_conn_go(c, l->epoll)) != LOAD_WAIT) {
		if (got == LOAD_DONE)
			note(l, c);
		else
			note_failure(l);
		if (is_over(l))
			return;
	}
}

static void run(struct load *l)
{
	struct epoll_event ready[CONNECTIONS_MAX];

	for (int i = 0; i < l->n && !is_over(l); i++) {
		l->conns[i] = (struct load_conn){ .plan = &l->plan, .fd = -1 };
		drive(l, &l->conns[i]);
	}
	while (!is_over(l)) {
		int n = epoll_wait(l->epoll, ready, CONNECTIONS_MAX, STALL_MS);

		if (n < 0 && errno != EINTR)
			link_die("epoll: %s", strerror(errno));
		if (n == 0)
			link_die("nothing happened for %d s", STALL_MS / 1000);
		for (int i = 0; i < n && !is_over(l); i++)
			drive(l, ready[i].data.ptr);
	}
}

static void report(struct load *l, int64_t begin_ns)
{
	int64_t now = link_now_ns();
	double seconds = (double)((l->wanted > 0 ? now : l->until_ns) -
				  (l->wanted > 0 ? begin_ns : l->from_ns)) /
			 1e9;
	uint64_t bytes = 0, reopened = 0;

	for (int i = 0; i < l->n; i++) {
		bytes += l->conns[i].bytes;
		reopened += l->conns[i].reopened;
	}
	samples_sort(&l->samples);
	if (l->samples.n == 0 && l->failure[0] == '\0')
		(void)snprintf(l->failure, sizeof(l->failure), "no answer in time");
	for (char *c = l->failure; *c != '\0'; c++)
		if ((unsigned char)*c < ' ' || *c == '"' || *c == '\\')
			*c = ' ';
	(void)printf("{\"connections\":%d,\"requests\":%zu,\"failed\":%u,\"reopened\":%llu,"
		     "\"seconds\":%.3f,\"rate\":%.1f,\"median_us\":%.1f,\"p99_us\":%.1f,"
		     "\"bytes\":%llu,\"failure\":\"%s\"}\n",
		     l->n, l->samples.n, l->samples.failed, (unsigned long long)reopened, seconds,
		     (double)l->samples.n / seconds, samples_quantile(&l->samples, 50),
		     samples_quantile(&l->samples, 99), (unsigned long long)bytes, l->failure);
}

int main(int argc, char **argv)
{
	static struct load l = { .n = 1, .samples.name = "request" };
	double seconds = 2, warm = 0.2;
	const char *authorities = NULL;
	char *proxy = NULL;
	bool tunnel = false;
	int option;

	while ((option = getopt(argc, argv, "c:t:w:n:p:Ta:x")) != -1) {
		switch (option) {
		case 'c':
			l.n = (int)strtol(optarg, NULL, 10);
			break;
		case 't':
			seconds = strtod(optarg, NULL);
			break;
		case 'w':
			warm = strtod(optarg, NULL);
			break;
		case 'n':
			l.wanted = strtoull(optarg, NULL, 10);
			break;
		case 'p':
			proxy = optarg;
			break;
		case 'T':
			tunnel = true;
			break;
		case 'a':
			authorities = optarg;
			break;
		case 'x':
			l.plan.close = true;
			break;
		default:
			(void)fputs(usage, stderr);
			return 2;
		}
	}
	if (optind + 1 != argc || l.n < 1 || l.n > CONNECTIONS_MAX || (tunnel && proxy == NULL)) {
		(void)fputs(usage, stderr);
		return 2;
	}
	(void)signal(SIGPIPE, SIG_IGN); /* OpenSSL writes without MSG_NOSIGNAL */
	plan(&l, argv[optind], proxy, tunnel, authorities);
	l.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (l.epoll < 0)
		link_die("epoll: %s", strerror(errno));
	int64_t begin = link_now_ns();
	l.from_ns = l.wanted > 0 ? begin : begin + (int64_t)(warm * 1e9);
	l.until_ns = l.wanted > 0 ? INT64_MAX : l.from_ns + (int64_t)(seconds * 1e9);
	run(&l);
	report(&l, begin);
	return l.samples.failed == 0 && l.samples.n > 0 ? 0 : 1;
}
