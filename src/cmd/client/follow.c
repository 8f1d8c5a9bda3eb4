/* follow.c - see follow.h. One function reads the events of a connection, one makes a
 * connection, and follow_events() repeats both. The position lives in struct follow, so it
 * survives a lost connection. */
#include "cmd/client/follow.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cmd/client/member.h"
#include "lib/base/clock.h"
#include "lib/base/str.h"

#define RECONNECT_MS 60000
#define LIST_MAX 100000 /* items, without follow */

enum { BROKEN = 2 };

/* One stream over any number of connections. position is the id of the last event that was
 * taken, so a new connection continues behind it. */
struct follow {
	char position[256];
	bool ever;	  /* there was a connection */
	bool got_event;	  /* and, since the last pause, an event */
	uint64_t lost_ns; /* when the connection was lost. 0: it is there */
};

static void sleep_ms(int ms)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };

	(void)nanosleep(&t, NULL);
}

/* The events of one connection: 0 at its end, 1 if take returned 1, BROKEN, -1. */
static int read_events(struct follow *f, struct api_call *a, follow_fn *take, void *arg,
		       struct err *e)
{
	struct client_event event;

	for (;;) {
		int n = client_sse_next(a->client, &event, e), taken;

		if (n <= 0)
			return n < 0 ? BROKEN : 0;
		f->got_event = true;
		OWN_JSON *j = json_loadb(event.data, event.data_len, JSON_DECODE_ANY, NULL);
		taken = take(arg, &(struct follow_event){ event.name, event.data, j }, e);
		if (taken != 0)
			return taken < 0 ? -1 : 1;
		if (event.id[0] != '\0' && strlen(event.id) < sizeof(f->position))
			str_copy(f->position, event.id);
	}
}

/* One connection. Return as read_events(). */
static int follow_once(struct follow *f, struct api_call *a, const struct target *t,
		       follow_fn *take, void *arg, struct err *e)
{
	struct client_request r = { .method = "GET" };
	struct target at = *t;
	int result;

	target_query(&at, "after", f->position[0] == '\0' ? NULL : f->position);
	if (api_call_send(a, &r, &at, e) < 0)
		return api_call_is_temporary(a) ? BROKEN : -1;
	f->ever = true;
	f->lost_ns = 0;
	result = read_events(f, a, take, arg, e);
	client_close(a->client);
	return result;
}

/* Wait before the next try, or fail: the server was unreachable for too long, or from the start.
 * e already has the reason of the last failure, if there was one. A connection that brought an
 * event resets the pause, so a server that restarts is met again soon. */
static int wait_before_retry(struct follow *f, bool failed, int *pause_ms, struct err *e)
{
	uint64_t now = clock_now_ns();

	if (f->lost_ns == 0)
		f->lost_ns = now;
	if (!f->ever || now - f->lost_ns > RECONNECT_MS * CLOCK_MS)
		return failed ? -1 : err_set(e, ERR_SYSTEM, "the server ended the stream");
	*pause_ms = f->got_event ? 50 : *pause_ms < 1000 ? *pause_ms * 2 : 1000;
	f->got_event = false;
	sleep_ms(*pause_ms);
	return 0;
}

/* Ends at an error, at take's wish, or when the stream is complete. A connection that never
 * worked is not tried again: the user waits for a message. */
int follow_events(struct api_call *a, const struct target *t, const struct follow_options *o,
		  follow_fn *take, void *arg, struct err *e)
{
	struct follow f = { 0 };
	int pause_ms = 50;

	if (o->after != NULL)
		str_copy(f.position, o->after);
	for (;;) {
		int result = follow_once(&f, a, t, take, arg, e);

		if (result == 1 || result < 0)
			return result < 0 ? -1 : 0;
		if (result == 0 && o->complete != NULL && *o->complete)
			return 0;
		if (!o->resumes)
			return result == BROKEN
				       ? -1
				       : err_set(e, ERR_SYSTEM, "the server ended the stream");
		if (wait_before_retry(&f, result == BROKEN, &pause_ms, e) < 0)
			return -1;
	}
}

/* A reader that has gone (`| head`) ends the stream without an error. */
static int print_event(void *arg, const struct follow_event *event, struct err *e)
{
	const struct follow_list *l = arg;

	if (event->json != NULL)
		l->print(l->arg, event->json);
	(void)fflush(stdout);
	return ferror(stdout) ? 1 : 0;
}

/* Past events only, or past and new ones. Both print through the same callback. */
int follow_list(struct api_call *a, struct target *t, const struct follow_list *l, struct err *e)
{
	/* From the first one on, or the server would begin with now, and again after each break. */
	struct follow_options o = { .after = l->after == NULL ? "0" : l->after, .resumes = true };
	OWN_JSON *list = NULL;

	if (l->follow) {
		target_query(t, "follow", "true");
		return follow_events(a, t, &o, print_event, (void *)(uintptr_t)l, e);
	}
	if (api_call_pages(a, t, l->member, l->after, LIST_MAX, &list, e) < 0)
		return -1;
	for (size_t i = 0; i < json_array_size(list); i++)
		l->print(l->arg, json_array_get(list, i));
	return 0;
}
