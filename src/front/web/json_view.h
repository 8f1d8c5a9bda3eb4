/* json_view.h - the core's objects as JSON: one function for each kind, used wherever it is
 * shown. */
#pragma once

#include "daemon/execution/execution.h"
#include "daemon/session/session.h"
#include "daemon/session/session_capture.h"
#include "daemon/store/store_event.h"
#include "daemon/store/store_package.h"
#include "lib/json/json.h"
#include "lib/wire/file_msg.h"

/* Milliseconds since 1970 as "2026-11-15T08:00:00.123Z". 0 is null. */
void json_view_time(struct json *j, const char *name, uint64_t ms);

/* The cursor of the next page: after last, or null. */
void json_view_next(struct json *j, bool more, uint64_t last);

/* live is NULL for an ended session. look: read its cell's use now. Otherwise show the last saved
 * numbers, because reading would take too long. urls: see port_url_list(). */
void json_view_session(struct json *j, const char *name, const struct store_session *row,
		       struct session *live, bool look, bool urls);
/* Does an MCP server of another session run in it? */
bool json_view_is_mcp_server(const struct store_session *row);
/* The text of a row's mounts, as the member `mounts`. */
void json_view_mounts(struct json *j, const char *text);
/* Lines "word\ttext", as an object. */
void json_view_lines(struct json *j, const char *name, const char *lines);
/* Lines of redact.h, as the member `redact`. */
void json_view_redact(struct json *j, const char *lines);
void json_view_limits(struct json *j, const char *name, const struct cell_limits *l);

/* The exit code of an ended execution, as cordon run gives it. */
int json_view_exit_code(const struct store_execution *row);
/* x is NULL if the execution is not live. Leave the object open for more members. */
void json_view_execution_open(struct json *j, const char *name, const struct store_execution *row,
			      const struct execution *x);
void json_view_execution(struct json *j, const char *name, const struct store_execution *row,
			 const struct execution *x);

/* The execution that a reader follows, as it is now. */
struct log_reader;
typedef void json_view_more_fn(struct core *c, const struct store_execution *row, struct json *j);
int json_view_reader(struct json *j, const char *name, struct log_reader *rd,
		     json_view_more_fn *more, struct err *e) MUST_USE;

void json_view_entry(struct json *j, const char *name, const struct file_msg_entry *f);
void json_view_event(struct json *j, const char *name, const struct store_event *v);
/* The member secrets_in_files, if there is anything in it. */
void json_view_secrets_found(struct json *j, const struct session_capture_found *f);
/* The data of an event alone. */
void json_view_event_data(struct json *j, const char *name, const char *data);
/* A package of a session. */
void json_view_package(struct json *j, const char *name, const struct store_package *row);
/* An entry of a trace. */
struct trace_row;
void json_view_trace(struct json *j, const char *name, const struct trace_row *row);
