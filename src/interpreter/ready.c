/* ready.c - `cordon-interpreter ready`: the ready command of templates. */
#include <stdio.h>
#include <time.h>

#include "server_call.h"
#include "clock.h"
#include "interpreter_options.h"

#define PAUSE_NS 5000000L

static int on_piece(void *arg, const void *bytes, size_t n, struct err *e)
{
	(void)arg;
	(void)bytes;
	(void)n;
	(void)e;
	return 0;
}

static int ask(const struct interpreter_options *o, int *ret_status, struct err *e)
{
	int found = -1;

	if (call_connect(o->socket, 0, &found, e) < 0)
		return -1;
	OWN_FD fd = found;
	if (call_send(fd, "/ready", NULL, 0, e) < 0)
		return -1;
	return call_receive(fd, ret_status, on_piece, NULL, e);
}

int interpreter_ready(const struct interpreter_options *o)
{
	const uint64_t end = clock_now_ns() + o->wait_ms * CLOCK_MS;
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	struct err e = { 0 };
	int status = 0;

	while (ask(o, &status, &e) < 0 || status != 200) {
		if (clock_now_ns() >= end) {
			(void)fprintf(stderr, "cordon-interpreter: not ready: %s\n",
				      status == 0 ? e.msg : "Python is still starting");
			return 1;
		}
		(void)nanosleep(&pause, NULL);
	}
	return 0;
}
