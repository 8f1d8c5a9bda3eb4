/* execution_calls.c - what other files read of an execution, ask of it, and follow (execution.h).
 */
#include "execution_calls.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "clock.h"
#include "core_private.h"
#include "execution.h"
#include "execution_prepare.h"
#include "list.h"
#include "live_cell.h"
#include "output_log.h"

#define PAST_NS (30000 * CLOCK_MS)
#define KILL_MS 30000 /* for PID 1 to end a tree */

int execution_get(struct core *c, const char *session_id, const char *id,
		  struct store_execution *ret, struct err *e)
{
	if (store_execution_get(c->store, id, ret, e) < 0)
		return e->code == ERR_NOT_FOUND
			       ? err_set(e, ERR_NOT_FOUND, "no execution %.40s", id)
			       : -1;
	if (strcmp(ret->session, session_id) == 0)
		return 0;
	store_execution_release(ret);
	return err_set(e, ERR_NOT_FOUND, "no execution %.40s", id);
}

struct execution *execution_live(struct session *s, const char *id)
{
	struct execution *x = s->executions;

	while (x != NULL && strcmp(x->row.id, id) != 0)
		x = x->next;
	return x;
}

const struct store_execution *execution_row(const struct execution *x)
{
	struct execution *changing = (struct execution *)(uintptr_t)x;

	if (!x->ended)
		execution_count_out(changing);
	return &x->row;
}

uint32_t execution_pid(const struct execution *x)
{
	return x->pid;
}

uint64_t execution_mark(const struct execution *x)
{
	return x->row.mark;
}

struct execution *execution_by_mark(struct session *s, uint64_t mark)
{
	struct execution *x = s->executions;

	while (x != NULL && (x->row.mark != mark || x->pid == 0))
		x = x->next;
	return x;
}

int execution_id_by_mark(struct session *s, uint64_t mark, char ret_id[STORE_ID_MAX], struct err *e)
{
	const struct execution *x = execution_by_mark(s, mark);
	int found;

	ret_id[0] = '\0';
	if (x != NULL) {
		memcpy(ret_id, x->row.id, sizeof(x->row.id));
		return 0;
	}
	found = store_execution_by_mark(s->core->store, s->row.id, mark, ret_id, e);
	return found < 0 && e->code != ERR_NOT_FOUND ? -1 : 0;
}

struct execution *execution_next(struct session *s, struct execution *x)
{
	return x == NULL ? s->executions : x->next;
}

void execution_set_secrets(struct execution *x, const char *lines)
{
	free(x->secrets);
	x->secrets = strdup(lines);
	assert(x->secrets != NULL);
	x->row.secrets = x->secrets;
}

void execution_each(struct session *s, void (*see)(struct execution *x, void *arg), void *arg)
{
	for (struct execution *x = s->executions, *next; x != NULL; x = next) {
		/* alone: see() ends its own at most, and executions are freed from the loop */
		next = x->next;
		see(x, arg);
	}
}

/* If there is no memory for the list, the execution is not remembered. */
void execution_remember(struct execution *x)
{
	struct session *s = x->session;
	struct execution_past *p;

	if (s->past == NULL)
		s->past = calloc(EXECUTION_PAST, sizeof(*s->past));
	if (s->past == NULL || x->pid == 0)
		return;
	p = &s->past[s->npast++ % EXECUTION_PAST];
	p->pid = x->pid;
	p->ended_ns = clock_now_ns();
	memcpy(p->id, x->row.id, sizeof(p->id));
}

const char *execution_past_by_pid(struct session *s, uint32_t pid)
{
	for (unsigned i = 1; s->past != NULL && i <= EXECUTION_PAST && i <= s->npast; i++) {
		const struct execution_past *p = &s->past[(s->npast - i) % EXECUTION_PAST];

		if (p->pid == pid && clock_now_ns() - p->ended_ns < PAST_NS)
			return p->id;
	}
	return NULL;
}

bool execution_ended(const struct execution *x)
{
	return x->ended;
}

bool execution_complete(const struct execution *x)
{
	return x->complete;
}

bool execution_signalled(const struct execution *x)
{
	return x->signalled;
}

const char *execution_cut(const struct execution *x)
{
	return x->log.why;
}

enum execution_fault execution_fault(const struct execution *x, int *ret_sys)
{
	*ret_sys = x->fault_sys;
	return x->fault;
}

void execution_wait(struct execution *x, struct completion *w)
{
	if (x->ended)
		completion_end_soon(w, x->session->core->loop, NULL);
	else
		completion_begin(w, x->session->core->loop, &x->when_ended);
}

/* See code_execution.h. */
static void cut_call(struct execution *x)
{
	void (*cut)(void *arg) = x->call.cut;

	x->call.cut = NULL;
	if (cut != NULL)
		cut(x->call.arg);
}

void execution_kill(struct execution *x, struct completion *w)
{
	struct live_cell *c = x->session->cell;
	struct err e;

	if (x->row.kind == EXECUTION_CALL) {
		cut_call(x);
		completion_end_soon(w, x->session->core->loop, NULL);
		return;
	}
	if (execution_is_preparing(x)) {
		execution_prepare_kill(x);
		completion_end_soon(w, x->session->core->loop, NULL);
		return;
	}
	if (x->complete) { /* PID 1 may have forgotten the program */
		execution_kill_ended(x->session, x->row.mark, w);
		return;
	}
	/* An execution that PID 1 has not reported since the restart is killed by
	 * execution_adopt(). */
	if (c == NULL || !c->connected ||
	    (x->program.handle != 0 &&
	     agent_send_kill_tree(&c->agent, x->program.handle, 0, &e) < 0)) {
		completion_end_soon(w, x->session->core->loop, NULL);
		return;
	}
	x->killed = x->killed || !x->ended;
	x->killing = true;
	completion_begin(w, x->session->core->loop, &x->when_dead);
	completion_set_deadline(w, KILL_MS, "end of the execution");
	live_cell_flush(c);
}

int execution_signal(struct execution *x, int sig, struct err *e)
{
	struct live_cell *c = x->session->cell;

	if (x->ended || c == NULL || !c->connected)
		return err_set(e, ERR_CONFLICT, "execution %s has ended", x->row.id);
	if (x->row.kind == EXECUTION_CALL)
		return err_set(e, ERR_CONFLICT, "execution %s is code, and has no process",
			       x->row.id);
	if (execution_is_preparing(x))
		return err_set(e, ERR_CONFLICT, "execution %s has not started yet", x->row.id);
	if (agent_send_signal(&c->agent, x->program.handle, sig, e) < 0)
		return -1;
	x->signalled = true;
	live_cell_flush(c);
	return 0;
}

int execution_resize(struct execution *x, uint16_t rows, uint16_t cols, struct err *e)
{
	struct live_cell *c = x->session->cell;

	if (!x->row.tty)
		return err_set(e, ERR_CONFLICT, "execution %s has no terminal", x->row.id);
	if (x->ended || c == NULL || !c->connected)
		return err_set(e, ERR_CONFLICT, "execution %s has ended", x->row.id);
	if (agent_send_resize(&c->agent, x->program.handle, rows, cols, e) < 0)
		return -1;
	live_cell_flush(c);
	return 0;
}

/* ---- followers */

void execution_follow(struct execution *x, struct execution_follower *f)
{
	LIST_PUSH(&x->followers, f);
	f->execution = x;
}

void execution_unfollow(struct execution_follower *f)
{
	struct execution *x = f->execution;

	if (f->link == NULL)
		return;
	LIST_REMOVE(f);
	f->execution = NULL;
	if (x != NULL && x->followers == NULL)
		loop_defer(x->session->core->loop, &x->notify); /* which may free it */
}

void execution_notify(struct execution *x)
{
	loop_defer(x->session->core->loop, &x->notify);
}

/* Asks PID 1 to forget the execution; after those that wait for the outcome were called, since
 * waking PID 1 takes time. */
static void send_forget(struct execution *x)
{
	struct live_cell *c = x->session->cell;
	struct err e;

	if (!x->forget_due)
		return;
	x->forget_due = false;
	if (c != NULL && c->connected && x->program.handle != 0 &&
	    agent_send_forget(&c->agent, x->program.handle, &e) == 0)
		live_cell_flush(c);
}

static struct execution_follower *find_calling(struct execution_follower *f)
{
	while (f != NULL && !f->calling)
		f = f->next;
	return f;
}

void execution_on_notify(struct loop_task *t)
{
	struct execution *x = t->arg;
	struct execution_follower *f;

	send_forget(x);
	for (f = x->followers; f != NULL; f = f->next)
		f->calling = true;
	/* A follower may end others: after each the search begins again. */
	while ((f = find_calling(x->followers)) != NULL) {
		f->calling = false;
		f->on_progress(f);
	}
	if (x->complete && x->followers == NULL && x->when_dead.first == NULL)
		execution_free(x);
}

int execution_log(struct core *c, const char *session_id, const char *id, int *ret_fd,
		  struct err *e)
{
	char name[STORE_ID_MAX + 8];

	(void)session_id; /* the caller has checked that they belong together */
	(void)snprintf(name, sizeof(name), "%s.log", id);
	*ret_fd = output_log_open(c->output_fd, name, O_RDONLY);
	if (*ret_fd < 0 && errno != ENOENT)
		return err_sys(e, "open log of %s", id);
	if (*ret_fd >= 0)
		IGNORED(flock(*ret_fd, LOCK_SH | LOCK_NB),
			"the log may be removed too early, then");
	return 0;
}

bool execution_log_lost(const struct store_execution *row)
{
	return row->truncated || row->log_bytes > 0;
}
