#include "lib/mcp/server/mcp_listen.h"

#include <string.h>

#include "lib/mcp/server/mcp_write.h"

/* On failure the caller releases the URIs read so far. */
static int listen_read_uris(struct mcp_listen *l, const struct json_node *list, struct mcp_fault *f)
{
	for (const struct json_node *t = json_tree_first(list); t != NULL;
	     t = json_tree_next(list, t)) {
		char *uri = t->kind == JSON_READ_TEXT && t->text.n <= MCP_NAME_MAX
				    ? json_span_dup(t->text)
				    : NULL;

		if (uri == NULL || l->uris_n == MCP_LISTEN_URIS) {
			free(uri);
			return mcp_fault_set(f, MCP_INVALID_PARAMS,
					     "resourceSubscriptions must be at most %d URIs of at "
					     "most %d bytes",
					     MCP_LISTEN_URIS, MCP_NAME_MAX);
		}
		l->uris[l->uris_n++] = uri;
	}
	return 0;
}

int mcp_listen_read(struct mcp_listen *l, const struct mcp_server *s, const struct mcp_request *r,
		    struct mcp_fault *f)
{
	const struct json_node *filter =
		json_tree_get_kind(r->params, "notifications", JSON_READ_OBJECT);
	const struct json_node *uris = json_tree_get(filter, "resourceSubscriptions");

	*l = (struct mcp_listen){ 0 };
	if (filter == NULL)
		return mcp_fault_set(f, MCP_INVALID_PARAMS, "notifications must be an object");
	if (uris != NULL && uris->kind != JSON_READ_ARRAY)
		return mcp_fault_set(f, MCP_INVALID_PARAMS,
				     "resourceSubscriptions must be an array");
	memcpy(l->id, r->id.p, r->id.n); /* at most MCP_ID_MAX */
	l->tools = s->tools_changed && json_tree_get_bool(filter, "toolsListChanged", false);
	l->prompts = s->prompts_changed && json_tree_get_bool(filter, "promptsListChanged", false);
	l->resources =
		s->resources_changed && json_tree_get_bool(filter, "resourcesListChanged", false);
	if (uris == NULL || !s->resources_subscribe)
		return 0;
	if (listen_read_uris(l, uris, f) == 0)
		return 0;
	mcp_listen_release(l);
	return -1;
}

void mcp_listen_release(struct mcp_listen *l)
{
	for (size_t i = 0; i < l->uris_n; i++)
		free(l->uris[i]);
	*l = (struct mcp_listen){ 0 };
}

/* Each message carries the id of its subscription, as one connection may have several. */
static void listen_open_notification(struct json *j, const struct mcp_listen *l, const char *method)
{
	json_open(j, NULL, '{');
	json_text(j, "jsonrpc", "2.0");
	json_text(j, "method", method);
	json_open(j, "params", '{');
	json_open(j, "_meta", '{');
	json_raw(j, MCP_META "subscriptionId", l->id);
	json_close(j, '}');
}

static void listen_close_notification(struct json *j)
{
	json_close(j, '}');
	json_close(j, '}');
}

void mcp_listen_write_ack(struct json *j, const struct mcp_listen *l)
{
	listen_open_notification(j, l, "notifications/subscriptions/acknowledged");
	json_open(j, "notifications", '{');
	if (l->tools)
		json_bool(j, "toolsListChanged", true);
	if (l->prompts)
		json_bool(j, "promptsListChanged", true);
	if (l->resources)
		json_bool(j, "resourcesListChanged", true);
	if (l->uris_n > 0)
		json_open(j, "resourceSubscriptions", '[');
	for (size_t i = 0; i < l->uris_n; i++)
		json_text(j, NULL, l->uris[i]);
	if (l->uris_n > 0)
		json_close(j, ']');
	json_close(j, '}');
	listen_close_notification(j);
}

bool mcp_listen_write_change(struct json *j, const struct mcp_listen *l, enum mcp_change what)
{
	static const char *const methods[] = {
		[MCP_TOOLS_CHANGED] = "notifications/tools/list_changed",
		[MCP_PROMPTS_CHANGED] = "notifications/prompts/list_changed",
		[MCP_RESOURCES_CHANGED] = "notifications/resources/list_changed",
	};
	const bool wanted[] = { [MCP_TOOLS_CHANGED] = l->tools,
				[MCP_PROMPTS_CHANGED] = l->prompts,
				[MCP_RESOURCES_CHANGED] = l->resources };

	if (!wanted[what])
		return false;
	listen_open_notification(j, l, methods[what]);
	listen_close_notification(j);
	return true;
}

void mcp_listen_write_end(struct json *j, const struct mcp_server *s, const struct mcp_request *r)
{
	mcp_write_empty(j, s, r);
}
