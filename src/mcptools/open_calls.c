#include "open_calls.h"

#include <string.h>

#include "list.h"

static struct tool_call *calls;

void open_calls_add(struct tool_call *c)
{
	LIST_PUSH(&calls, c);
}

void open_calls_remove(struct tool_call *c)
{
	if (c->link != NULL)
		LIST_REMOVE(c);
}

static bool is_same_client(const struct tool_call *a, const struct tool_call *b)
{
	return a->r->tenant == b->r->tenant &&
	       strcmp(a->r->grant.key_id, b->r->grant.key_id) == 0 &&
	       strcmp(a->client, b->client) == 0 &&
	       memcmp(exchange_address(a->r->x), exchange_address(b->r->x), 16) == 0;
}

void open_calls_cancel(const struct tool_call *from)
{
	const struct json_node *id = json_tree_get(from->q.params, "requestId");
	struct tool_call *found = NULL;

	if (id == NULL)
		return;
	for (struct tool_call *c = calls; c != NULL; c = c->next) {
		if (c->done || c->q.id.n != id->raw.n ||
		    memcmp(c->q.id.p, id->raw.p, id->raw.n) != 0 || !is_same_client(c, from))
			continue;
		if (found != NULL)
			return;
		found = c;
	}
	if (found != NULL)
		tool_cancel(found);
}
