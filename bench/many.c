#include "many.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "calls.h"
#include "link.h"
#include "samples.h"

#define CLIENTS_MAX 1024

static struct link l; /* for what is not measured */

struct client {
	struct link link;
	enum { IDLE, CREATING, RUNNING, DELETING } step;
	char id[CALLS_ID_MAX];
	int64_t began;
};

static struct client *clients;

static int open_clients(unsigned n)
{
	int ep = epoll_create1(EPOLL_CLOEXEC);

	if (n == 0 || n > CLIENTS_MAX)
		link_die("1 to %d clients", CLIENTS_MAX);
	clients = calloc(n, sizeof(*clients));
	if (clients == NULL || ep < 0)
		link_die("out of memory");
	for (unsigned i = 0; i < n; i++) {
		struct epoll_event v = { .events = EPOLLIN, .data.ptr = &clients[i] };

		link_open(&clients[i].link);
		if (epoll_ctl(ep, EPOLL_CTL_ADD, clients[i].link.fd, &v) < 0)
			link_die("epoll: %s", strerror(errno));
	}
	return ep;
}

static void close_clients(unsigned n, int ep)
{
	for (unsigned i = 0; i < n; i++)
		link_close(&clients[i].link);
	free(clients);
	(void)close(ep);
}

static void begin_cycle(struct client *c)
{
	c->step = CREATING;
	c->began = link_now_ns();
	link_send(&c->link, "POST", "/v1/sessions", NULL);
}

static void complain(const struct client *c)
{
	static unsigned said;

	if (said++ < 3)
		(void)fprintf(stderr, "serverbench: step %d: status %d: %.300s\n", (int)c->step,
			      c->link.status, c->link.body);
}

/* The answer of one step is there: the next. Returns whether a cycle was completed. */
static bool advance(struct client *c, struct samples *s)
{
	char path[CALLS_PATH_MAX];

	if (c->step == CREATING && c->link.status == 201) {
		link_member(&c->link, "id", c->id, sizeof(c->id));
		calls_run_path(path, c->id);
		c->step = RUNNING;
		link_send(&c->link, "POST", path, CALLS_RUN);
		return false;
	}
	if (c->step == DELETING) {
		bool good = c->link.status == 204;

		if (!good) {
			complain(c);
			s->failed++;
		}
		c->step = IDLE;
		return good;
	}
	if (c->step == RUNNING && calls_ran(&c->link)) {
		samples_add(s, link_now_ns() - c->began);
	} else {
		complain(c);
		s->failed++;
	}
	if (c->step == CREATING) { /* refused: there is nothing to delete */
		c->step = IDLE;
		return false;
	}
	calls_session_path(path, c->id);
	c->step = DELETING;
	link_send(&c->link, "DELETE", path, NULL);
	return false;
}

void many_rate(unsigned n, unsigned seconds)
{
	struct samples s = { .name = "rate" };
	int ep = open_clients(n);
	int64_t end = link_now_ns() + (int64_t)seconds * 1000000000;
	unsigned cycles = 0, busy = n;

	for (unsigned i = 0; i < n; i++)
		begin_cycle(&clients[i]);
	while (busy > 0) {
		struct epoll_event v[64];
		int got = epoll_wait(ep, v, 64, 60000);

		if (got <= 0)
			link_die("no answer for a minute");
		for (int i = 0; i < got; i++) {
			struct client *c = v[i].data.ptr;

			if (!link_feed(&c->link, MSG_DONTWAIT))
				continue;
			if (advance(c, &s) && link_now_ns() <= end)
				cycles++; /* a cycle counts if it ended in time */
			if (c->step != IDLE)
				continue;
			if (link_now_ns() < end)
				begin_cycle(c);
			else
				busy--;
		}
	}
	samples_sort(&s);
	(void)printf("%u\t%u\t%u\t%.1f\t%.1f\t%.1f\n", n, cycles, s.failed,
		     (double)cycles / seconds, samples_quantile(&s, 50), samples_quantile(&s, 99));
	close_clients(n, ep);
	link_open(&l);
	calls_settle(&l);
}

static void delete_all(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (clients[i].id[0] != '\0')
			calls_delete(&l, clients[i].id);
	calls_settle(&l);
}

void many_burst(unsigned n)
{
	struct samples s = { .name = "burst" };
	int ep = open_clients(n);
	int64_t begin;

	link_open(&l);
	calls_settle(&l);
	begin = link_now_ns();
	for (unsigned i = 0; i < n; i++)
		begin_cycle(&clients[i]);
	for (unsigned left = n; left > 0;) {
		struct epoll_event v[64];
		int got = epoll_wait(ep, v, 64, 60000);

		if (got <= 0)
			link_die("no answer for a minute");
		for (int i = 0; i < got; i++) {
			struct client *c = v[i].data.ptr;

			if (!link_feed(&c->link, MSG_DONTWAIT))
				continue;
			left--;
			if (c->link.status != 201) {
				complain(c);
				s.failed++;
				continue;
			}
			samples_add(&s, link_now_ns() - begin);
			link_member(&c->link, "id", c->id, sizeof(c->id));
		}
	}
	samples_sort(&s);
	(void)printf("%u\t%u\t%.1f\t%.1f\t%.1f\n", n, s.failed, samples_quantile(&s, 0),
		     samples_quantile(&s, 50), samples_quantile(&s, 100));
	(void)fflush(stdout);
	delete_all(n);
	close_clients(n, ep);
}

void many_hold(unsigned n)
{
	char(*ids)[CALLS_ID_MAX] = calloc(n, sizeof(*ids));

	if (ids == NULL)
		link_die("out of memory");
	link_open(&l);
	for (unsigned i = 0; i < n; i++)
		calls_create(&l, "{\"timeout\":\"1h\"}", ids[i]);
	calls_settle(&l);
	(void)printf("made\n");
	(void)fflush(stdout);
	while (getchar() != EOF)
		;
	link_close(&l); /* it may have been idle for long */
	link_open(&l);
	for (unsigned i = 0; i < n; i++)
		calls_delete(&l, ids[i]);
	calls_settle(&l);
	link_close(&l);
	free(ids);
}
