#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "mcp.h"

static int status_of(int code)
{
	if (code == MCP_METHOD_NOT_FOUND)
		return 404;
	return code == MCP_INTERNAL_ERROR ? 500 : 400;
}

static void PRINTF(4, 0)
	fill(struct mcp_fault *f, int status, int code, const char *fmt, va_list args)
{
	*f = (struct mcp_fault){ .status = status, .code = code };
	(void)vsnprintf(f->message, sizeof(f->message), fmt, args);
}

int mcp_fault_set(struct mcp_fault *f, enum mcp_code code, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	fill(f, status_of((int)code), (int)code, fmt, args);
	va_end(args);
	return -1;
}

int mcp_fault_http(struct mcp_fault *f, int status, int code, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	fill(f, status, code, fmt, args);
	va_end(args);
	return -1;
}

int mcp_fault_resource(struct mcp_fault *f, struct json_span uri)
{
	struct json j;

	(void)mcp_fault_set(f, MCP_INVALID_PARAMS, "no such resource");
	json_init(&j, f->data, sizeof(f->data));
	json_open(&j, NULL, '{');
	json_bytes(&j, "uri", uri.p, uri.p == NULL ? 0 : uri.n);
	json_close(&j, '}');
	if (!json_ok(&j))
		f->data[0] = '\0';
	return -1;
}

int mcp_fault_capability(struct mcp_fault *f, const char *name)
{
	struct json j;

	(void)mcp_fault_set(f, MCP_MISSING_CAPABILITY,
			    "this needs the client's capability %s, which it has not declared",
			    name);
	json_init(&j, f->data, sizeof(f->data));
	json_open(&j, NULL, '{');
	json_open(&j, "requiredCapabilities", '{');
	json_open(&j, name, '{');
	json_close(&j, '}');
	json_close(&j, '}');
	json_close(&j, '}');
	return -1;
}
