#include "front/web/json_view.h"

#include "daemon/audit/fact_lines.h"
#include "daemon/session/session_save.h"
#include "daemon/session/session_suspend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/alarms/refused_calls.h"
#include "daemon/alarms/trace.h"
#include "daemon/secrets/secret_spec.h"
#include "daemon/session/session_diff.h"
#include "daemon/session/volume_line.h"
#include "front/web/log_reader.h"
#include "front/web/port_url.h"
#include "front/web/reply.h"
#include "front/web/spec_alarms.h"
#include "lib/base/hex.h"
#include "lib/base/str.h"
#include "lib/json/json_read.h"
#include "lib/policy/package_record_text.h"
#include "lib/policy/policy_select.h"
#include "lib/wire/cell_level.h"
#include "lib/wire/exit_codes.h"

void json_view_time(struct json *j, const char *name, uint64_t ms)
{
	static time_t known = -1; /* strftime() once for the times of one second */
	static char day[32];
	time_t t = (time_t)(ms / 1000);
	char text[48];
	struct tm tm;

	if (ms == 0 ||
	    (t != known && (gmtime_r(&t, &tm) == NULL ||
			    strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm) == 0))) {
		known = ms == 0 ? known : -1;
		json_none(j, name);
		return;
	}
	known = t;
	(void)snprintf(text, sizeof(text), "%s.%03uZ", day, (unsigned)(ms % 1000));
	json_text(j, name, text);
}

/* Lines without a tab, or with a long word, are left out. */
void json_view_lines(struct json *j, const char *name, const char *lines)
{
	char word[64];

	json_open(j, name, '{');
	for (const char *line = lines; *line != '\0';) {
		size_t n = strcspn(line, "\n"), tab = strcspn(line, "\t");

		if (tab < n && tab < sizeof(word)) {
			memcpy(word, line, tab);
			word[tab] = '\0';
			json_bytes(j, word, line + tab + 1, n - tab - 1);
		}
		line += n + (line[n] == '\n');
	}
	json_close(j, '}');
}

void json_view_limits(struct json *j, const char *name, const struct cell_limits *l)
{
	json_open(j, name, '{');
	json_uint(j, "memory_bytes", l->memory_bytes);
	json_uint(j, "cpu_millis", l->cpu_millis);
	json_uint(j, "pids", l->pids);
	json_uint(j, "disk_bytes", l->disk_bytes);
	json_uint(j, "inodes", l->inodes);
	json_uint(j, "nofile", l->nofile);
	json_uint(j, "disk_read_bps", l->read_bps);
	json_uint(j, "disk_write_bps", l->write_bps);
	json_close(j, '}');
}

/* A part of a text that ends at a separator, as a JSON string. */
static const char *json_view_part(struct json *j, const char *name, const char *text,
				  const char *ends)
{
	size_t n = strcspn(text, ends);

	json_bytes(j, name, text, n);
	return text[n] == '\0' ? text + n : text + n + 1;
}

/* Lines "source TAB target TAB mode". */
void json_view_mounts(struct json *j, const char *text)
{
	json_open(j, "mounts", '[');
	while (*text != '\0') {
		if (volume_line_is(text)) { /* see json_view_volumes() */
			text += strcspn(text, "\n");
			text += *text == '\n';
			continue;
		}
		json_open(j, NULL, '{');
		text = json_view_part(j, "source", text, "\t\n");
		text = json_view_part(j, "target", text, "\t\n");
		text = json_view_part(j, "mode", text, "\n");
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void json_view_volumes(struct json *j, const char *mounts)
{
	struct volume_line m;

	json_open(j, "volumes", '[');
	while (volume_line_next(&mounts, &m)) {
		json_open(j, NULL, '{');
		json_text(j, "name", m.name);
		json_text(j, "id", m.id);
		json_text(j, "path", m.target);
		json_text(j, "mode", m.writable ? "rw" : "ro");
		json_close(j, '}');
	}
	json_close(j, ']');
}

/* Returns the beginning of the next line. */
static const char *json_view_prefixes(struct json *j, const char *name, const char *text)
{
	const char *end = text + strcspn(text, "\n");

	if (end == text)
		json_none(j, name);
	if (end > text) {
		json_open(j, name, '[');
		while (text < end)
			text = json_view_part(j, NULL, text, ":\n");
		json_close(j, ']');
	}
	return *end == '\0' ? end : end + 1;
}

/* A line of writable prefixes, a line of exportable ones. An empty one is no rule. */
static void json_view_rules(struct json *j, const char *text)
{
	json_open(j, "rules", '{');
	text = json_view_prefixes(j, "writable", text);
	(void)json_view_prefixes(j, "exportable", text);
	json_close(j, '}');
}

/* live NULL: the numbers of the row. */
static void json_view_usage(struct json *j, const struct store_session *row, struct session *live)
{
	struct store_usage u = row->usage;
	struct session_sample now = { 0 };

	if (live != NULL) {
		session_sample_now(live, &now);
		u.cpu_us = now.cpu_us;
		u.memory_peak_bytes = now.memory_peak_bytes;
		u.disk_bytes = now.disk_bytes;
	}
	json_open(j, "usage", '{');
	json_uint(j, "cpu_ms", u.cpu_us / 1000);
	json_uint(j, "memory_peak_bytes", u.memory_peak_bytes);
	json_uint(j, "disk_bytes", u.disk_bytes);
	json_open(j, "network", '{');
	json_uint(j, "bytes_in", u.net_bytes_in);
	json_uint(j, "bytes_out", u.net_bytes_out);
	json_uint(j, "requests", u.net_requests);
	json_close(j, '}');
	json_close(j, '}');
}

/* The chosen policy. null is the node's default. */
static void json_view_network(struct json *j, const struct store_session *row)
{
	char name[POLICY_SELECT_NAME_MAX];

	if (row->policy == NULL || row->policy[0] == '\0') {
		json_none(j, "network");
		return;
	}
	policy_select_name(row->policy, name);
	json_text(j, "network", name);
}

/* Names of the secrets of a session or an execution, and how it gets them, never values or
 * placeholders. */
static void json_view_secrets(struct json *j, const char *lines)
{
	struct secret_spec l;

	json_open(j, "secrets", '[');
	while (secret_spec_next(&lines, &l)) {
		json_open(j, NULL, '{');
		json_text(j, "name", l.name);
		json_text(j, "as", secret_spec_way(l.way));
		json_text(j,
			  l.way == SECRET_FILE	   ? "path"
			  : l.way == SECRET_SOCKET ? "program"
						   : "env",
			  l.where);
		json_close(j, '}');
	}
	json_close(j, ']');
}

/* The state of the diff that the session keeps at its end. null: none was requested. */
static void json_view_diff(struct json *j, const struct store_session *row)
{
	const char *state = kept_diff_name(row->keep_diff);

	if (state == NULL) {
		json_none(j, "kept_diff");
		return;
	}
	json_open(j, "kept_diff", '{');
	json_text(j, "state", state);
	json_uint(j, "bytes", row->diff_bytes);
	json_text(j, "why", row->diff_why[0] == '\0' ? NULL : row->diff_why);
	json_close(j, '}');
}

static const char *or_null(const char *text)
{
	return text == NULL || *text == '\0' ? NULL : text;
}

static const char *or_empty(const char *text)
{
	return text == NULL ? "" : text;
}

/* One text in each line. */
static void json_view_texts(struct json *j, const char *name, const char *lines)
{
	json_open(j, name, '[');
	while (*lines != '\0')
		lines = json_view_part(j, NULL, lines, "\n");
	json_close(j, ']');
}

void json_view_redact(struct json *j, const char *lines)
{
	json_view_texts(j, "redact", lines);
}

static const char *json_view_action(uint32_t a)
{
	return a == SESSION_PAUSE ? "pause" : a == SESSION_PAUSE_FILES ? "pause_files" : "kill";
}

bool json_view_is_mcp_server(const struct store_session *row)
{
	static const char begin[] = "{\"mcp_server\":"; /* front/mcpservers/server_spec.h */

	return row->client != NULL && strncmp(row->client, begin, sizeof(begin) - 1) == 0;
}

/* For a session made for an MCP server: the server's name and the owning session. */
static void mcp_server(struct json *j, const struct store_session *row)
{
	struct json_value all, it = { .kind = JSON_READ_NONE };
	struct err e;

	if (json_view_is_mcp_server(row) &&
	    json_read(row->client, strlen(row->client), 32, &all, &e) == 0)
		it = json_read_member(all, "mcp_server");
	if (it.kind == JSON_READ_OBJECT)
		json_raw_bytes(j, "mcp_server", it.p, it.n);
}

/* null: they are not counted. */
static void json_view_refused_calls(struct json *j, const struct store_session *row,
				    struct session *live)
{
	char now[REFUSED_CALLS_TEXT_MAX];
	const char *lines = refused_calls_kept(row);

	if (live != NULL)
		lines = refused_calls_now(live, now) ? now : NULL;
	if (lines == NULL) {
		json_none(j, "refused_calls");
		return;
	}
	json_open(j, "refused_calls", '{');
	while (*lines != '\0') {
		size_t n = strcspn(lines, "\t");
		char name[64];

		if (lines[n] != '\t' || n >= sizeof(name))
			break;
		memcpy(name, lines, n);
		name[n] = '\0';
		json_uint(j, name, strtoull(lines + n + 1, NULL, 10));
		lines += strcspn(lines, "\n");
		lines += *lines == '\n';
	}
	json_close(j, '}');
}

void json_view_session(struct json *j, const char *name, const struct store_session *row,
		       struct session *live, bool look, bool urls)
{
	json_open(j, name, '{');
	json_text(j, "id", row->id);
	json_text(j, "state", session_shown_name(row));
	json_text(j, "reason", or_null(session_reason_name((enum session_reason)row->reason)));
	json_text(j, "detail", or_null(row->detail));
	json_text(j, "template", row->template);
	json_text(j, "template_id", or_null(row->template_id));
	json_text(j, "created_by", or_null(row->creator_key));
	json_text(j, "traceparent", or_null(row->traceparent));
	json_text(j, "profile", cell_profile_name((enum cell_profile)row->profile));
	json_text(j, "level", cell_level_of(row->level)->name);
	json_text(j, "guest", live == NULL ? NULL : session_guest_word(live));
	json_view_time(j, "created_at", row->created_ms);
	json_view_time(j, "started_at", row->started_ms);
	json_view_time(j, "ended_at", row->ended_ms);
	/* A paused session does not expire. */
	json_view_time(j, "expires_at",
		       row->state == SESSION_PAUSED || row->ended_ms != 0 ? 0 : row->deadline_ms);
	json_uint(j, "timeout_ms", row->timeout_ms);
	json_uint(j, "idle_timeout_ms", row->idle_ms);
	json_text(j, "on_timeout", json_view_action(row->on_timeout));
	json_text(j, "on_idle", json_view_action(row->on_idle));
	json_view_limits(j, "limits", &row->limits);
	json_text(j, "storage",
		  session_storage_names[row->storage < SESSION_STORAGES ? row->storage : 0]);
	json_text(j, "root", row->read_only ? "read-only" : "writable");
	json_bool(j, "persist", row->keep_ms > 0);
	json_uint(j, "keep_ms", row->keep_ms);
	json_view_time(j, "kept_until", live == NULL ? 0 : session_kept_until(live));
	/* Written by spec_session.c. */
	json_raw(j, "metadata", or_null(row->metadata) == NULL ? "{}" : row->metadata);
	json_view_mounts(j, or_empty(row->mounts));
	mcp_server(j, row);
	json_view_volumes(j, row->mounts);
	json_view_rules(j, or_empty(row->rules));
	json_view_network(j, row);
	json_view_secrets(j, row->secrets);
	port_url_list(j, live, urls);
	json_text(j, "trace", session_trace_names[row->trace < SESSION_TRACES ? row->trace : 0]);
	json_view_texts(j, "watch_reads", or_empty(row->watch_reads));
	json_view_redact(j, or_empty(row->redact));
	spec_alarms_view(j, row->alarms);
	json_view_refused_calls(j, row, live);
	json_view_diff(j, row);
	json_view_usage(j, row, look && !session_is_cold(row) ? live : NULL);
	json_uint(j, "executions_running", live == NULL ? 0 : session_executions_running(live));
	json_close(j, '}');
}

/* As a shell shows it: a program that could not be started has a code, too. */
int json_view_exit_code(const struct store_execution *row)
{
	if (row->timed_out)
		return EXIT_TIMEOUT;
	if (row->state == EXECUTION_FAILED && row->exit_code == 0)
		return row->error_code == ERR_NOT_FOUND ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
	return row->signal != 0 ? EXIT_SIGNAL + row->signal : row->exit_code;
}

/* "server": no client asked for it. */
static void view_actor(struct json *j, const char *name, const struct store_actor *a)
{
	json_open(j, name, '{');
	json_text(j, "interface", a->interface[0] == '\0' ? "server" : a->interface);
	json_text(j, "key_id", or_null(a->key_id));
	json_text(j, "request_id", or_null(a->request_id));
	json_close(j, '}');
}

/* null while the execution runs. */
static void json_view_outcome(struct json *j, const struct store_execution *row)
{
	bool ended = row->ended_ms != 0;
	struct err e = { .code = (enum err_code)row->error_code };

	if (ended)
		json_int(j, "exit_code", json_view_exit_code(row));
	else
		json_none(j, "exit_code");
	if (ended && row->signal != 0)
		json_int(j, "signal", row->signal);
	else
		json_none(j, "signal");
	json_text(j, "limit", row->timed_out ? "timeout" : or_null(row->limit));
	json_open(j, "limits_hit", '[');
	for (const char *at = row->limits_hit; *at != '\0';)
		at = json_view_part(j, NULL, at, ",");
	json_close(j, ']');
	if (row->error_code >= ERR_CODES)
		e.code = ERR_SYSTEM;
	str_copy(e.msg, or_empty(row->error));
	reply_error_member(j, &e);
}

/* Lines "name TAB number". */
static void json_view_redacted(struct json *j, const char *lines)
{
	json_open(j, "redacted", '{');
	while (*lines != '\0') {
		size_t n = strcspn(lines, "\t");
		char name[16];

		(void)snprintf(name, sizeof(name), "%.*s", (int)n, lines);
		if (lines[n] == '\t')
			json_uint(j, name, strtoull(lines + n + 1, NULL, 10));
		lines += strcspn(lines, "\n");
		lines += *lines == '\n';
	}
	json_close(j, '}');
}

void json_view_execution_open(struct json *j, const char *name, const struct store_execution *row,
			      const struct execution *x)
{
	char hash[2 * STORE_COMMAND_HASH + 1];

	hex_encode(row->command_hash, STORE_COMMAND_HASH, hash);
	json_open(j, name, '{');
	json_text(j, "id", row->id);
	json_text(j, "session_id", row->session);
	json_text(j, "state", execution_state_name((enum execution_state)row->state));
	json_text(j, "command", or_null(row->command));
	json_text(j, "command_sha256", hash);
	json_text(j, "language", or_null(row->language));
	json_text(j, "context", or_null(row->context));
	json_text(j, "cwd", or_null(row->cwd));
	json_text(j, "user", or_null(row->user));
	json_bool(j, "tty", row->tty);
	json_bool(j, "record_input", row->record_input);
	json_bool(j, "background",
		  row->kind != EXECUTION_FOREGROUND && row->kind != EXECUTION_CALL);
	if (x != NULL && execution_pid(x) != 0 &&
	    !execution_ended(x)) /* later the pid may be that of another process */
		json_uint(j, "pid", execution_pid(x));
	else
		json_none(j, "pid");
	json_view_time(j, "started_at", row->started_ms != 0 ? row->started_ms : row->created_ms);
	json_view_time(j, "ended_at", row->ended_ms);
	if (row->ended_ms >= row->created_ms && row->ended_ms != 0)
		json_uint(j, "wall_ms",
			  row->ended_ms - (row->started_ms != 0 && row->started_ms <= row->ended_ms
						   ? row->started_ms
						   : row->created_ms));
	else
		json_none(j, "wall_ms");
	json_view_outcome(j, row);
	json_uint(j, "stdout_bytes", row->out_bytes);
	json_uint(j, "stderr_bytes", row->err_bytes);
	json_uint(j, "result_bytes", row->result_bytes);
	json_bool(j, "output_truncated", row->truncated);
	json_bool(j, "output_open", x != NULL && !execution_complete(x));
	json_uint(j, "cpu_ms", row->cpu_us / 1000);
	json_view_redacted(j, row->redacted);
	json_view_secrets(j, row->secrets);
	view_actor(j, "actor", &row->actor);
}

void json_view_execution(struct json *j, const char *name, const struct store_execution *row,
			 const struct execution *x)
{
	json_view_execution_open(j, name, row, x);
	json_close(j, '}');
}

void json_view_entry(struct json *j, const char *name, const struct file_msg_entry *f)
{
	const char *slash = strrchr(f->path, '/');
	char mode[16];

	(void)snprintf(mode, sizeof(mode), "%04o", f->mode & 07777U);
	json_open(j, name, '{');
	json_text(j, "name", slash == NULL || slash[1] == '\0' ? f->path : slash + 1);
	json_text(j, "path", f->path);
	json_text(j, "type", file_msg_type_name((enum file_msg_type)f->type));
	json_text(j, "mode", mode);
	json_uint(j, "uid", f->uid);
	json_uint(j, "gid", f->gid);
	json_text(j, "owner", or_null(f->owner));
	json_text(j, "group", or_null(f->group));
	json_uint(j, "size", f->size);
	json_view_time(j, "modified_at", f->mtime_ns <= 0 ? 0 : (uint64_t)f->mtime_ns / 1000000);
	json_text(j, "target", or_null(f->target));
	json_close(j, '}');
}

/* Lines "key TAB value". */
void json_view_event_data(struct json *j, const char *name, const char *at)
{
	json_open(j, name, '{');
	fact_lines_json(j, at);
	json_close(j, '}');
}

void json_view_event(struct json *j, const char *name, const struct store_event *v)
{
	json_open(j, name, '{');
	json_uint(j, "seq", v->seq);
	json_view_time(j, "time", v->time_ms);
	json_text(j, "type", v->type);
	json_text(j, "session_id", or_null(v->session));
	json_text(j, "execution_id", or_null(v->execution));
	view_actor(j, "actor", &v->actor);
	json_view_event_data(j, "data", or_empty(v->data));
	json_close(j, '}');
}

void json_view_secrets_found(struct json *j, const struct session_capture_found *f)
{
	const struct storage_found *l = &f->files;

	if (l->count == 0 && !f->unsearched)
		return;
	json_open(j, "secrets_in_files", '{');
	json_uint(j, "count", l->count);
	json_open(j, "files", '[');
	for (size_t i = 0; i < STORAGE_FOUND_MAX && i < l->count; i++)
		json_text(j, NULL, l->paths[i]);
	json_close(j, ']');
	json_bool(j, "unsearched", f->unsearched);
	json_close(j, '}');
}

void json_view_next(struct json *j, bool more, uint64_t last)
{
	if (more)
		json_uint(j, "next", last);
	else
		json_none(j, "next");
}

/* Neither is known if the watcher missed the end. */
static void json_view_end_of_program(struct json *j, const struct watch_entry *w)
{
	bool known = (w->flags & WATCH_UNKNOWN) == 0, killed = (w->flags & WATCH_SIGNAL) != 0;

	if (known && !killed)
		json_int(j, "exit_code", w->code);
	else
		json_none(j, "exit_code");
	if (known && killed)
		json_int(j, "signal", w->code);
	else
		json_none(j, "signal");
}

static void json_view_call(struct json *j, const struct trace_row *row)
{
	const struct watch_entry *w = &row->entry;
	char number[24], address[2 * WATCH_ADDRESS + 1];
	uint64_t args[6] = { 0 };
	size_t n = w->args_len > sizeof(args) ? w->args_len - sizeof(args) : 0;

	json_text(j, "call", row->call);
	json_uint(j, "parent", w->parent);
	json_uint(j, "uid", w->uid);
	json_text(j, "path", w->path);
	memcpy(args, w->args, sizeof(args));
	json_open(j, "arguments", '[');
	for (size_t i = 0; i < COUNT(args); i++) { /* as text: 64 bits are too many for numbers */
		(void)snprintf(number, sizeof(number), "0x%llx", (unsigned long long)args[i]);
		json_text(j, NULL, number);
	}
	json_close(j, ']');
	hex_encode((const uint8_t *)w->args + sizeof(args), n > WATCH_ADDRESS ? WATCH_ADDRESS : n,
		   address);
	if (n > 0)
		json_text(j, "address", address);
	else
		json_none(j, "address");
}

static void json_view_file(struct json *j, const struct watch_entry *w)
{
	static const struct {
		int bit;
		const char *name;
	} words[] = { { WATCH_READ, "read" },
		      { WATCH_WRITE, "write" },
		      { WATCH_REMOVE, "remove" },
		      { WATCH_RENAME, "rename" },
		      { WATCH_LINK, "link" } };
	size_t n = strnlen(w->args, WATCH_ARGS);
	bool two = w->args_len <= WATCH_ARGS && n + 1 < w->args_len;

	json_uint(j, "parent", w->parent);
	json_uint(j, "uid", w->uid);
	json_text(j, "path", w->path);
	json_open(j, "access", '[');
	for (size_t i = 0; i < COUNT(words); i++)
		if ((w->code & words[i].bit) != 0)
			json_text(j, NULL, words[i].name);
	json_close(j, ']');
	json_bytes(j, "file", w->args, n);
	if (two)
		json_bytes(j, "to", w->args + n + 1, strnlen(w->args + n + 1, w->args_len - n - 1));
	else
		json_none(j, "to");
	json_uint(j, "times", w->count);
	json_bool(j, "cut", (w->flags & WATCH_CUT) != 0);
}

void json_view_trace(struct json *j, const char *name, const struct trace_row *row)
{
	const struct watch_entry *w = &row->entry;

	json_open(j, name, '{');
	json_uint(j, "seq", w->seq);
	json_view_time(j, "time", w->time_ms);
	json_text(j, "kind",
		  w->kind == WATCH_EXEC	  ? "exec"
		  : w->kind == WATCH_CALL ? "call"
		  : w->kind == WATCH_FILE ? "file"
					  : "exit");
	json_text(j, "source", (w->flags & WATCH_EXACT) != 0 ? "exact" : "claimed");
	json_uint(j, "lost", row->lost);
	json_uint(j, "pid", w->pid);
	if (w->kind == WATCH_FILE) {
		json_view_file(j, w);
	} else if (w->kind == WATCH_CALL) {
		json_view_call(j, row);
	} else if (w->kind == WATCH_EXEC) {
		json_uint(j, "parent", w->parent);
		json_uint(j, "uid", w->uid);
		json_text(j, "path", w->path);
		json_text(j, "cwd", w->cwd);
		json_open(j, "argv", '[');
		for (size_t at = 0; at < w->args_len;) {
			size_t n = strnlen(w->args + at, w->args_len - at);

			json_bytes(j, NULL, w->args + at, n);
			at += n + 1;
		}
		json_close(j, ']');
		json_bool(j, "cut", (w->flags & WATCH_CUT) != 0);
	} else {
		json_view_end_of_program(j, w);
	}
	json_close(j, '}');
}

/* The row's details are JSON already. Its columns are put in front. */
void json_view_package(struct json *j, const char *name, const struct store_package *row)
{
	size_t len = strlen(row->data);
	OWN_MEM char *text = NULL;
	struct json h;

	json_init_heap(&h, 4096);
	json_open(&h, NULL, '{');
	json_uint(&h, "seq", row->seq);
	json_text(&h, "ecosystem", row->ecosystem);
	json_text(&h, "registry", or_null(row->registry));
	json_text(&h, "name", row->name);
	json_text(&h, "version", or_null(row->version));
	json_text(&h, "result",
		  package_result_name(row->result < PACKAGE_RESULTS
					      ? (enum package_result)row->result
					      : PACKAGE_RESULT_FAILED));
	json_uint(&h, "attempts", row->attempts);
	json_uint(&h, "downloads", row->downloads);
	json_uint(&h, "refusals", row->refusals);
	json_uint(&h, "bytes", row->bytes);
	json_view_time(&h, "first_at", row->first_ms);
	json_view_time(&h, "last_at", row->last_ms);
	json_text(&h, "execution_id", or_null(row->execution));
	if (json_ok(&h) && len > 2) /* the details begin with '{' and have a member */
		text = malloc(h.len + len + 2);
	if (text != NULL)
		(void)snprintf(text, h.len + len + 2, "%s,%s", h.text, row->data + 1);
	if (text != NULL)
		json_raw(j, name, text);
	else
		j->full = true;
	json_release(&h);
}

/* -1: the execution is gone from the store. */
int json_view_reader(struct json *j, const char *name, struct log_reader *rd,
		     json_view_more_fn *more, struct err *e)
{
	struct execution *x = log_reader_live(rd);
	struct store_execution row = { 0 };

	if (x != NULL) {
		json_view_execution_open(j, name, execution_row(x), x);
		more(rd->core, execution_row(x), j);
		json_close(j, '}');
		return 0;
	}
	if (execution_get(rd->core, rd->session_id, rd->id, &row, e) < 0)
		return -1;
	json_view_execution_open(j, name, &row, NULL);
	more(rd->core, &row, j);
	json_close(j, '}');
	store_execution_release(&row);
	return 0;
}
