#include "lib/mcp/server/mcp_write.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The id goes back as it came. An error without a readable id has null in the legacy era, and no
 * member in the modern one. */
static void write_id(struct json *j, const struct mcp_request *r)
{
	if (r->id.p != NULL)
		json_raw_bytes(j, "id", r->id.p, r->id.n);
	else if (r->era == MCP_LEGACY)
		json_none(j, "id");
}

static void write_message_head(struct json *j)
{
	json_open(j, NULL, '{');
	json_text(j, "jsonrpc", "2.0");
}

void mcp_write_server_info(struct json *j, const char *name, const struct mcp_server *s)
{
	json_open(j, name, '{');
	json_text(j, "name", s->name);
	if (s->title != NULL)
		json_text(j, "title", s->title);
	json_text(j, "version", s->version);
	json_close(j, '}');
}

void mcp_write_result_of(struct json *j, const struct mcp_server *s, const struct mcp_request *r,
			 const char *type)
{
	write_message_head(j);
	write_id(j, r);
	json_open(j, "result", '{');
	if (r->era == MCP_LEGACY)
		return;
	json_text(j, "resultType", type);
	json_open(j, "_meta", '{');
	mcp_write_server_info(j, MCP_META "serverInfo", s);
	if (r->method == MCP_LISTEN)
		json_raw_bytes(j, MCP_META "subscriptionId", r->id.p, r->id.n);
	json_close(j, '}');
}

void mcp_write_result(struct json *j, const struct mcp_server *s, const struct mcp_request *r)
{
	mcp_write_result_of(j, s, r, "complete");
}

void mcp_write_result_end(struct json *j)
{
	json_close(j, '}');
	json_close(j, '}');
}

void mcp_write_cache(struct json *j, const struct mcp_request *r, uint64_t ttl_ms, bool is_public)
{
	if (r->era == MCP_LEGACY)
		return;
	json_uint(j, "ttlMs", ttl_ms);
	json_text(j, "cacheScope", is_public ? "public" : "private");
}

void mcp_write_empty(struct json *j, const struct mcp_server *s, const struct mcp_request *r)
{
	mcp_write_result(j, s, r);
	mcp_write_result_end(j);
}

void mcp_write_error(struct json *j, const struct mcp_request *r, const struct mcp_fault *f)
{
	write_message_head(j);
	write_id(j, r);
	json_open(j, "error", '{');
	json_int(j, "code", f->code);
	json_text(j, "message", f->message);
	if (f->data[0] != '\0')
		json_raw(j, "data", f->data);
	json_close(j, '}');
	json_close(j, '}');
}

/* Faults of the envelope keep their own status in both eras. */
int mcp_fault_status(const struct mcp_request *r, const struct mcp_fault *f)
{
	bool of_method = f->code == MCP_METHOD_NOT_FOUND || f->code == MCP_INVALID_PARAMS ||
			 f->code == MCP_INTERNAL_ERROR;

	return r->era == MCP_LEGACY && r->id.p != NULL && of_method ? 200 : f->status;
}

void mcp_write_text(struct json *j, const char *text, size_t n, bool for_model)
{
	json_open(j, NULL, '{');
	json_text(j, "type", "text");
	json_bytes(j, "text", text, n);
	if (for_model) {
		json_open(j, "annotations", '{');
		json_open(j, "audience", '[');
		json_text(j, NULL, "assistant");
		json_close(j, ']');
		json_close(j, '}');
	}
	json_close(j, '}');
}

void mcp_write_tool_error(struct json *j, const struct mcp_server *s, const struct mcp_request *r,
			  const char *text)
{
	mcp_write_result(j, s, r);
	json_open(j, "content", '[');
	mcp_write_text(j, text, strlen(text), false);
	json_close(j, ']');
	json_bool(j, "isError", true);
	mcp_write_result_end(j);
}

/* JSON has no infinite numbers: 0 stands for them. */
static void write_number(struct json *j, const char *name, double value)
{
	char digits[40];

	if (!isfinite(value))
		value = 0;
	(void)snprintf(digits, sizeof(digits), "%.15g", value);
	json_raw(j, name, digits);
}

static void write_open_notification(struct json *j, const char *method)
{
	write_message_head(j);
	json_text(j, "method", method);
	json_open(j, "params", '{');
}

static void write_close_notification(struct json *j)
{
	json_close(j, '}');
	json_close(j, '}');
}

bool mcp_write_progress(struct json *j, const struct mcp_request *r, double progress, double total,
			const char *message)
{
	if (r->progress_token.p == NULL)
		return false;
	write_open_notification(j, "notifications/progress");
	json_raw_bytes(j, "progressToken", r->progress_token.p, r->progress_token.n);
	write_number(j, "progress", progress);
	if (total >= 0)
		write_number(j, "total", total);
	if (message != NULL)
		json_text(j, "message", message);
	write_close_notification(j);
	return true;
}

bool mcp_write_message(struct json *j, const struct mcp_request *r, enum mcp_level level,
		       const char *logger, const char *data, enum mcp_level min_legacy)
{
	enum mcp_level min = r->era == MCP_LEGACY ? min_legacy : r->log_level;

	if (min == MCP_LEVEL_NONE || level < min)
		return false;
	write_open_notification(j, "notifications/message");
	json_text(j, "level", mcp_level_name(level));
	if (logger != NULL)
		json_text(j, "logger", logger);
	json_raw(j, "data", data);
	write_close_notification(j);
	return true;
}

void mcp_write_request(struct json *j, const char *id, const char *method, const char *params)
{
	write_message_head(j);
	json_text(j, "id", id);
	json_text(j, "method", method);
	json_raw(j, "params", params);
	json_close(j, '}');
}

/* A message has no newline inside, or the frame would end there. */
static int write_check_line(const char *message, size_t n, struct err *e)
{
	if (memchr(message, '\n', n) != NULL || memchr(message, '\r', n) != NULL)
		return err_set(e, ERR_INVALID, "an MCP message with a newline inside");
	return 0;
}

int mcp_frame_event(struct buf *out, const char *message, size_t n, struct err *e)
{
	static const char head[] = "event: message\ndata: ";

	if (write_check_line(message, n, e) < 0 || buf_add(out, head, sizeof(head) - 1, e) < 0 ||
	    buf_add(out, message, n, e) < 0)
		return -1;
	return buf_add(out, "\n\n", 2, e);
}

int mcp_frame_line(struct buf *out, const char *message, size_t n, struct err *e)
{
	if (write_check_line(message, n, e) < 0 || buf_add(out, message, n, e) < 0)
		return -1;
	return buf_add(out, "\n", 1, e);
}
