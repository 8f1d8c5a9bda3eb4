/* session_service.c - see session_service.h.
 *
 * An interpreter gets the environment on its standard input, as one line of JSON. Its row says
 * SESSION_BOOT_ENV_OWED until the whole line is written, so the next daemon sends it again.
 */
#include "daemon/session/session_service.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/execution/execution.h"
#include "daemon/node/core_private.h"
#include "daemon/session/session_boot.h"
#include "daemon/session/session_op.h"
#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/json/json.h"

#define WAIT_MS 1000ULL
#define DOUBLINGS 5	   /* up to 32 s */
#define STEADY_MS 60000ULL /* after which a program counts as stable */
#define PAUSED_MS 5000ULL
#define LINE_MAX_BYTES (4U << 20) /* the environment of a session and its secrets, as JSON */

/* The two services: the template's start command, which may be an interpreter, and the code
 * interpreter's server in a session of another template. */
enum { START, ADDED, SERVICES };

struct service {
	struct session *session;
	struct execution_follower follower;
	struct loop_timer timer;
	uint64_t started_ns;
	unsigned failures;
	bool restart; /* by the timer. If not set, when code comes */
	/* The environment on its way to the program's input. */
	struct buf line;
	size_t sent;
	struct completion room;
	struct completions written;
};

struct session_services {
	struct session_op op;		/* first */
	struct service *each[SERVICES]; /* owned. NULL: not used yet */
	bool asked; /* the store has no interpreter from before this was in memory */
};

static void begin_again(struct service *v);

/* ---- the environment */

static void end_line(struct service *v)
{
	struct completions told = { 0 };

	completion_cancel(&v->room);
	buf_release(&v->line);
	completions_move(&v->written, &told);
	completions_end_all(&told, NULL); /* a program that does not read it is not at fault */
}

/* Record that the next daemon need not send it again. */
static void note_sent(struct execution *x)
{
	struct err e;

	x->row.client = "";
	IGNORED(store_execution_update(x->session->core->store, execution_row(x), &e),
		"then it may be sent twice, which is harmless");
}

static void write_line(struct service *v)
{
	struct execution *x = v->follower.execution;
	struct err e;

	while (x != NULL && v->sent < v->line.len) {
		ssize_t n = execution_input(x, v->line.data + v->sent, v->line.len - v->sent,
					    &v->room, &e);

		if (n == 0)
			return; /* on_room() follows */
		if (n < 0) {
			log_warn("environment could not be written to an interpreter",
				 "session_id=%s error=%s", v->session->row.id, e.msg);
			break;
		}
		v->sent += (size_t)n;
	}
	if (x != NULL && v->line.len > 0 && v->sent == v->line.len)
		note_sent(x);
	end_line(v);
}

static void on_room(struct completion *w, const struct err *e)
{
	struct service *v = w->arg;

	if (e != NULL)
		end_line(v);
	else
		write_line(v);
}

/* Send {"env":{...}} and a newline. */
static void send_env(struct service *v, struct execution *x, bool again)
{
	struct err e = { 0 };
	struct json j;
	int got;

	json_init_heap(&j, LINE_MAX_BYTES);
	json_keep_secret(&j);
	json_open(&j, NULL, '{');
	json_open(&j, "env", '{');
	got = execution_env(x, &j, &e);
	json_close(&j, '}');
	json_close(&j, '}');
	buf_release(&v->line);
	v->sent = 0;
	if (got == 0 && json_ok(&j)) {
		if (again)
			buf_put(&v->line, "\n", 1); /* ends a line begun by an earlier daemon */
		buf_put(&v->line, j.text, j.len);
		buf_put(&v->line, "\n", 1);
	} else {
		log_warn("environment of a session could not be sent to its interpreter",
			 "session_id=%s error=%s", v->session->row.id,
			 got < 0 ? e.msg : "it is too large");
	}
	json_release(&j);
	write_line(v);
}

/* ---- the end of a program, and its next start */

static uint64_t rest_ms(const struct service *v)
{
	return WAIT_MS << (v->failures < DOUBLINGS ? v->failures : DOUBLINGS);
}

static void service_plan(struct service *v, uint64_t ms)
{
	loop_timer_set(v->session->core->loop, &v->timer, clock_now_ns() + ms * CLOCK_MS);
}

/* The program has ended. Failures count only while starts follow each other quickly, so a program
 * that ran for STEADY_MS is restarted soon. */
static void on_progress(struct execution_follower *f)
{
	struct service *v = f->arg;

	if (f->execution == NULL || !execution_ended(f->execution))
		return;
	if (clock_now_ns() - v->started_ns >= STEADY_MS * CLOCK_MS)
		v->failures = 0;
	log_info("service of a session ended",
		 "session_id=%s execution_id=%s exit_code=%d restart=%d", v->session->row.id,
		 execution_row(f->execution)->id, execution_row(f->execution)->exit_code,
		 (int)v->restart);
	execution_unfollow(f);
	end_line(v);
	if (v->restart && v->session->row.state < SESSION_ENDING) {
		service_plan(v, rest_ms(v));
		v->failures++;
	}
}

static void on_timer(struct loop_timer *t)
{
	struct service *v = t->arg;

	if (v->session->row.state == SESSION_RUNNING)
		begin_again(v);
	else if (v->session->row.state < SESSION_ENDING && v->session->cell != NULL)
		service_plan(v, PAUSED_MS); /* without a cell, the next boot starts it */
}

static void on_free(struct session_op *op, const struct err *why)
{
	struct session_services *all = (struct session_services *)op;
	struct loop *l = op->session->core->loop;

	session_op_end(op);
	for (unsigned i = 0; i < SERVICES; i++) {
		struct service *v = all->each[i];

		if (v == NULL)
			continue;
		loop_timer_cancel(l, &v->timer);
		execution_unfollow(&v->follower);
		end_line(v);
		free(v);
	}
	free(all);
}

static const struct session_op_calls services_calls = { .kind = SESSION_OP_SERVICES,
							.on_free = on_free };

/* NULL: none was used yet. */
static struct session_services *services_find(const struct session *s)
{
	return (struct session_services *)session_op_find(s, SESSION_OP_SERVICES);
}

static struct session_services *services_of(struct session *s)
{
	struct session_services *all = services_find(s);

	if (all != NULL)
		return all;
	all = calloc(1, sizeof(*all));
	assert(all != NULL);
	session_op_begin(&all->op, s, &services_calls);
	return all;
}

static struct service *service_of(struct session *s, unsigned which)
{
	const struct store_template *t = session_template(s);
	struct session_services *all = services_of(s);
	struct service *v = all->each[which];

	if (v != NULL)
		return v;
	v = calloc(1, sizeof(*v));
	assert(v != NULL);
	v->session = s;
	v->restart = which == START && t != NULL && t->start_restart;
	v->follower = (struct execution_follower){ .on_progress = on_progress, .arg = v };
	v->timer = (struct loop_timer){ .on_expire = on_timer, .arg = v };
	v->room = (struct completion){ .on_done = on_room, .arg = v };
	buf_init(&v->line, LINE_MAX_BYTES + 1);
	v->line.secret = true;
	all->each[which] = v;
	return v;
}

static void service_follow(struct service *v, struct execution *x)
{
	loop_timer_cancel(v->session->core->loop, &v->timer);
	execution_unfollow(&v->follower);
	v->started_ns = clock_now_ns();
	execution_follow(x, &v->follower);
}

static void begin_again(struct service *v)
{
	struct session *s = v->session;
	struct err e;
	struct execution *x = session_boot_start(s, &s->actor, false, &e);

	if (x == NULL) {
		log_warn("service of a session could not be started again",
			 "session_id=%s error=%s", s->row.id, e.msg);
		service_plan(v, rest_ms(v));
		v->failures++;
		return;
	}
	session_service_follow(s, x, NULL);
}

/* An execution is the added interpreter only if the template does not bring one. */
static unsigned which_is(const struct session *s, const struct execution *x)
{
	const struct store_template *t = session_template(s);

	return execution_row(x)->kind == EXECUTION_INTERPRETER && (t == NULL || !t->interpreter)
		       ? ADDED
		       : START;
}

void session_service_follow(struct session *s, struct execution *x, struct completion *w)
{
	const struct store_template *t = session_template(s);
	bool is_interpreter = execution_row(x)->kind == EXECUTION_INTERPRETER;
	struct service *v;

	if (!is_interpreter && (t == NULL || !t->start_restart)) {
		if (w != NULL)
			completion_end_soon(w, s->core->loop, NULL);
		return;
	}
	v = service_of(s, which_is(s, x));
	service_follow(v, x);
	if (w != NULL)
		completion_begin(w, s->core->loop, &v->written);
	if (is_interpreter)
		send_env(v, x, false);
	else
		end_line(v);
}

/* ---- found after a restart, or needed for code */

static struct execution *service_find(struct session *s, enum execution_kind kind)
{
	for (struct execution *x = NULL; (x = execution_next(s, x)) != NULL;)
		if (!execution_ended(x) && execution_row(x)->kind == (uint32_t)kind)
			return x;
	return NULL;
}

static void service_recover(struct session *s, struct execution *x)
{
	struct service *v = service_of(s, which_is(s, x));

	service_follow(v, x);
	if (execution_row(x)->kind == EXECUTION_INTERPRETER &&
	    strcmp(execution_row(x)->client, SESSION_BOOT_ENV_OWED) == 0)
		send_env(v, x, true);
}

void session_service_recover(struct session *s)
{
	const struct store_template *t = session_template(s);
	struct execution *start =
		service_find(s, t == NULL ? EXECUTION_SERVICE : session_boot_kind(t));
	struct execution *code = service_find(s, EXECUTION_INTERPRETER);

	if (s->row.state >= SESSION_ENDING)
		return;
	if (start != NULL)
		service_recover(s, start);
	else if (t != NULL && t->start_restart)
		service_plan(service_of(s, START), WAIT_MS);
	if (code != NULL && code != start)
		service_recover(s, code);
}

int session_service_interpreter(struct session *s, const struct store_actor *who, struct err *e)
{
	struct execution *x = service_find(s, EXECUTION_INTERPRETER);

	if (x != NULL)
		return 0;
	x = session_boot_start(s, who, true, e);
	if (x == NULL)
		return -1;
	session_service_follow(s, x, NULL);
	return 0;
}

/* Was an interpreter started before the session came into memory? If the store cannot say, calls
 * are recorded and masked. */
static bool had_interpreter(struct session *s)
{
	const struct session_services *all = services_find(s);
	bool had = true;
	struct err e;

	_Static_assert(EXECUTION_INTERPRETER == STORE_EXECUTION_INTERPRETER, "a kind of the store");
	if (all != NULL && all->asked)
		return false;
	if (store_execution_had_interpreter(s->core->store, s->row.id, &had, &e) < 0 || had)
		return true;
	services_of(s)->asked = true;
	return false;
}

bool session_service_has_interpreter(struct session *s)
{
	const struct store_template *t = session_template(s);
	const struct session_services *all = services_find(s);

	return (t != NULL && t->interpreter) || (all != NULL && all->each[ADDED] != NULL) ||
	       service_find(s, EXECUTION_INTERPRETER) != NULL || had_interpreter(s);
}
