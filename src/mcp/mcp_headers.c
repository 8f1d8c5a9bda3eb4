#include "mcp_headers.h"

#include <string.h>

#include "base64.h"
#include "mcp_method.h"
#include "mcp_version.h"

static bool accepts(const struct mcp_http *h, const char *type)
{
	bool any = false;

	for (size_t i = 0; i < h->headers_n; i++) {
		struct http1_span v = h->headers[i].value;

		if (!http1_span_is_nocase(h->headers[i].name, "accept"))
			continue;
		any = true;
		while (v.n > 0) {
			const char *comma = memchr(v.p, ',', v.n);
			size_t n = comma == NULL ? v.n : (size_t)(comma - v.p);
			struct http1_span item = { v.p, n };

			while (item.n > 0 && (item.p[0] == ' ' || item.p[0] == '\t'))
				item.p++, item.n--;
			item = http1_media_type(item);
			if (http1_span_is_nocase(item, type) || http1_span_is(item, "*/*"))
				return true;
			v.p += n + (comma != NULL);
			v.n -= n + (comma != NULL);
		}
	}
	return !any;
}

int mcp_headers_check_media(const struct mcp_http *h, struct mcp_request *r, struct mcp_fault *f)
{
	struct http1_span type;

	if (h->method != HTTP1_POST)
		return mcp_fault_http(f, 405, 0, "only POST is supported");
	if (http1_find(h->headers, h->headers_n, "content-type", &type) != 1 ||
	    !http1_span_is_nocase(http1_media_type(type), "application/json"))
		return mcp_fault_http(f, 415, MCP_INVALID_REQUEST,
				      "Content-Type must be application/json");
	r->accepts_json = accepts(h, "application/json");
	r->accepts_sse = accepts(h, "text/event-stream");
	if (!r->accepts_json && !r->accepts_sse)
		return mcp_fault_http(f, 406, MCP_INVALID_REQUEST,
				      "Accept must list application/json and text/event-stream");
	return 0;
}

enum mcp_era mcp_headers_era(const struct mcp_http *h, char ret_version[MCP_VERSION_MAX])
{
	struct json_span oldest = { "2025-03-26", 10 }, version;
	struct http1_span value;

	if (http1_find(h->headers, h->headers_n, "mcp-protocol-version", &value) == 0) {
		mcp_version_copy(oldest, ret_version);
		return MCP_LEGACY;
	}
	version = (struct json_span){ value.p, value.n };
	mcp_version_copy(version, ret_version);
	return mcp_version_is_legacy(version) ? MCP_LEGACY : MCP_MODERN;
}

bool mcp_header_is(struct http1_span value, struct json_span text)
{
	static const char open[] = "=?base64?", close[] = "?=";
	const size_t head = sizeof(open) - 1, tail = sizeof(close) - 1;
	uint8_t bytes[BASE64_BYTES(BASE64_LENGTH((size_t)MCP_NAME_MAX))];
	size_t inner;
	ssize_t n;

	if (text.p == NULL)
		return false;
	if (value.n < head + tail || memcmp(value.p, open, head) != 0 ||
	    memcmp(value.p + value.n - tail, close, tail) != 0)
		return value.n == text.n && memcmp(value.p, text.p, text.n) == 0;
	inner = value.n - head - tail;
	if (inner > BASE64_LENGTH((size_t)MCP_NAME_MAX))
		return false;
	n = base64_decode(value.p + head, inner, bytes);
	return n >= 0 && (size_t)n == text.n && memcmp(bytes, text.p, text.n) == 0;
}

/* A header that must be there once, and be equal to a part of the body. */
static int check(const struct mcp_http *h, const char *name, struct json_span text,
		 struct mcp_fault *f)
{
	struct http1_span value;
	size_t n = http1_find(h->headers, h->headers_n, name, &value);

	if (n == 0)
		return mcp_fault_set(f, MCP_HEADER_MISMATCH, "the header %s is missing", name);
	if (n > 1 || !mcp_header_is(value, text))
		return mcp_fault_set(f, MCP_HEADER_MISMATCH, "the header %s differs from the body",
				     name);
	return 0;
}

int mcp_headers_check_version(const struct mcp_http *h, struct json_span in_body,
			      struct mcp_fault *f)
{
	return check(h, "MCP-Protocol-Version", in_body, f);
}

int mcp_headers_check_names(const struct mcp_http *h, const struct mcp_request *r,
			    struct mcp_fault *f)
{
	const struct mcp_method_row *row = mcp_method_row(r->method);

	if (check(h, "Mcp-Method", r->method_name, f) < 0)
		return -1;
	if (row == NULL || row->name_member == NULL || !row->modern)
		return 0;
	return check(h, "Mcp-Name", r->name, f);
}
