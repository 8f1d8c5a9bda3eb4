#include "front/rest/timeline_entry.h"

#include <stdio.h>
#include <string.h>

#include "daemon/store/store_execution.h"
#include "front/rest/api_handlers.h"
#include "front/web/json_view.h"
#include "lib/base/str.h"
#include "lib/base/units.h"
#include "lib/base/utf8.h"
#include "lib/json/json_read.h"

/* Words for kinds, in requests and in entries. */
const char *const timeline_kind_names[TIMELINE_KINDS] = {
	[TIMELINE_SESSION] = "session",	  [TIMELINE_EXECUTION] = "execution",
	[TIMELINE_OUTPUT] = "output",	  [TIMELINE_FILE] = "file",
	[TIMELINE_NETWORK] = "network",	  [TIMELINE_DNS] = "dns",
	[TIMELINE_PACKAGE] = "package",	  [TIMELINE_RESOURCE] = "resource",
	[TIMELINE_APPROVAL] = "approval", [TIMELINE_ALARM] = "alarm",
};

/* Each value is cut, since a title has TIMELINE_TITLE_MAX bytes. */
#define VALUE_MAX 512 /* bytes of one value in a title */

static const char info[] = "info", warning[] = "warning", alarm_word[] = "alarm";

/* The facts of an entry beside its data. Filled in by the of_ functions, and written once by
 * head_write(). */
struct timeline_head {
	uint64_t time_ms, duration_ms;
	bool has_duration;
	enum timeline_kind kind;
	const char *type, *severity, *execution;
	char title[TIMELINE_TITLE_MAX];
	size_t n; /* of the title */
	const char *list;
	uint64_t seq;
};

/* ---- titles
 *
 * A title grows by title_*() calls. When it is full it ends in "...". */

/* One character of n bytes (0: a byte outside UTF-8), visible. */
static int show_char(const uint8_t *p, size_t n, char ret[12])
{
	if (n > 0 && !utf8_is_control(p, n))
		return snprintf(ret, 12, "%.*s", (int)n, (const char *)p);
	if (*p == '\n' || *p == '\t' || *p == '\r')
		return snprintf(ret, 12, "\\%c", *p == '\n' ? 'n' : *p == '\t' ? 't' : 'r');
	if (n > 1)
		return snprintf(ret, 12, "\\u%04x", utf8_code(p, n));
	return snprintf(ret, 12, "\\x%02x", *p);
}

/* Add text of a cell to the title. */
static void title_show(struct timeline_head *h, const char *text, size_t len)
{
	const uint8_t *p = (const uint8_t *)text;
	char piece[12];

	while (len > 0) {
		size_t n = utf8_length(p, len), step = n == 0 ? 1 : n;
		int got = show_char(p, n, piece);

		if (got < 0 || h->n + (size_t)got + sizeof("...") > sizeof(h->title)) {
			h->n += (size_t)snprintf(h->title + h->n, sizeof(h->title) - h->n, "...");
			if (h->n >= sizeof(h->title))
				h->n = sizeof(h->title) - 1;
			return;
		}
		memcpy(h->title + h->n, piece, (size_t)got + 1);
		h->n += (size_t)got;
		p += step;
		len -= step;
	}
}

static void title_text(struct timeline_head *h, const char *text)
{
	title_show(h, text, strlen(text));
}

static void title_number(struct timeline_head *h, uint64_t n)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
	title_text(h, text);
}

/* As people write sizes. */
static void title_bytes(struct timeline_head *h, uint64_t n)
{
	char text[24];

	units_format_bytes(n, text, sizeof(text));
	title_text(h, text);
}

/* Opens the entry. The caller adds "data", and api_timeline.c the cursor. */
static void head_write(const struct timeline_head *h, struct json *j)
{
	json_open(j, NULL, '{');
	json_view_time(j, "time", h->time_ms);
	json_text(j, "kind", timeline_kind_names[h->kind]);
	json_text(j, "type", h->type);
	json_text(j, "severity", h->severity);
	json_text(j, "title", h->title);
	json_text(j, "execution_id", h->execution[0] == '\0' ? NULL : h->execution);
	if (h->has_duration)
		json_uint(j, "duration_ms", h->duration_ms);
	else
		json_none(j, "duration_ms");
	json_open(j, "ref", '{');
	json_text(j, "list", h->list);
	json_uint(j, "seq", h->seq);
	json_close(j, '}');
}

/* ---- events
 *
 * One function for each kind with a title of its own. of_others() writes any other event as it is,
 * so a new type needs no code here. */

/* The first rule whose text the type begins with. Longer ones come first. */
enum timeline_kind timeline_kind_of_event(const char *type)
{
	static const struct {
		const char *begin;
		enum timeline_kind kind;
	} rules[] = {
		{ "execution.output", TIMELINE_OUTPUT },
		{ "execution.", TIMELINE_EXECUTION },
		{ "file.", TIMELINE_FILE },
		{ "session.diff", TIMELINE_FILE },
		{ "approval.", TIMELINE_APPROVAL },
		{ "alarm", TIMELINE_ALARM },
		{ "package.changed", TIMELINE_ALARM },
		{ "package.backdated", TIMELINE_ALARM },
		{ "mcp.tools_changed", TIMELINE_ALARM },
	};

	for (size_t i = 0; i < COUNT(rules); i++)
		if (strncmp(type, rules[i].begin, strlen(rules[i].begin)) == 0)
			return rules[i].kind;
	return TIMELINE_SESSION;
}

/* A value of an event's data, lines "key TAB value". "" if it has none. */
static void event_value(const char *data, const char *key, char ret[VALUE_MAX])
{
	size_t n = strlen(key);

	ret[0] = '\0';
	while (*data != '\0') {
		size_t line = strcspn(data, "\n");

		if (line > n && data[n] == '\t' && memcmp(data, key, n) == 0) {
			size_t len = line - n - 1;

			(void)snprintf(ret, VALUE_MAX, "%.*s",
				       (int)(len < VALUE_MAX - 1 ? len : VALUE_MAX - 1),
				       data + n + 1);
			return;
		}
		data += line + (data[line] == '\n');
	}
}

/* Nothing is added if the event does not have the value. */
static void title_value(struct timeline_head *h, const char *before, const char *data,
			const char *key, const char *after)
{
	char value[VALUE_MAX];

	event_value(data, key, value);
	if (value[0] == '\0')
		return;
	title_text(h, before);
	title_text(h, value);
	title_text(h, after);
}

/* The command is in the record of the execution, if its text was kept. */
static void of_execution(struct core *c, const struct store_event *v, const char *data,
			 struct timeline_head *h)
{
	struct store_execution x = { 0 };
	char state[VALUE_MAX], limit[VALUE_MAX];
	struct err e;

	if (store_execution_get(core_store(c), v->execution, &x, &e) < 0)
		x = (struct store_execution){ .command = "" };
	if (strcmp(v->type, "execution.started") == 0) {
		title_text(h, x.command[0] != '\0' ? "$ " : "started: ");
		title_text(h, x.command);
		if (x.command[0] == '\0')
			title_value(h, "", data, "kind", x.language[0] == '\0' ? "" : " in ");
		if (x.command[0] == '\0')
			title_text(h, x.language);
	} else {
		event_value(data, "state", state);
		event_value(data, "limit", limit);
		title_text(h, state);
		if (state[0] != '\0')
			title_value(h, " with ", data, "exit_code", "");
		else
			title_value(h, "limits hit: ", data, "limits_hit", "");
		title_value(h, ", limit ", data, "limit", "");
		if (strcmp(state, "exited") != 0 || limit[0] != '\0')
			h->severity = warning;
		h->has_duration = x.ended_ms >= x.started_ms && x.ended_ms > 0;
		h->duration_ms = x.ended_ms - x.started_ms;
	}
	store_execution_release(&x);
}

/* A reason that is not a usual one is a warning. */
static void of_state(const char *data, struct timeline_head *h)
{
	static const char *const usual[] = { "", "deleted", "expired" };
	char reason[VALUE_MAX];
	bool is_usual = false;

	title_value(h, "", data, "from", " to ");
	title_value(h, "", data, "to", "");
	title_value(h, ": ", data, "reason", "");
	event_value(data, "reason", reason);
	for (size_t i = 0; i < COUNT(usual); i++)
		is_usual = is_usual || strcmp(reason, usual[i]) == 0;
	if (!is_usual)
		h->severity = warning;
}

/* "type key=value key=value". */
static void of_others(const char *type, const char *data, struct timeline_head *h)
{
	title_text(h, type);
	while (*data != '\0') {
		size_t line = strcspn(data, "\n"), key = strcspn(data, "\t\n");

		if (key < line) {
			title_text(h, " ");
			title_show(h, data, key);
			title_text(h, "=");
			title_show(h, data + key + 1, line - key - 1);
		}
		data += line + (data[line] == '\n');
	}
}

/* How much output there is, and if more was cut. */
static void of_output(const char *data, struct timeline_head *h)
{
	char bytes[VALUE_MAX], cut[VALUE_MAX];
	uint64_t n = 0;
	struct err e;

	event_value(data, "bytes", bytes);
	event_value(data, "cut", cut);
	if (units_count(bytes, 0, INT64_MAX, &n, &e) < 0)
		n = 0;
	title_bytes(h, n);
	title_text(h, n < 1024 ? " bytes of output" : " of output");
	title_value(h, ", cut: ", data, "cut", "");
	if (cut[0] != '\0')
		h->severity = warning;
}

/* Severity of events that do not say it themselves. */
static const char *event_severity(const struct store_event *v, enum timeline_kind kind)
{
	static const char *const warnings[] = { "session.guest", "session.storage_full" };

	if (kind == TIMELINE_ALARM)
		return alarm_word;
	for (size_t i = 0; i < COUNT(warnings); i++)
		if (strcmp(v->type, warnings[i]) == 0)
			return warning;
	return info;
}

/* The event's own word, if it is one of the three. */
static const char *said_severity(const char *data, const char *otherwise)
{
	char word[VALUE_MAX];

	event_value(data, "severity", word);
	return strcmp(word, info) == 0	       ? info
	       : strcmp(word, warning) == 0    ? warning
	       : strcmp(word, alarm_word) == 0 ? alarm_word
					       : otherwise;
}

/* The event's own data is added whole, the title is a summary. */
uint64_t timeline_write_event(struct core *c, const struct store_event *row, struct json *j)
{
	const char *data = row->data == NULL ? "" : row->data;
	struct timeline_head h = { .time_ms = row->time_ms,
				   .kind = timeline_kind_of_event(row->type),
				   .type = row->type,
				   .execution = row->execution,
				   .list = "events",
				   .seq = row->seq };

	h.severity = event_severity(row, h.kind);
	if (strcmp(row->type, "session.state") == 0)
		of_state(data, &h);
	else if (h.kind == TIMELINE_OUTPUT)
		of_output(data, &h);
	else if (h.kind == TIMELINE_EXECUTION)
		of_execution(c, row, data, &h);
	else if (strcmp(row->type, "file.changed") == 0) {
		title_value(&h, "", data, "op", " ");
		title_value(&h, "", data, "path", "");
		title_value(&h, " to ", data, "to", "");
	} else if (strcmp(row->type, "alarm") == 0) {
		title_value(&h, "alarm ", data, "kind", "");
		title_value(&h, ": ", data, "calls", "");
		title_value(&h, ": ", data, "last", "");
		title_value(&h, ": ", data, "what", "");
	} else {
		of_others(row->type, data, &h);
	}
	h.severity = said_severity(data, h.severity);
	head_write(&h, j);
	json_view_event_data(j, "data", data);
	return h.time_ms;
}

/* ---- network records
 *
 * A record is JSON of cordon-egress with names and paths of tenants. It is read with bounds, and
 * one that cannot be read still has an entry by its columns. */

enum timeline_kind timeline_kind_of_net(const char *kind)
{
	return strcmp(kind, "dns") == 0	      ? TIMELINE_DNS
	       : strcmp(kind, "package") == 0 ? TIMELINE_PACKAGE
					      : TIMELINE_NETWORK;
}

/* A text of a record, decoded. "" if there is none. */
static void net_text(struct json_value v, const char *name, char ret[VALUE_MAX])
{
	struct buf text = BUF_INIT(VALUE_MAX * 4);
	struct err e;

	ret[0] = '\0';
	if (json_read_text(json_read_member(v, name), &text, &e) == 0) {
		(void)snprintf(ret, VALUE_MAX, "%s", buf_text(&text));
		if (text.len >= VALUE_MAX)
			ret[utf8_cut((const uint8_t *)ret, VALUE_MAX - 1, text.len)] = '\0';
	}
	buf_release(&text);
}

/* 0: the member is absent or is no number. */
static uint64_t net_number(struct json_value v, const char *name)
{
	uint64_t n = 0;

	return json_read_uint(json_read_member(v, name), &n) ? n : 0;
}

/* before, then the member's text. Nothing if it is absent. */
static void title_net(struct timeline_head *h, struct json_value v, const char *name,
		      const char *before)
{
	char text[VALUE_MAX];

	net_text(v, name, text);
	if (text[0] == '\0')
		return;
	title_text(h, before);
	title_text(h, text);
}

/* "name:port", or the address if there is no name. */
static void title_place(struct timeline_head *h, struct json_value v)
{
	char name[VALUE_MAX];
	uint64_t port = net_number(v, "port");

	net_text(v, "name", name);
	if (name[0] == '\0')
		net_text(v, "address", name);
	title_text(h, name);
	if (port != 0) {
		title_text(h, ":");
		title_number(h, port);
	}
}

/* "GET https://host/path?query 200". */
static void title_request(struct timeline_head *h, struct json_value v)
{
	title_net(h, v, "method", "");
	title_net(h, v, "scheme", " ");
	title_text(h, "://");
	title_place(h, v);
	title_net(h, v, "path", "");
	title_net(h, v, "query", "?");
	if (net_number(v, "status") != 0) {
		title_text(h, " ");
		title_number(h, net_number(v, "status"));
	}
}

/* "npm:name@1.0 downloaded". A wrong hash is an alarm. */
static void title_package(struct timeline_head *h, struct json_value p)
{
	char result[VALUE_MAX], name[VALUE_MAX];

	net_text(p, "name", name);
	net_text(p, "result", result);
	title_net(h, p, "ecosystem", "");
	title_net(h, p, name[0] == '\0' ? "file" : "name", ":");
	title_net(h, p, "version", "@");
	title_net(h, p, "result", " ");
	if (strcmp(result, "hash_mismatch") == 0)
		h->severity = alarm_word;
}

/* The title's middle part, by the record's kind. */
static void of_record(const struct store_net *row, struct json_value v, struct timeline_head *h)
{
	if (h->kind == TIMELINE_PACKAGE) {
		title_package(h, json_read_member(v, "package"));
	} else if (strcmp(row->kind, "request") == 0) {
		title_request(h, v);
	} else if (h->kind == TIMELINE_DNS) {
		title_net(h, v, "type", "");
		title_text(h, " ");
		title_net(h, v, "name", "");
	} else {
		title_text(h, row->kind);
		title_text(h, " ");
		title_place(h, v);
	}
}

/* As `cordon net` names them: "fail" was allowed, but it could not be done. A hidden version was
 * not refused: the client got an answer without it. */
static const char *net_outcome(const struct store_net *row, struct json_value v)
{
	struct json_value package = json_read_member(v, "package");

	if (!row->allowed)
		return "deny";
	if (json_read_is(json_read_member(package, "result"), "hidden"))
		return "allow";
	return json_read_member(v, "reason").n > 2 ? "fail" : "allow";
}

static void net_write_text(struct json *j, const char *name, struct json_value v)
{
	char text[VALUE_MAX];

	net_text(v, name, text);
	if (text[0] != '\0')
		json_text(j, name, text);
}

/* The entry's time is the record's end: its start plus its duration. */
uint64_t timeline_write_net(const struct store_net *row, struct json *j)
{
	size_t len = strlen(row->data);
	struct json_value v = { 0 };
	struct timeline_head h = { .kind = timeline_kind_of_net(row->kind),
				   .type = row->kind,
				   .execution = row->execution,
				   .list = "network",
				   .seq = row->seq };
	const char *outcome;
	struct err e;

	if (len > TIMELINE_DETAIL_MAX || json_read(row->data, len, 16, &v, &e) < 0)
		v = (struct json_value){ 0 };
	outcome = net_outcome(row, v);
	h.severity = outcome[0] == 'a' ? info : warning;
	h.has_duration = json_read_member(v, "us").n > 0;
	h.duration_ms = net_number(v, "us") / 1000;
	h.time_ms = row->time_ms + h.duration_ms;
	if (outcome[0] != 'a') {
		title_text(&h, outcome[0] == 'd' ? "refused: " : "failed: ");
	}
	if (v.kind == JSON_READ_NONE)
		title_text(&h, row->name);
	else
		of_record(row, v, &h);
	title_net(&h, v, "reason", ": ");
	head_write(&h, j);
	json_open(j, "data", '{');
	json_text(j, "verdict", outcome);
	json_text(j, "name", row->name);
	net_write_text(j, "method", v);
	net_write_text(j, "rule", v);
	net_write_text(j, "reason", v);
	if (net_number(v, "status") != 0)
		json_uint(j, "status", net_number(v, "status"));
	json_uint(j, "bytes_in", net_number(v, "bytes_in"));
	json_uint(j, "bytes_out", net_number(v, "bytes_out"));
	json_close(j, '}');
	return h.time_ms;
}

/* ---- points of the resource history
 *
 * Each point is an entry with the sums up to its time. */

uint64_t timeline_write_sample(const struct store_sample *row, struct json *j)
{
	struct timeline_head h = { .time_ms = row->time_ms,
				   .duration_ms = row->span_ms,
				   .has_duration = true,
				   .kind = TIMELINE_RESOURCE,
				   .type = "resource",
				   .severity = info,
				   .execution = "",
				   .list = "resources",
				   .seq = row->seq };

	title_text(&h, "memory ");
	title_bytes(&h, row->memory_bytes);
	title_text(&h, ", disk ");
	title_bytes(&h, row->disk_bytes);
	title_text(&h, ", ");
	title_number(&h, row->pids);
	title_text(&h, row->pids == 1 ? " process, " : " processes, ");
	title_number(&h, row->cpu_us / 1000);
	title_text(&h, " ms of processor time since the start");
	head_write(&h, j);
	api_resources_show(j, "data", row);
	return h.time_ms;
}
