#include "front/mcptools/run_end.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "daemon/execution/execution.h"
#include "daemon/output/output.h"
#include "daemon/store/store_net.h"
#include "front/web/json_view.h"
#include "front/web/reply.h"
#include "front/web/routes.h"
#include "lib/base/shown_text.h"
#include "lib/base/str.h"
#include "lib/policy/policy_allow.h"
#include "lib/wire/cell_level.h"

/* ---- progress
 *
 * The log is read from where the last call ended. Only the last line is kept. */

#define LAST_LINE 200
#define PROGRESS_RECORDS 1024

/* At most LAST_LINE bytes stay. */
static void keep_last(struct run_progress *p, const uint8_t *bytes, size_t n)
{
	size_t skip = n > LAST_LINE ? n - LAST_LINE : 0;

	buf_put(&p->last, bytes + skip, n - skip);
	if (p->last.len > LAST_LINE)
		buf_consume(&p->last, p->last.len - LAST_LINE);
}

/* Bounded by PROGRESS_RECORDS. The rest is read in a second. */
static void read_log(struct tool_call *c, struct run_progress *p, const struct store_execution *row)
{
	uint8_t bytes[4096];
	struct output_chunk chunk;
	struct err e;

	if (p->log <= 0 &&
	    (execution_log(c->r->core, row->session, row->id, &p->log, &e) < 0 || p->log < 0))
		return;
	for (unsigned i = 0; i < PROGRESS_RECORDS; i++) {
		if (output_look(p->log, &p->cursor, &chunk, &e) <= 0)
			return;
		if (chunk.len > sizeof(bytes)) {
			output_skip(&p->cursor, &chunk);
			buf_clear(&p->last);
			continue;
		}
		if (output_read(p->log, &p->cursor, &chunk, bytes, sizeof(bytes), &e) <= 0)
			return;
		if (chunk.stream == OUTPUT_STDOUT || chunk.stream == OUTPUT_STDERR)
			keep_last(p, bytes, chunk.len);
	}
}

/* message stays empty if the execution has written nothing so far. */
void run_progress_show(struct run_progress *p, struct tool_call *c, struct execution *x,
		       uint64_t *ret_done, struct buf *message)
{
	const struct store_execution *row = execution_row(x);
	const uint8_t *line;
	size_t n;

	if (p->last.cap == 0)
		buf_init(&p->last, 8192);
	*ret_done = row->out_bytes + row->err_bytes;
	read_log(c, p, row);
	n = p->last.len;
	while (n > 0 && p->last.data[n - 1] == '\n')
		n--;
	line = n == 0 ? NULL : memrchr(p->last.data, '\n', n);
	if (n > 0) {
		line = line == NULL ? p->last.data : line + 1;
		(void)shown_text_tail(message, line, (size_t)(p->last.data + n - line),
				      TOOL_PROGRESS_TEXT);
	}
}

void run_progress_release(struct run_progress *p)
{
	if (p->log > 0)
		fd_close(p->log);
	buf_release(&p->last);
}

/* ---- the end
 *
 * The order: on_piece() reads the output and the results, list_changes() the files, and
 * write_result() writes all and calls on_written(). */

#define FILES_JSON_MAX (256U << 10)
#define CLOCK_SLACK_MS 20   /* file times are those of the kernel clock's last tick */
#define GUEST_SLACK_MS 2000 /* the clock of a guest is behind by a part of a second */
#define NET_LOOKED 256
#define SUMMARY_MAX (1U << 20)
#define DENIED_MAX (64U << 10)

void run_end_release(struct run_end *n)
{
	if (n->c == NULL)
		return;
	core_job_cancel(n->c->r->core, &n->job);
	run_results_release(&n->results);
	excerpt_release(&n->excerpt);
	changes_release(&n->changes);
	json_release(&n->files);
	buf_release(&n->denied);
}

/* ---- refusals
 *
 * Network records since the execution began, the first of each name. */

/* The names that were shown, and the lines for a model. */
struct refusals {
	struct tool_call *c;
	struct buf *lines;
	uint64_t since_ms;
	unsigned n;
	char names[RUN_END_DENIED][256];
};

static bool is_known(const struct refusals *f, const char *name)
{
	for (unsigned i = 0; i < f->n; i++)
		if (strcmp(f->names[i], name) == 0)
			return true;
	return false;
}

static void put_line(struct buf *lines, const char *name, const char *reason)
{
	shown_text(lines, (const uint8_t *)name, strlen(name));
	buf_put_text(lines, ": ");
	shown_text(lines, (const uint8_t *)reason, strlen(reason));
	buf_put_text(lines, "\n");
}

/* allow: the rule that would let it pass, where one can be named. */
static int on_refusal(const struct store_net *row, void *cookie)
{
	struct refusals *f = cookie;
	struct json_tree t = { 0 };
	struct json_span reason;
	struct json *j = &f->c->out;
	OWN_MEM char *text = NULL;
	struct err e;

	if (f->n == RUN_END_DENIED)
		return 1;
	if (row->time_ms + CLOCK_SLACK_MS < f->since_ms || is_known(f, row->name) ||
	    json_tree_read(&t, row->data, strlen(row->data), &json_tree_default, &e) < 0)
		return 0;
	str_copy(f->names[f->n++], row->name);
	reason = json_tree_get_text(json_tree_root(&t), "reason");
	json_open(j, NULL, '{');
	json_text(j, "kind", row->kind);
	tool_shown(f->c, "name", row->name);
	text = json_span_dup(reason);
	tool_shown(f->c, "reason", text == NULL ? "" : text);
	if (json_tree_get(json_tree_root(&t), "rule") != NULL ||
	    (strcmp(row->kind, "dns") != 0 && strcmp(row->kind, "connect") != 0 &&
	     strcmp(row->kind, "request") != 0))
		json_none(j, "allow");
	else
		policy_allow_write(j, row->name);
	json_close(j, '}');
	put_line(f->lines, row->name, text == NULL ? "" : text);
	json_tree_release(&t);
	return 0;
}

static void write_refusals(struct run_end *n, const struct store_execution *row)
{
	struct refusals f = { .c = n->c, .lines = &n->denied, .since_ms = row->created_ms };
	const struct store_net_filter filter = { .session = row->session,
						 .after_seq = n->net_seq,
						 .verdict = STORE_NET_REFUSED,
						 .limit = NET_LOOKED };
	struct err e;

	buf_init(&n->denied, DENIED_MAX);
	json_open(&n->c->out, "denied", '[');
	IGNORED(store_net_list(core_store(n->c->r->core), &filter, on_refusal, &f, NULL, &e),
		"the list is then shorter");
	json_close(&n->c->out, ']');
}

/* ---- the result
 *
 * Two forms of the same facts: members for programs, and text for models. */

/* *ret_cut: a part in the middle was left out. */
static void write_streams(struct run_end *n, struct buf *summary, bool *ret_cut)
{
	static const char *const names[2] = { "stdout", "stderr" };

	*ret_cut = false;
	for (unsigned i = 0; i < 2; i++) {
		struct buf text = BUF_INIT(EXCERPT_TEXT_MAX);

		*ret_cut |= excerpt_text(&n->excerpt, i, &text);
		json_bytes(&n->c->out, names[i], buf_text(&text), text.len);
		if (text.len > 0 && i == 1)
			buf_put_text(summary, summary->len > 0 ? "\n[stderr]\n" : "[stderr]\n");
		buf_put(summary, text.data, text.len);
		buf_release(&text);
	}
}

/* Write the text for a model whose client shows only text. */
static void write_summary(struct run_end *n, struct buf *summary)
{
	const struct store_execution *row = execution_row(n->x);

	buf_printf(summary, "%s[exit code %d%s%s]", summary->len > 0 ? "\n" : "",
		   json_view_exit_code(row),
		   !row->timed_out && row->limit[0] == '\0' ? ""
		   : json_view_exit_code(row) == 0	    ? ", a limit was hit: "
							    : ", ended by limit: ",
		   row->timed_out ? "timeout" : row->limit);
	tool_text(n->c, buf_text(summary), summary->len);
	for (unsigned i = 0; i < n->results.nimages; i++)
		tool_image(n->c, n->results.images[i].type, n->results.images[i].bytes,
			   n->results.images[i].n);
}

/* How it ended, in the words of the native interface. */
static void write_outcome(struct run_end *n, const struct store_execution *row)
{
	struct json *j = &n->c->out;

	json_text(j, "execution_id", row->id);
	json_bool(j, "running", false);
	json_int(j, "exit_code", json_view_exit_code(row));
	if (row->signal != 0)
		json_int(j, "signal", row->signal);
	if (row->timed_out || row->limit[0] != '\0')
		json_text(j, "limit", row->timed_out ? "timeout" : row->limit);
	json_open(j, "limits_hit", '[');
	for (const char *at = row->limits_hit; *at != '\0';
	     at += strcspn(at, ","), at += *at == ',')
		json_bytes(j, NULL, at, strcspn(at, ","));
	json_close(j, ']');
	if (row->state == EXECUTION_FAILED && row->error != NULL)
		tool_shown(n->c, "error", row->error);
	json_uint(j, "duration_ms",
		  row->ended_ms > row->created_ms ? row->ended_ms - row->created_ms : 0);
}

/* The result has a copy of these, and a client may take its time to read it. */
static void drop_parts(struct run_end *n)
{
	run_results_release(&n->results);
	buf_release(&n->excerpt.results);
	json_release(&n->files);
}

/* Everything was read. The result has all of it, and the parts are freed. */
static void write_result(struct run_end *n)
{
	const struct store_execution *row = execution_row(n->x);
	struct buf summary = BUF_INIT(SUMMARY_MAX);
	struct json *j = &n->c->out;
	bool cut;

	tool_open(n->c);
	write_outcome(n, row);
	write_streams(n, &summary, &cut);
	json_bool(j, "truncated", cut || row->truncated);
	if (n->is_code) {
		run_results_write(&n->results, j);
		buf_put_text(&summary, summary.len > 0 && n->results.text.len > 0 ? "\n" : "");
		buf_put(&summary, n->results.text.data, n->results.text.len);
	}
	write_summary(n, &summary);
	buf_release(&summary);
	if (n->with_changes) {
		json_close(&n->files, ']');
		json_raw_bytes(j, "files_changed", n->files.text, n->files.len);
		json_bool(j, "more_files_changed", n->more_files);
	}
	write_refusals(n, row);
	drop_parts(n);
	n->on_written(n);
}

/* ---- files that changed
 *
 * Files are told from those of earlier executions by their time. */

static struct run_end *run_end_of(struct changes *l)
{
	return (struct run_end *)((char *)l - offsetof(struct run_end, changes));
}

static void on_change(struct changes *l, const struct diff_record *r)
{
	struct run_end *n = run_end_of(l);

	if (!n->is_there(n) || r->changed_ms + n->slack_ms < execution_row(n->x)->created_ms)
		return;
	if (n->nfiles == RUN_END_CHANGES || r->kind == 'T') {
		n->more_files = true;
		return;
	}
	n->nfiles++;
	json_open(&n->files, NULL, '{');
	json_text(&n->files, "kind", diff_record_kind(r));
	tool_shown_in(n->c, &n->files, "path", r->path);
	json_uint(&n->files, "size", r->size);
	json_close(&n->files, '}');
}

static bool is_lost(struct run_end *n);

/* All changes were read, or cannot be. */
static void on_changes(struct changes *l, const struct err *e)
{
	struct run_end *n = run_end_of(l);

	if (is_lost(n))
		return;
	n->more_files |= e != NULL; /* too many lists at once: the result comes without */
	write_result(n);
}

/* on_changes() follows once. */
static void list_changes(struct run_end *n, struct session *s)
{
	n->slack_ms = cell_level_of(session_row(s)->level)->engine == CELL_ENGINE_MICROVM
			      ? GUEST_SLACK_MS
			      : CLOCK_SLACK_MS;
	n->changes.on_change = on_change;
	n->changes.on_end = on_changes;
	json_init_heap(&n->files, FILES_JSON_MAX);
	json_open(&n->files, NULL, '[');
	changes_start(&n->changes, n->c->r, s);
}

/* ---- in order
 *
 * Nothing is answered while the execution is read. Each failure ends the call. */

/* The session may end while its output is read. The execution is gone then. */
static bool is_lost(struct run_end *n)
{
	struct request *r = n->c->r;
	struct err e = { 0 };

	if (session_live(r->core, r->tenant, r->session_id, &e) != NULL && n->is_there(n))
		return false;
	if (e.code == ERR_NONE)
		IGNORED(err_set_reason(&e, REASON_GONE, "session %s has ended", r->session_id),
			"answered");
	reply_error(r, &e);
	return true;
}

/* True: there are more. Begun when the excerpt is complete. */
static bool read_results(struct run_end *n)
{
	if (n->results.lines == NULL)
		run_results_init(&n->results, &n->excerpt.results, n->excerpt.more_results);
	return run_results_piece(&n->results);
}

/* True: call again. */
static bool on_piece(struct job *job)
{
	struct run_end *n = job->arg;
	struct request *r = n->c->r;
	struct err e = { 0 };
	int got;

	loop_note(core_loop(r->core), r->route->pattern);
	if (is_lost(n))
		return false;
	got = excerpt_piece(&n->excerpt, &e);
	if (got > 0 || (got == 0 && n->is_code && read_results(n)))
		return true;
	if (got < 0)
		reply_error(r, &e);
	else if (n->with_changes)
		list_changes(n, session_live(r->core, r->tenant, r->session_id, &e));
	else
		write_result(n);
	return false;
}

/* An answer of one piece, as most are, is written at once. */
void run_end_start(struct run_end *n)
{
	struct request *r = n->c->r;
	const struct store_execution *row = execution_row(n->x);
	struct err e = { 0 };
	int fd = -1;

	if (row->out_bytes + row->err_bytes + row->result_bytes > 0 &&
	    execution_log(r->core, row->session, row->id, &fd, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	excerpt_init(&n->excerpt, fd, row->out_bytes, row->err_bytes, !row->truncated);
	n->job.on_piece = on_piece;
	n->job.arg = n;
	if (request_turn_is_old(r) || on_piece(&n->job))
		core_job_add(r->core, r->tenant, &n->job);
}
