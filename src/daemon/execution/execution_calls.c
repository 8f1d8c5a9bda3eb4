/* execution_calls.c - the reads, calls and followers of executions (execution.h), and the SPAWN
 * that starts one.
 *
 * An execution prepared by a part waits with a copy of its request. That copy has the environment
 * of the request, which may be confidential, so it is wiped. If the daemon dies before the SPAWN,
 * PID 1 does not know the execution, and the next daemon records it as killed.
 */
#include "daemon/execution/execution_calls.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "daemon/cells/live_cell.h"
#include "daemon/execution/execution.h"
#include "daemon/execution/execution_deadline.h"
#include "daemon/execution/execution_io.h"
#include "daemon/node/core.h"
#include "daemon/node/core_private.h"
#include "daemon/output/output_log.h"
#include "daemon/session/session.h"
#include "daemon/session/session_hooks.h"
#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/err_missing.h"
#include "lib/base/list.h"
#include "lib/json/json.h"
#include "lib/wire/exit_codes.h"

struct preparation {
	struct execution *execution;
	struct completion parts[CORE_PARTS_MAX];
	unsigned waiting; /* parts not ready yet */
	struct err failed;
	struct execution_spec spec; /* its texts are in `texts` */
	struct buf texts;
};

static size_t calls_put(struct buf *to, const char *text, size_t len)
{
	size_t at = to->len;

	buf_put(to, text == NULL ? "" : text, text == NULL ? 0 : len);
	buf_put(to, "", 1);
	return at;
}

/* Offsets first, pointers last: the buffer may move while it grows. */
static void copy_spec(struct preparation *p, const struct execution_spec *spec)
{
	size_t strings, cwd, user;
	struct err e;

	buf_init(&p->texts, 2 * (size_t)AGENT_REQUEST_MAX);
	p->texts.secret = true;
	strings = calls_put(&p->texts, spec->strings, spec->strings_len);
	cwd = calls_put(&p->texts, spec->cwd, spec->cwd == NULL ? 0 : strlen(spec->cwd));
	user = calls_put(&p->texts, spec->user, spec->user == NULL ? 0 : strlen(spec->user));
	p->spec = *spec;
	p->spec.strings = buf_text(&p->texts) + strings;
	p->spec.cwd = buf_text(&p->texts) + cwd;
	p->spec.user = buf_text(&p->texts) + user;
	p->spec.text = p->spec.client = p->spec.secrets = NULL; /* recorded already */
	p->spec.actor = NULL;
	if (buf_check(&p->texts, &e) < 0)
		p->failed = e;
}

/* The texts may hold secrets. buf_release() wipes a secret buffer. */
void execution_prepare_cancel(struct execution *x)
{
	struct preparation *p = x->preparation;

	if (p == NULL)
		return;
	x->preparation = NULL;
	for (unsigned i = 0; i < CORE_PARTS_MAX; i++)
		completion_cancel(&p->parts[i]);
	buf_release(&p->texts);
	free(p);
}

bool execution_is_preparing(const struct execution *x)
{
	return x->preparation != NULL;
}

void execution_prepare_kill(struct execution *x)
{
	execution_prepare_cancel(x);
	x->killed = true;
	x->row.state = EXECUTION_KILLED;
	x->row.signal = SIGKILL;
	x->row.exit_code = EXIT_SIGNAL + SIGKILL;
	(void)snprintf(x->row.limit, sizeof(x->row.limit), "killed");
	execution_finish(x);
}

static void calls_fail(struct execution *x, const struct err *e)
{
	(void)snprintf(x->why, sizeof(x->why), "%.150s", e->msg);
	execution_give_up(x, x->why);
}

/* All parts are ready, or one has failed. The session may have lost its cell since. */
static void calls_send(struct preparation *p)
{
	struct execution *x = p->execution;
	struct session *s = x->session;
	struct err e;

	if (p->failed.code != ERR_NONE) {
		calls_fail(x, &p->failed);
		return;
	}
	if (s->cell == NULL || !s->cell->connected) {
		(void)err_set(&e, ERR_CONFLICT, "session %s has no connection to its cell",
			      s->row.id);
		calls_fail(x, &e);
	} else if (execution_send(x, &p->spec, &e) < 0) {
		calls_fail(x, &e);
	} else {
		execution_prepare_cancel(x);
	}
}

static void on_ready(struct completion *w, const struct err *e)
{
	struct preparation *p = w->arg;

	if (e != NULL && p->failed.code == ERR_NONE)
		p->failed = *e;
	if (--p->waiting == 0)
		calls_send(p);
}

/* The parts may end their completions at once, so `waiting` counts only begun ones. */
bool execution_prepare(struct execution *x, const struct execution_spec *spec)
{
	struct preparation *p;

	if (x->row.secrets == NULL || x->row.secrets[0] == '\0')
		return false; /* nothing else needs preparation */
	p = calloc(1, sizeof(*p));
	assert(p != NULL);
	p->execution = x;
	for (unsigned i = 0; i < CORE_PARTS_MAX; i++)
		p->parts[i] = (struct completion){ .on_done = on_ready, .arg = p };
	x->preparation = p;
	p->waiting = session_parts_prepare(x->session, x, p->parts);
	if (p->waiting == 0) {
		execution_prepare_cancel(x);
		return false;
	}
	copy_spec(p, spec);
	return true;
}

/* Does one of n strings assign to the same variable? */
static bool calls_assigns(const char *strings, uint32_t n, const char *assignment)
{
	size_t name = strcspn(assignment, "=") + 1;

	for (; n > 0; n--, strings += strlen(strings) + 1)
		if (strncmp(strings, assignment, name) == 0)
			return true;
	return false;
}

/* Append those of n bytes of assignments whose variable is not set yet. */
static void put_env(struct buf *to, size_t own, uint32_t *envc, const char *at, size_t n)
{
	for (const char *end = n == 0 ? at : at + n; at < end; at += n) {
		n = strlen(at) + 1;
		if (calls_assigns(buf_text(to) + own, *envc, at))
			continue;
		buf_put(to, at, n);
		++*envc;
	}
}

/* Compose argv and the environment. The first assignment of a variable wins, in this order: the
 * execution's own, its secrets, the session's secrets, the session's environment, the template's.
 */
static int put_strings(struct execution *x, const struct execution_spec *spec, struct buf *to,
		       uint32_t *ret_envc, struct err *e)
{
	struct session *s = x->session;
	struct buf secrets = BUF_INIT(2 * (size_t)AGENT_REQUEST_MAX);
	const struct store_template *t = session_template(s);
	size_t usual = t == NULL ? 0 : t->env_len;
	const char *own = spec->strings;

	to->secret = true;
	for (uint32_t i = 0; i < spec->argc; i++)
		own += strlen(own) + 1;
	*ret_envc = spec->envc;
	session_parts_add_env(s, x, &secrets);
	if (buf_check(&secrets, e) < 0 ||
	    buf_reserve(to, spec->strings_len + secrets.len + s->row.env_len + usual + 1, e) ==
		    NULL) {
		buf_release(&secrets);
		return -1;
	}
	buf_put(to, spec->strings, spec->strings_len);
	put_env(to, (size_t)(own - spec->strings), ret_envc, (const char *)secrets.data,
		secrets.len);
	put_env(to, (size_t)(own - spec->strings), ret_envc, s->row.env, s->row.env_len);
	if (usual > 0)
		put_env(to, (size_t)(own - spec->strings), ret_envc, t->env, usual);
	buf_release(&secrets);
	return buf_check(to, e);
}

/* Names without '=' or over 255 bytes cannot be members, and no program could read them either. */
static void put_members(struct json *to, const char *at, size_t len)
{
	char name[256];

	for (size_t n; len > 0; at += n, len -= n < len ? n : len) {
		size_t key = strcspn(at, "=");

		n = strlen(at) + 1;
		if (key == 0 || key >= sizeof(name) || at[key] != '=')
			continue;
		memcpy(name, at, key);
		name[key] = '\0';
		json_text(to, name, at + key + 1);
	}
}

int execution_env(struct execution *x, struct json *to, struct err *e)
{
	static const struct execution_spec none = { .strings = "" };
	struct buf strings = BUF_INIT(2 * (size_t)AGENT_REQUEST_MAX);
	uint32_t envc;
	int got = put_strings(x, &none, &strings, &envc, e);

	if (got == 0)
		put_members(to, buf_text(&strings), strings.len);
	buf_release(&strings);
	return got;
}

/* The client's choice, else the template's, else "". */
static const char *calls_given(const char *asked, const char *usual)
{
	if (asked != NULL && asked[0] != '\0')
		return asked;
	return usual == NULL ? "" : usual;
}

int execution_send(struct execution *x, const struct execution_spec *spec, struct err *e)
{
	struct session *s = x->session;
	const struct store_template *t = session_template(s);
	struct buf strings = BUF_INIT(2 * (size_t)AGENT_REQUEST_MAX);
	/* A PID 1 of an earlier version does not know the flag. */
	bool with_results = spec->results && s->cell->version >= AGENT_VERSION_RESULTS;
	struct agent_spawn r = { .handle = x->program.handle,
				 .flags = AGENT_HOLD | (spec->tty ? AGENT_TTY : 0) |
					  (with_results ? AGENT_RESULTS : 0) |
					  (spec->stdin_open || spec->tty ? 0 : AGENT_NO_STDIN),
				 .rows = spec->rows,
				 .cols = spec->cols,
				 .timeout_ms = x->row.timeout_ms,
				 .nofile = s->row.limits.nofile,
				 .argc = spec->argc,
				 .user = calls_given(spec->user, t == NULL ? NULL : t->user),
				 .cwd = calls_given(spec->cwd, t == NULL ? NULL : t->workdir) };

	x->program.results = with_results;
	int sent = put_strings(x, spec, &strings, &r.envc, e);

	r.strings_len = strings.len;
	r.strings = buf_text(&strings);
	if (sent == 0)
		sent = agent_send_spawn(&s->cell->agent, &r, e);
	buf_release(&strings);
	if (sent == 0)
		live_cell_flush(s->cell);
	return sent;
}

#define PAST_NS (30000 * CLOCK_MS)
#define KILL_MS 30000 /* for PID 1 to end a tree */

/* Another session's execution is reported as not found, so that ids cannot be probed. */
int execution_get(struct core *c, const char *session_id, const char *id,
		  struct store_execution *ret, struct err *e)
{
	if (store_execution_get(c->store, id, ret, e) < 0)
		return e->code == ERR_NOT_FOUND ? err_missing(e, "execution", id) : -1;
	if (strcmp(ret->session, session_id) == 0)
		return 0;
	store_execution_release(ret);
	return err_missing(e, "execution", id);
}

struct execution *execution_live(struct session *s, const char *id)
{
	struct execution *x = s->executions;

	while (x != NULL && strcmp(x->row.id, id) != 0)
		x = x->next;
	return x;
}

/* The counts of a running execution are taken from its log when they are read. */
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
	/* alone: see() ends at most its own execution, and the loop frees it later */
	LIST_WALK_ENDING(struct execution, x, s->executions)
		see(x, arg);
}

/* Without memory for the list, the execution is not remembered. */
void execution_remember(struct execution *x)
{
	struct session *s = x->session;
	struct execution_past *p;

	if (s->records.past == NULL)
		s->records.past = calloc(EXECUTION_PAST, sizeof(*s->records.past));
	if (s->records.past == NULL || x->pid == 0)
		return;
	p = &s->records.past[s->records.npast++ % EXECUTION_PAST];
	p->pid = x->pid;
	p->ended_ns = clock_now_ns();
	memcpy(p->id, x->row.id, sizeof(p->id));
}

/* Searched from the newest on, because a pid may have been used twice. */
const char *execution_past_by_pid(struct session *s, uint32_t pid)
{
	for (unsigned i = 1;
	     s->records.past != NULL && i <= EXECUTION_PAST && i <= s->records.npast; i++) {
		const struct execution_past *p =
			&s->records.past[(s->records.npast - i) % EXECUTION_PAST];

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

/* End the request behind a call: see code_execution.h. */
static void cut_call(struct execution *x)
{
	void (*cut)(void *arg) = x->call.cut;

	x->call.cut = NULL;
	if (cut != NULL)
		cut(x->call.arg);
}

/* Four cases without a running program are answered at once: a call, an execution not yet sent, a
 * complete one, and one without a connection to its cell. */
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
	if (c == NULL || !c->connected) {
		completion_end_soon(w, x->session->core->loop, NULL);
		return;
	}
	/* If PID 1 has not reported it since the restart, execution_adopt() kills it. */
	if (x->program.handle == 0 ||
	    agent_send_kill_tree(&c->agent, x->program.handle, 0, &e) == 0) {
		x->killing = true;
	} else if (x->ended) { /* no deadline of a process it left behind ends the cell */
		completion_end_soon(w, x->session->core->loop, &e);
		return;
	}
	x->killed = x->killed || !x->ended;
	completion_begin(w, x->session->core->loop, &x->when_dead);
	completion_set_deadline(w, KILL_MS, "end of the execution");
	live_cell_flush(c);
	execution_expect_death(x); /* which asks again if PID 1 could not be told */
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
	execution_note_size(x, rows, cols);
	live_cell_flush(c);
	return 0;
}

/* ---- followers */

/* Followers are called from the notify task only, so a follower may be removed at any time. */
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

/* Ask PID 1 to forget the execution, together with the next request to it: waking PID 1 takes
 * time. */
static void send_forget(struct execution *x)
{
	struct live_cell *c = x->session->cell;
	struct err e;

	if (!x->forget_due)
		return;
	if (c != NULL && c->connected && x->program.handle != 0) {
		if (agent_queue_forget(&c->agent, x->program.handle, &e) < 0)
			return; /* sent again in a second: PID 1 would hold it forever */
		live_cell_flush_later(c);
	}
	x->forget_due = false;
}

void execution_retry_orders(struct execution *x)
{
	if (x->close_due)
		execution_send_close(x);
	if (x->forget_due)
		execution_notify(x); /* which may free it */
}

/* Only the followers marked at the begin of the task are called, so one added during the task waits
 * for the next. */
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
	/* A follower may end others, so after each the search begins again. */
	while ((f = find_calling(x->followers)) != NULL) {
		f->calling = false;
		f->on_progress(f);
	}
	if (x->complete && x->followers == NULL && x->when_dead.first == NULL && !x->forget_due)
		execution_free(x);
}

/* The shared lock keeps the log from being removed while a client reads it. */
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
