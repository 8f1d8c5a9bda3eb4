/* sandbox_logs.c - theory of operation
 *
 * The events of a sandbox as log entries: each event is one entry, its facts are the fields. The
 * event log is read in the requested order (an index leads to a session's events), in pieces
 * (list_job.h), until enough is found or ROWS_MAX events are read. Matching entries are kept until
 * they are written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/store/store_event.h"
#include "front/e2b/base/e2b_private.h"
#include "front/e2b/control/sandbox.h"
#include "front/web/list_job.h"
#include "front/web/reply.h"
#include "lib/base/buf.h"

#define ENTRIES_MAX 1000
#define ROWS_MAX 200000 /* events that one request looks at */
#define SEARCH_MAX 256
#define ENTRY_TEXT_MAX (16U << 10)

/* In the order of level_names, so that levels can be compared. */
enum sandbox_log_level { DEBUG, INFO, WARN, ERROR };

static const char *const level_names[] = { "debug", "info", "warn", "error" };

struct sandbox_log_entry {
	uint64_t time_ms;
	enum sandbox_log_level level;
	const char *logger; /* a constant */
	char *message;	    /* owned, as the next */
	char *fields;	    /* JSON object of texts */
};

/* The state of a request for logs, of both versions. */
struct logs {
	struct list_job job; /* first */
	uint64_t after;	     /* number of the last event read */
	void (*write)(struct json *j, const struct logs *l);
	uint64_t from_ms, to_ms;
	uint64_t limit;
	bool backward;
	unsigned level; /* at least */
	char search[SEARCH_MAX + 1];
	struct sandbox_log_entry *entries; /* owned, in the order of the answer */
	size_t n;
	bool failed;
};

/* ---- from an event
 *
 * There are no other logs: events are the sandbox's history. */

/* One line "key TAB value" of its data. Return the start of the next line. NULL: none. */
static const char *next_fact(const char *at, char *ret_key, size_t cap, char *ret_value,
			     size_t value_cap)
{
	size_t line = strcspn(at, "\n"), key = strcspn(at, "\t\n");

	if (*at == '\0')
		return NULL;
	ret_key[0] = ret_value[0] = '\0';
	if (key < line) {
		(void)snprintf(ret_key, cap, "%.*s", (int)key, at);
		(void)snprintf(ret_value, value_cap, "%.*s", (int)(line - key - 1), at + key + 1);
	}
	return at + line + (at[line] == '\n');
}

/* By one fact of the event. The highest level of all facts counts. */
static enum sandbox_log_level level_of(const char *key, const char *value)
{
	static const char *const bad[] = { "oom",	   "killed",	     "crashed",
					   "host_restart", "guest_panicked", "engine_exited",
					   "unresponsive", "storage_full",   "alarm" };

	if (strcmp(key, "limit") == 0 && value[0] != '\0')
		return WARN;
	for (size_t i = 0; i < COUNT(bad); i++)
		if (strcmp(key, "reason") == 0 && strcmp(value, bad[i]) == 0)
			return ERROR;
	return INFO;
}

/* False: out of memory. *ret is to be released in any case. */
static bool sandbox_logs_describe(const struct store_event *v, struct sandbox_log_entry *ret)
{
	const char *at = v->data, *next;
	char key[32], value[1024];
	struct buf message;
	struct json fields;

	*ret = (struct sandbox_log_entry){ .time_ms = v->time_ms, .level = INFO };
	ret->logger = v->execution[0] == '\0' ? "sandbox" : "process";
	buf_init(&message, ENTRY_TEXT_MAX);
	json_init_heap(&fields, ENTRY_TEXT_MAX);
	buf_put_text(&message, v->type);
	json_open(&fields, NULL, '{');
	json_text(&fields, "event", v->type);
	if (v->execution[0] != '\0')
		json_text(&fields, "execution_id", v->execution);
	for (; (next = next_fact(at, key, sizeof(key), value, sizeof(value))) != NULL; at = next) {
		if (key[0] == '\0' || value[0] == '\0')
			continue;
		buf_printf(&message, " %s=%s", key, value);
		json_text(&fields, key, value);
		if (level_of(key, value) > ret->level)
			ret->level = level_of(key, value);
	}
	json_close(&fields, '}');
	ret->message = strdup(buf_text(&message));
	ret->fields = json_ok(&fields) ? strdup(fields.text) : NULL;
	buf_release(&message);
	json_release(&fields);
	return ret->message != NULL && ret->fields != NULL;
}

static void release_entry(struct sandbox_log_entry *n)
{
	free(n->message);
	free(n->fields);
	*n = (struct sandbox_log_entry){ 0 };
}

/* ---- which ones
 *
 * The filter by time, level and text runs here, row by row. */

/* 1 stops the store's loop. */
static int on_row(const struct store_event *v, void *cookie)
{
	struct logs *l = cookie;
	struct sandbox_log_entry n = { 0 };

	if (l->n == l->limit)
		return 1;
	if (v->time_ms < l->from_ms || v->time_ms > l->to_ms)
		return 0;
	l->failed = !sandbox_logs_describe(v, &n);
	if (l->failed || n.level < l->level || strstr(n.message, l->search) == NULL) {
		release_entry(&n);
		return l->failed;
	}
	l->entries[l->n++] = n;
	return 0;
}

/* ---- how they are written
 *
 * Version 1 shows each entry in two forms, as a line and as an entry. */

/* line is JSON within a JSON text. */
static void write_line(struct json *j, const struct sandbox_log_entry *n)
{
	char text[2 * ENTRY_TEXT_MAX];
	struct json line;

	json_init(&line, text, sizeof(text));
	json_open(&line, NULL, '{');
	json_text(&line, "level", level_names[n->level]);
	json_text(&line, "logger", n->logger);
	json_text(&line, "message", n->message);
	json_close(&line, '}');
	json_open(j, NULL, '{');
	sandbox_shape_time(j, "timestamp", n->time_ms);
	json_text(j, "line", text);
	json_close(j, '}');
}

static void write_entries(struct json *j, const char *name, const struct logs *l)
{
	json_open(j, name, '[');
	for (size_t i = 0; i < l->n; i++) {
		const struct sandbox_log_entry *n = &l->entries[i];

		json_open(j, NULL, '{');
		sandbox_shape_time(j, "timestamp", n->time_ms);
		json_text(j, "level", level_names[n->level]);
		json_text(j, "message", n->message);
		json_raw(j, "fields", n->fields);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void write_v1(struct json *j, const struct logs *l)
{
	json_open(j, NULL, '{');
	json_open(j, "logs", '[');
	for (size_t i = 0; i < l->n; i++)
		write_line(j, &l->entries[i]);
	json_close(j, ']');
	write_entries(j, "logEntries", l);
	json_close(j, '}');
}

static void write_v2(struct json *j, const struct logs *l)
{
	json_open(j, NULL, '{');
	write_entries(j, "logs", l);
	json_close(j, '}');
}

/* ---- looking for them
 *
 * new_logs() makes the state. Each version sets its bounds and starts the job. */

static void sandbox_logs_release(struct list_job *w)
{
	struct logs *l = (struct logs *)w;

	for (size_t i = 0; i < l->n; i++)
		release_entry(&l->entries[i]);
	free(l->entries);
}

/* 1: there may be more events. */
static int on_piece(struct list_job *w, struct err *e)
{
	struct logs *l = (struct logs *)w;
	struct store_event_filter filter = { .tenant = tenant_row(w->r->tenant)->id,
					     .session = w->r->session_id,
					     .descending = l->backward,
					     .after_seq = l->after,
					     .limit = LIST_JOB_PIECE };
	struct store_looked looked;

	if (l->limit == 0)
		return 0;
	if (store_event_list(core_store(w->r->core), &filter, on_row, l, &looked, e) < 0)
		return -1;
	if (l->failed)
		return err_set(e, ERR_SYSTEM, "out of memory");
	l->after = looked.seq;
	return list_job_count(w, &looked) && l->n < l->limit;
}

static void on_finish(struct list_job *w)
{
	struct logs *l = (struct logs *)w;

	l->write(&w->j, l);
}

static struct logs *new_logs(struct request *r, void (*write)(struct json *j, const struct logs *l))
{
	struct logs *l = list_job_new(r, sizeof(*l), on_piece, on_finish);

	if (l == NULL)
		return NULL;
	l->job.release = sandbox_logs_release;
	l->job.rows_max = ROWS_MAX;
	l->write = write;
	l->to_ms = UINT64_MAX;
	l->limit = ENTRIES_MAX;
	l->entries = calloc(ENTRIES_MAX, sizeof(*l->entries));
	if (l->entries != NULL)
		return l;
	reply_code(r, 500, "internal", "out of memory");
	return NULL;
}

void sandbox_logs_v1(struct request *r)
{
	struct err e = { 0 };
	struct logs *l;

	if (sandbox_find(r) == NULL || (l = new_logs(r, write_v1)) == NULL)
		return;
	if (request_number(r, "start", 0, INT64_MAX, &l->from_ms, &e) < 0 ||
	    request_number(r, "limit", 0, INT32_MAX, &l->limit, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	if (l->limit > ENTRIES_MAX)
		l->limit = ENTRIES_MAX;
	list_job_start(&l->job);
}

/* The cursor is a time: entries from it on, or up to it if backward. */
void sandbox_logs_v2(struct request *r)
{
	static const char *const directions[] = { "forward", "backward" };
	uint64_t cursor = UINT64_MAX;
	unsigned direction = 0;
	struct err e = { 0 };
	struct logs *l;

	if (sandbox_find(r) == NULL || (l = new_logs(r, write_v2)) == NULL)
		return;
	if (request_number(r, "cursor", 0, INT64_MAX, &cursor, &e) < 0 ||
	    request_number(r, "limit", 0, ENTRIES_MAX, &l->limit, &e) < 0 ||
	    request_choice(r, "direction", directions, COUNT(directions), &direction, &e) < 0 ||
	    request_choice(r, "level", level_names, COUNT(level_names), &l->level, &e) < 0 ||
	    request_text(r, "search", l->search, sizeof(l->search), &e) < 0) {
		reply_error(r, &e);
		return;
	}
	l->backward = direction == 1;
	l->from_ms = l->backward || cursor == UINT64_MAX ? 0 : cursor;
	l->to_ms = l->backward ? cursor : UINT64_MAX;
	list_job_start(&l->job);
}
