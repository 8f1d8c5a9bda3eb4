#include "front/web/exec_start.h"

#include <signal.h>
#include <stdlib.h>

#include "daemon/session/session_boot.h"
#include "daemon/session/session_service.h"
#include "lib/base/log.h"

/* ---- code
 *
 * Code runs by the session's interpreter, which is started if need be. */

int code_begin(struct request *r, struct session *session, struct spec_exec *s, struct err *e)
{
	if (!s->is_code)
		return 0;
	s->spec.user = session_boot_user(NULL, session_row(session)->profile);
	if (s->spec.cwd == NULL)
		s->spec.cwd = "/";
	return session_service_interpreter(session, request_actor(r), e);
}

/* ---- input */

/* For all executions together: a program that does not read keeps its input here after its request
 * was answered. */
#define WAITING_MAX ((size_t)256 << 20)

static size_t waiting;

/* Owns itself: it outlives the request that made it. */
struct feeder {
	struct execution *x; /* stays valid while it is followed */
	struct execution_follower follower;
	struct completion wait;
	uint8_t *bytes; /* owned */
	size_t len, given;
};

/* f is gone when this returns. */
static void stdin_feeder_stop(struct feeder *f)
{
	completion_cancel(&f->wait);
	execution_unfollow(&f->follower);
	waiting -= f->len;
	free(f->bytes);
	free(f);
}

/* It would wait for the rest of its input, or take the first part for all of it. */
static void end_program(struct execution *x)
{
	struct err e;

	log_warn("execution ended: its input could not be written", "execution_id=%s",
		 execution_row(x)->id);
	IGNORED(execution_signal(x, SIGKILL, &e), "then it has ended");
}

/* Writes until the pipe is full or all is written. Then the input is closed. */
static void stdin_feeder_feed(struct feeder *f)
{
	struct err e;

	while (f->given < f->len) {
		ssize_t n =
			execution_input(f->x, f->bytes + f->given, f->len - f->given, &f->wait, &e);

		if (n < 0) {
			if (e.code == ERR_SYSTEM)
				end_program(f->x);
			stdin_feeder_stop(f);
			return;
		}
		if (n == 0)
			return; /* completed when there is room */
		completion_cancel(&f->wait);
		f->given += (size_t)n;
	}
	execution_close_input(f->x);
	stdin_feeder_stop(f);
}

/* e: the execution has ended. */
static void on_room(struct completion *w, const struct err *e)
{
	if (e != NULL)
		stdin_feeder_stop(w->arg);
	else
		stdin_feeder_feed(w->arg);
}

/* The execution has ended before it took all of its input. */
static void on_more(struct execution_follower *f)
{
	struct feeder *feeder = f->arg;

	if (execution_ended(feeder->x))
		stdin_feeder_stop(feeder);
}

/* Before the execution is started, so that nothing has to be undone. */
int stdin_feeder_check(size_t len, struct err *e)
{
	if (len <= WAITING_MAX - waiting)
		return 0;
	return err_set_reason(e, REASON_CAPACITY_INPUT,
			      "%zu MiB of input are waiting for programs to read them",
			      waiting >> 20);
}

/* bytes are taken over on success only. */
int stdin_feeder_start(struct execution *x, uint8_t *bytes, size_t len, struct err *e)
{
	struct feeder *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return err_sys(e, "allocate");
	f->x = x;
	f->bytes = bytes;
	f->len = len;
	waiting += len;
	f->wait.on_done = on_room;
	f->wait.arg = f;
	f->follower.on_progress = on_more;
	f->follower.arg = f;
	execution_follow(x, &f->follower);
	stdin_feeder_feed(f);
	return 0;
}
