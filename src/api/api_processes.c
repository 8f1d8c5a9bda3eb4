/* api_processes.c - lists all processes of a session, and kills one. */
#include <stdio.h>
#include <string.h>

#include "api_handlers.h"
#include "file_call.h"
#include "json.h"
#include "reply.h"
#include "json_view.h"
#include "units.h"

#define PID_MAX 4194304

struct processes {
	struct file_call call;
	char pid[12];
	struct json j;
	/* the last one looked up: processes of one execution often come one after another */
	uint64_t mark;
	char execution_id[STORE_ID_MAX]; /* "": of no execution */
};

static void release(struct request *r, bool answered)
{
	struct processes *p = r->state;

	(void)answered;
	file_call_release(&p->call);
	json_release(&p->j);
}

/* The execution of a process, by its mark: live, or ended with the process left behind. */
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

static void show(struct request *r, struct json *j, const struct file_msg_process *p)
{
	const char state[2] = { (char)p->state, '\0' };

	json_open(j, NULL, '{');
	json_uint(j, "pid", p->pid);
	json_uint(j, "ppid", p->ppid);
	json_uint(j, "user_id", p->uid);
	json_text(j, "state", state);
	json_view_time(j, "started_at", p->start_ms <= 0 ? 0 : (uint64_t)p->start_ms);
	json_uint(j, "rss_bytes", p->rss_bytes);
	json_uint(j, "cpu_ms", p->cpu_us / 1000);
	json_text(j, "name", p->name);
	json_text(j, "command", p->command[0] == '\0' ? p->name : p->command);
	json_text(j, "execution_id", find_execution(r, p->mark));
	json_close(j, '}');
}

static int on_record(struct file_call *c, const struct file_msg *m, struct err *e)
{
	struct processes *p = c->r->state;

	if (m->kind == FILE_MSG_PROCESS && p->pid[0] == '\0')
		show(c->r, &p->j, &m->process);
	else if (m->kind != FILE_MSG_END)
		return file_call_refuse(e);
	return 0;
}

static void on_listed(struct file_call *c, int status, const struct err *e)
{
	struct processes *p = c->r->state;

	(void)status;
	if (e != NULL) {
		reply_file_error(c->r, e);
		return;
	}
	json_close(&p->j, ']');
	json_close(&p->j, '}');
	reply_json(c->r, 200, &p->j);
}

static void on_killed(struct file_call *c, int status, const struct err *e)
{
	(void)status;
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

static void on_session_to_list(struct request *r, struct session *s)
{
	static const struct file_call_events events = { .on_record = on_record,
							.on_end = on_listed };
	static const char *const argv[] = { "processes" };
	struct processes *p = r->state;
	struct err e = { 0 };

	json_init_heap(&p->j, REPLY_JSON_MAX);
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
	if (request_state(r, sizeof(struct processes), release) != NULL)
		request_use(r, on_session_to_list);
}

void api_processes_kill(struct request *r)
{
	struct processes *p;
	struct err e = { 0 };
	uint64_t pid;

	if (units_count(r->id, 2, PID_MAX, &pid, &e) < 0) { /* pid 1 is the session's init */
		reply_code(r, 404, "not_found", "there is no such process");
		return;
	}
	p = request_state(r, sizeof(*p), release);
	if (p == NULL)
		return;
	(void)snprintf(p->pid, sizeof(p->pid), "%llu", (unsigned long long)pid);
	request_use(r, on_session_to_kill);
}
