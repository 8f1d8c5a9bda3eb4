#include <stdarg.h>
#include <string.h>

#include "endpoint_call.h"

#define LIST_MAX (4U << 20)
#define PAGE (512U << 10) /* of a list: no server is added after so many bytes */

void endpoint_on_room(struct request *r)
{
	struct call *c = r->state;

	if (!c->done || !sse_stream_ready(&c->stream))
		return;
	/* A copy: what was counted for the answer counts for it, until the end of the exchange. */
	sse_stream_event(&c->stream, NULL, NULL, c->answer.text, c->answer.len);
	json_release(&c->answer);
	sse_stream_end(&c->stream);
}

/* An answer that did not fit becomes a short one, which says so. */
static void check_answer(struct call *c)
{
	struct mcp_fault f = { 0 };

	if (json_ok(&c->answer))
		return;
	c->record.is_error = true;
	IGNORED(mcp_fault_set(&f, MCP_INTERNAL_ERROR, "the answer is too long"), "sent");
	endpoint_begin(c, 65536);
	mcp_write_error(&c->answer, &c->q, &f);
	c->status = mcp_fault_status(&c->q, &f);
}

void endpoint_send(struct call *c)
{
	loop_timer_cancel(core_loop(c->r->core), &c->timer);
	c->done = true;
	check_answer(c);
	c->record.bytes = c->answer.len;
	if (c->counts)
		call_record_write(&c->record, c->r, &c->q);
	c->counts = false;
	if (c->streams) {
		endpoint_on_room(c->r);
		return;
	}
	if (!json_ok(&c->answer))
		exchange_reply(c->r->x, 500, NULL, "", 0);
	else
		exchange_reply(c->r->x, c->status == 0 ? 200 : c->status, "application/json",
			       c->answer.text, c->answer.len);
	json_release(&c->answer); /* the exchange has a copy, and counts it */
	endpoint_result_sent(c);
}

void endpoint_begin(struct call *c, size_t max)
{
	json_release(&c->answer);
	json_init_heap(&c->answer, max);
}

void endpoint_error(struct call *c, const char *fmt, ...)
{
	char text[4096];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	c->record.is_error = true;
	endpoint_begin(c, 65536);
	mcp_write_tool_error(&c->answer, &c->about, &c->q, text);
	endpoint_send(c);
}

void endpoint_fault(struct call *c, struct mcp_fault *f)
{
	c->record.is_error = true;
	endpoint_begin(c, 65536);
	mcp_write_error(&c->answer, &c->q, f);
	c->status = mcp_fault_status(&c->q, f);
	endpoint_send(c);
}

/* ---- tools/list */

static bool is_listed(const struct server_link *k, const char *tool)
{
	char rule[TOOL_POLICY_WORD_MAX];

	return tool_policy_allows(&k->spec.policy, tool, rule) &&
	       !(k->spec.strict && tool_pins_changed(&k->pins, tool));
}

static void write_tools(struct call *c, const struct server_link *k)
{
	for (size_t i = 0; i < k->peer.tools.n; i++) {
		const struct tool *t = &k->peer.tools.tools[i];

		if (is_listed(k, t->name))
			(void)join_write_tool(&c->answer, k->spec.name, t);
	}
}

/* A page ends with a server; the cursor is the name of the last one. */
static const struct server_link *first_of_page(struct call *c)
{
	struct server_link *k = servers_next(c->r->core, c->r->session_id, NULL);
	char after[JOIN_SERVER_MAX + 1];

	if (c->q.cursor.p == NULL || c->q.cursor.n >= sizeof(after))
		return k;
	(void)snprintf(after, sizeof(after), "%.*s", (int)c->q.cursor.n, c->q.cursor.p);
	while (k != NULL && strcmp(k->spec.name, after) <= 0)
		k = servers_next(c->r->core, c->r->session_id, k);
	return k;
}

void endpoint_list_tools(struct call *c)
{
	struct core *core = c->r->core;
	const char *id = c->r->session_id;
	const struct server_link *k = first_of_page(c), *last = NULL;

	endpoint_begin(c, LIST_MAX);
	mcp_write_result(&c->answer, &c->about, &c->q);
	mcp_write_cache(&c->answer, &c->q, 0, false);
	json_open(&c->answer, "tools", '[');
	for (; k != NULL && c->answer.len < PAGE; k = servers_next(core, id, k)) {
		last = k;
		write_tools(c, k);
	}
	json_close(&c->answer, ']');
	if (k != NULL && last != NULL)
		json_text(&c->answer, "nextCursor", last->spec.name);
	mcp_write_result_end(&c->answer);
	endpoint_send(c);
}
