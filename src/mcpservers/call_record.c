#include "call_record.h"

#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "event_log.h"
#include "log.h"
#include "tool_list.h"

/* What is not a valid name of a tool is recorded as "?". */
static void copy_name(struct json_span name, char *ret, size_t cap)
{
	if (name.p != NULL && tool_name_is_valid(name.p, name.n) && name.n < cap)
		(void)snprintf(ret, cap, "%.*s", (int)name.n, name.p);
	else
		(void)snprintf(ret, cap, "?");
}

void call_record_begin(struct call_record *c, const struct mcp_request *q)
{
	struct err e;

	*c = (struct call_record){ .began_ns = clock_now_ns() };
	copy_name(q->name, c->tool, sizeof(c->tool));
	if (q->arguments != NULL && mcp_digest(q->arguments, c->digest, &e) < 0)
		c->digest[0] = '\0';
}

void call_record_write(const struct call_record *c, struct request *r, const struct mcp_request *q)
{
	unsigned long long ms = (clock_now_ns() - c->began_ns) / CLOCK_MS;
	struct err e;

	if (event_log_append(r->core, request_actor(r), tenant_row(r->tenant)->id, r->session_id,
			     "", "mcp.call", &e,
			     "server\t%s\nera\t%s\nmethod\ttools/call\ntool\t%s\narguments\t%s\n"
			     "verdict\t%s\nrule\t%s\nis_error\t%s\nbytes\t%llu\nms\t%llu\n",
			     c->server, q->version, c->tool, c->digest,
			     c->allowed ? "allow" : "deny", c->rule, c->is_error ? "true" : "false",
			     (unsigned long long)c->bytes, ms) < 0)
		log_error("the record of an MCP call could not be written", "session_id=%s why=%s",
			  r->session_id, e.msg);
}
