/* api_processes.c - lists all processes of a session, and kills one.
 *
 * A command often has a value of a secret, and keys of scope read may list processes: values are
 * covered as in output. The records of a list are collected first, and shown in pieces of the
 * tenant's turns, because a cell may send many long ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/rest/api_handlers.h"
#include "front/web/file_call.h"
#include "front/web/json_view.h"
#include "front/web/reply.h"
#include "front/web/routes.h"
#include "lib/base/buf.h"
#include "lib/base/units.h"
#include "lib/json/json.h"
#include "lib/loop/jobs.h"
#include "lib/mask/mask.h"

/* The kernel's largest pid, and the record bytes shown in one piece. */
#define PID_MAX 4194304
#define PIECE ((size_t)16 << 10)
#define COMM_LEN 15 /* bytes that the kernel keeps of a name */

/* The state of both requests. pid "": a list. */
struct processes {
	struct file_call call;
	char pid[12];
	struct json j;
	struct buf records; /* of a list, as they came */
	size_t at;	    /* those before it are shown */
	bool no_room;
	struct job job;
	/* the last one looked up: processes of one execution often come one after another */
	uint64_t mark;
	char execution_id[STORE_ID_MAX]; /* "": of no execution */
};

static void processes_release(struct request *r, bool answered)
{
	struct processes *p = r->state;

	file_call_release(&p->call);
	core_job_cancel(r->core, &p->job);
	buf_release(&p->records);
	json_release(&p->j);
}

/* The execution of a process, by its mark: live, or ended with the process left behind. Borrowed
 * until the next call. NULL: the process belongs to no execution. */
static const char *find_execution(struct request *r, uint64_t mark)
{
	struct processes *p = r->state;
	struct err e;
	struct session *s = session_live(r->core, r->tenant, r->session_id, &e);
	struct execution *x = s == NULL ? NULL : execution_by_mark(s, mark);

	if (x != NULL)
		return execution_row(x)->id;
	if (mark != p->mark) {
		p->mark = mark;
		if (store_execution_by_mark(core_store(r->core), r->session_id, mark,
					    p->execution_id, &e) < 0)
			p->execution_id[0] = '\0';
	}
	return p->execution_id[0] == '\0' ? NULL : p->execution_id;
}

/* PID 1 may have cut it off. */
static void cover_command(const struct session *s, char *text)
{
	if (strlen(text) == FILE_MSG_PATH_MAX - 1)
		session_redact_cut(s, text);
	else
		session_redact(s, text);
}

/* The kernel cuts off a name after 15 bytes, so such a one may be the beginning of a value. It is
 * shown only if it stands in the command, where all of a value would be covered. */
static void cover_name(const struct session *s, const char *covered_command, char *name)
{
	size_t n = strlen(name);
	bool is_cut = n >= COMM_LEN && session_mask(s) != NULL;

	if (is_cut && strstr(covered_command, name) == NULL)
		memset(name, '*', n);
	session_redact(s, name);
}

/* Both words are copied, since covering changes them in place. */
static void show_words(struct json *j, const struct session *s, const struct file_msg_process *p)
{
	OWN_MEM char *name = strdup(p->name), *command = strdup(p->command);

	if (name == NULL || command == NULL) {
		j->full = true;
		return;
	}
	cover_command(s, command);
	cover_name(s, command, name);
	json_text(j, "name", name);
	json_text(j, "command", command[0] == '\0' ? name : command);
}

/* One process as an object. Its numbers are the cell's word. */
static void processes_show(struct request *r, const struct session *s,
			   const struct file_msg_process *p)
{
	const char state[2] = { (char)p->state, '\0' };
	struct json *j = &((struct processes *)r->state)->j;

	json_open(j, NULL, '{');
	json_uint(j, "pid", p->pid);
	json_uint(j, "ppid", p->ppid);
	json_uint(j, "user_id", p->uid);
	json_text(j, "state", state);
	json_view_time(j, "started_at", p->start_ms <= 0 ? 0 : (uint64_t)p->start_ms);
	json_uint(j, "rss_bytes", p->rss_bytes);
	json_uint(j, "cpu_ms", p->cpu_us / 1000);
	show_words(j, s, p);
	json_text(j, "execution_id", find_execution(r, p->mark));
	json_close(j, '}');
}

/* A record is only kept here. Its bytes count for the tenant until on_piece() has shown them. */
static int on_record(struct file_call *c, const struct file_msg *m, struct err *e)
{
	static uint8_t bytes[FILE_MSG_MAX];
	struct processes *p = c->r->state;
	size_t n;

	if (m->kind == FILE_MSG_END)
		return 0;
	if (m->kind != FILE_MSG_PROCESS)
		return file_call_refuse(e);
	if (p->pid[0] != '\0')
		return 0; /* of the killed one */
	n = file_msg_write(m, bytes);
	p->no_room = p->no_room || !exchange_reserve(c->r->x, n);
	return p->no_room ? 0 : buf_add(&p->records, bytes, n, e);
}

/* Some of the records. True: there are more. The mask bounds the work of a turn, since it searches
 * for every secret. The session may have ended since the last piece, which is the answer then. */
static bool on_piece(struct job *job)
{
	struct request *r = job->arg;
	struct processes *p = r->state;
	struct err e = { 0 };
	const struct session *s = session_live(r->core, r->tenant, r->session_id, &e);
	const struct mask *m = s == NULL ? NULL : session_mask(s);
	size_t left = m == NULL || mask_turn(m) > PIECE ? PIECE : mask_turn(m);
	struct file_msg one;

	loop_note(core_loop(r->core), r->route->pattern);
	while (s != NULL && p->at < p->records.len) {
		int n = file_msg_next(p->records.data + p->at, p->records.len - p->at, &one, &e);

		if (n <= 0) {
			IGNORED(file_call_refuse(&e), "answered below");
			break;
		}
		processes_show(r, s, &one.process);
		p->at += (size_t)n;
		if (left <= (size_t)n && p->at < p->records.len)
			return true;
		left -= left < (size_t)n ? left : (size_t)n;
	}
	if (p->at < p->records.len || s == NULL) {
		reply_error(r, &e);
		return false;
	}
	exchange_unreserve(r->x, p->records.len);
	buf_release(&p->records);
	json_close(&p->j, ']');
	json_close(&p->j, '}');
	reply_json(r, 200, &p->j);
	return false;
}

/* The built-in has ended. A list that did not fit is refused as a whole. */
static void on_listed(struct file_call *c, int status, const struct err *e)
{
	struct request *r = c->r;
	struct processes *p = r->state;
	struct err full = { 0 };

	if (e == NULL && p->no_room) {
		IGNORED(err_set_reason(&full, REASON_CAPACITY_INPUT,
				       "the bodies of this tenant's requests have no more room in "
				       "memory (tenant_bodies_max): ask for fewer lists at a time"),
			"answered");
		e = &full;
	}
	if (e != NULL) {
		reply_file_error(r, e);
		return;
	}
	p->job = (struct job){ .on_piece = on_piece, .arg = r };
	if (on_piece(&p->job))
		core_job_add(r->core, r->tenant, &p->job);
}

/* The signal was sent, or e says why not. */
static void on_killed(struct file_call *c, int status, const struct err *e)
{
	if (e != NULL)
		reply_file_error(c->r, e);
	else
		reply_empty(c->r, 204);
}

/* The user that the built-in runs as: the cell's root if it has one, since other users could not
 * see or kill all processes. */
static const char *user_of(const struct session *s)
{
	bool one_id = core_restrictions(session_core(s))->ids ==
		      1; /* then all processes have the same user */

	return one_id || session_row(s)->profile == CELL_LOCKED ? FILE_CALL_USER : "root";
}

/* Every process is listed, so the built-in runs as user_of(). */
static void on_session_to_list(struct request *r, struct session *s)
{
	static const struct file_call_events events = { .on_record = on_record,
							.on_end = on_listed };
	static const char *const argv[] = { "processes" };
	struct processes *p = r->state;
	struct err e = { 0 };

	json_init_heap(&p->j, REPLY_JSON_MAX);
	buf_init(&p->records, REPLY_JSON_MAX);
	json_open(&p->j, NULL, '{');
	json_open(&p->j, "processes", '[');
	p->call.user = user_of(s);
	if (file_call_start(&p->call, r, s, argv, COUNT(argv), false, &events, &e) < 0)
		reply_file_error(r, &e);
}

static void on_session_to_kill(struct request *r, struct session *s)
{
	static const struct file_call_events events = { .on_record = on_record,
							.on_end = on_killed };
	struct processes *p = r->state;
	const char *argv[] = { "kill", p->pid, "9" };
	struct err e = { 0 };

	p->call.user = user_of(s);
	if (file_call_start(&p->call, r, s, argv, COUNT(argv), true, &events, &e) < 0)
		reply_file_error(r, &e);
}

void api_processes_list(struct request *r)
{
	if (request_state(r, sizeof(struct processes), processes_release) != NULL)
		request_use(r, on_session_to_list);
}

/* A pid that no process can have is 404, as a missing one. */
void api_processes_kill(struct request *r)
{
	struct processes *p;
	struct err e = { 0 };
	uint64_t pid;

	if (units_count(r->id, 2, PID_MAX, &pid, &e) < 0) { /* pid 1 is the session's init */
		reply_missing(r, "process", r->id);
		return;
	}
	p = request_state(r, sizeof(*p), processes_release);
	if (p == NULL)
		return;
	(void)snprintf(p->pid, sizeof(p->pid), "%llu", (unsigned long long)pid);
	request_use(r, on_session_to_kill);
}
