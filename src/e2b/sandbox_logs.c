/* sandbox_logs.c - theory of operation
 *
 * What the journal has of a sandbox, as log entries: each event is one, its facts are its fields.
 * The journal is read once, from the beginning (an index leads to a session's events); what is
 * wanted is kept until it is written: the first entries, or when read backward, the last. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter.h"
#include "buf.h"
#include "reply.h"
#include "sandbox.h"
#include "store_event.h"

#define ENTRIES_MAX 1000
#define SEARCH_MAX 256
#define ENTRY_TEXT_MAX (16U << 10)

enum level { DEBUG, INFO, WARN, ERROR };

static const char *const level_names[] = { "debug", "info", "warn", "error" };

struct entry {
	uint64_t time_ms;
	enum level level;
	const char *logger; /* a constant */
	char *message;	    /* owned, as the next */
	char *fields;	    /* JSON object of texts */
};

struct logs {
	uint64_t from_ms, to_ms;
	uint64_t limit;
	bool backward;
	unsigned level; /* at least */
	char search[SEARCH_MAX + 1];
	struct entry *entries; /* a ring, if backward */
	size_t n, first;
	bool failed;
};

/* ---- from an event */

/* One line "key TAB value" of its data. Returns where the next one begins; NULL: there is none. */
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

static enum level level_of(const char *key, const char *value)
{
	static const char *const bad[] = { "oom", "killed", "crashed", "host_restart" };

	if (strcmp(key, "limit") == 0 && value[0] != '\0')
		return WARN;
	for (size_t i = 0; i < COUNT(bad); i++)
		if (strcmp(key, "reason") == 0 && strcmp(value, bad[i]) == 0)
			return ERROR;
	return INFO;
}

static bool describe(const struct store_event *v, struct entry *ret)
{
	const char *at = v->data, *next;
	char key[32], value[1024];
	struct buf message;
	struct json fields;

	*ret = (struct entry){ .time_ms = v->time_ms, .level = INFO };
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

static void release_entry(struct entry *n)
{
	free(n->message);
	free(n->fields);
	*n = (struct entry){ 0 };
}

/* ---- which ones */

static int keep_one(const struct store_event *v, void *cookie)
{
	struct logs *l = cookie;
	struct entry n = { 0 };

	if (v->time_ms < l->from_ms || v->time_ms > l->to_ms)
		return 0;
	l->failed = !describe(v, &n);
	if (l->failed || n.level < l->level || strstr(n.message, l->search) == NULL) {
		release_entry(&n);
		return l->failed;
	}
	if (l->n < l->limit) {
		l->entries[l->n++] = n;
	} else if (l->backward && l->limit > 0) {
		release_entry(&l->entries[l->first]);
		l->entries[l->first] = n;
		l->first = (l->first + 1) % l->limit;
	} else {
		release_entry(&n);
	}
	return !l->backward && l->n == l->limit;
}

static const struct entry *entry_at(const struct logs *l, size_t i)
{
	return &l->entries[(l->first + (l->backward ? l->n - 1 - i : i)) % l->n];
}

/* ---- how they are written */

static void write_line(struct json *j, const struct entry *n)
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
		const struct entry *n = entry_at(l, i);

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
		write_line(j, entry_at(l, i));
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

static void answer(struct request *r, struct logs *l,
		   void (*write)(struct json *j, const struct logs *l))
{
	struct store_event_filter filter = { .tenant = tenant_row(r->tenant)->id,
					     .session = r->session_id };
	struct err e = { 0 };
	struct json j;

	l->entries = calloc(ENTRIES_MAX, sizeof(*l->entries));
	if (l->entries == NULL) {
		reply_code(r, 500, "internal", "memory is short");
		return;
	}
	if (l->limit > 0 && store_event_list(core_store(r->core), &filter, keep_one, l, &e) < 0) {
		reply_error(r, &e);
	} else if (l->failed) {
		reply_code(r, 500, "internal", "memory is short");
	} else {
		json_init_heap(&j, REPLY_JSON_MAX);
		write(&j, l);
		reply_json(r, 200, &j);
	}
	for (size_t i = 0; i < l->n; i++)
		release_entry(&l->entries[i]);
	free(l->entries);
}

void sandbox_logs_v1(struct request *r)
{
	struct logs l = { .to_ms = UINT64_MAX, .limit = ENTRIES_MAX };
	struct err e = { 0 };

	if (sandbox_find(r) == NULL)
		return;
	if (request_number(r, "start", 0, INT64_MAX, &l.from_ms, &e) < 0 ||
	    request_number(r, "limit", 0, INT32_MAX, &l.limit, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	if (l.limit > ENTRIES_MAX)
		l.limit = ENTRIES_MAX;
	answer(r, &l, write_v1);
}

void sandbox_logs_v2(struct request *r)
{
	static const char *const directions[] = { "forward", "backward" };
	struct logs l = { .limit = ENTRIES_MAX };
	uint64_t cursor = UINT64_MAX;
	unsigned direction = 0;
	struct err e = { 0 };

	if (sandbox_find(r) == NULL)
		return;
	if (request_number(r, "cursor", 0, INT64_MAX, &cursor, &e) < 0 ||
	    request_number(r, "limit", 0, ENTRIES_MAX, &l.limit, &e) < 0 ||
	    request_choice(r, "direction", directions, COUNT(directions), &direction, &e) < 0 ||
	    request_choice(r, "level", level_names, COUNT(level_names), &l.level, &e) < 0 ||
	    request_text(r, "search", l.search, sizeof(l.search), &e) < 0) {
		reply_error(r, &e);
		return;
	}
	l.backward = direction == 1;
	l.from_ms = l.backward || cursor == UINT64_MAX ? 0 : cursor;
	l.to_ms = l.backward ? cursor : UINT64_MAX;
	answer(r, &l, write_v2);
}
