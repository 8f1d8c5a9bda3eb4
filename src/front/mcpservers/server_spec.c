#include "front/mcpservers/server_spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/web/spec_session.h"

#define DEPTH_MAX 32

/* Members of a server that a session does not have. */
static const char *const own[] = { "command", "cwd", "tools", "pin" };

/* ---- the request
 *
 * Every server is checked in full before a session is made for any of them. */

/* A text is run by a shell, an array as it is. */
static int check_command(json_t *command, struct err *e)
{
	json_t *word;
	size_t i;

	if (json_is_string(command) && json_string_length(command) > 0)
		return 0;
	if (!json_is_array(command) || json_array_size(command) == 0)
		return err_set(e, ERR_INVALID, "command: must be a text or an array of texts");
	json_array_foreach(command, i, word)
	{
		if (!json_is_string(word))
			return err_set(e, ERR_INVALID, "command: must have texts only");
	}
	return 0;
}

/* Read by the function that reads the row later. */
static int check_tools(json_t *tools, struct err *e)
{
	char *text = json_dumps(tools, JSON_COMPACT);
	struct tool_policy policy;
	struct json_value v;
	int checked = -1;

	if (text == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	if (json_read(text, strlen(text), DEPTH_MAX, &v, e) == 0)
		checked = tool_policy_read(v, &policy, e);
	free(text);
	return checked;
}

static int check_shape(const char *name, json_t *server, struct err *e)
{
	if (!join_server_name_is_valid(name, strlen(name)))
		return err_set(e, ERR_INVALID,
			       "a name must be 1 to %u letters, digits, '-' and single '_'",
			       JOIN_SERVER_MAX);
	if (!json_is_object(server))
		return err_set(e, ERR_INVALID, "must be an object");
	if (json_object_get(server, "mcp") != NULL)
		return err_set(e, ERR_INVALID, "mcp: a server has no servers of its own");
	return 0;
}

static int check_own(json_t *server, struct err *e)
{
	json_t *tools = json_object_get(server, "tools"), *pin = json_object_get(server, "pin");
	json_t *cwd = json_object_get(server, "cwd");

	if (check_command(json_object_get(server, "command"), e) < 0 ||
	    (tools != NULL && check_tools(tools, e) < 0))
		return -1;
	if (cwd != NULL && !json_is_string(cwd))
		return err_set(e, ERR_INVALID, "cwd: must be a text");
	if (pin != NULL &&
	    (!json_is_string(pin) || (strcmp(json_string_value(pin), "warn") != 0 &&
				      strcmp(json_string_value(pin), "strict") != 0)))
		return err_set(e, ERR_INVALID, "pin: must be warn or strict");
	return 0;
}

/* The server without its own members. NULL: out of memory. */
static char *write_body(json_t *server)
{
	json_t *copy = json_copy(server);
	char *text;

	for (size_t i = 0; copy != NULL && i < COUNT(own); i++)
		IGNORED(json_object_del(copy, own[i]), "it is not there");
	text = copy == NULL ? NULL : json_dumps(copy, JSON_COMPACT);
	json_decref(copy);
	return text;
}

/* Check the members that any session may have. They come before the server's own members: a missing
 * command is most likely there under another name. */
static int check_session(json_t *server, struct err *e)
{
	OWN_MEM char *body = write_body(server);
	struct spec_session spec = { 0 };
	int checked;

	if (body == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	checked = spec_session_read(body, strlen(body), &spec, e);
	spec_session_release(&spec);
	return checked;
}

/* *ret_text is the caller's to free, also on failure. */
int server_spec_check(json_t *mcp, char **ret_text, struct err *e)
{
	json_t *servers = json_object_get(mcp, "servers"), *server, *root;
	const char *name;

	*ret_text = NULL;
	if (!json_is_object(servers) || json_object_size(mcp) != 1)
		return err_set(e, ERR_INVALID, "mcp: has one member, servers, an object");
	if (json_object_size(servers) == 0 || json_object_size(servers) > SERVER_SPEC_MAX)
		return err_set(e, ERR_INVALID, "mcp.servers: must have 1 to %u", SERVER_SPEC_MAX);
	json_object_foreach(servers, name, server)
	{
		if (check_shape(name, server, e) < 0 || check_session(server, e) < 0 ||
		    check_own(server, e) < 0) {
			(void)err_wrap(e, "mcp.servers.%.40s", name);
			err_sanitize(e);
			return -1;
		}
	}
	root = json_pack("{s:O}", "mcp", mcp);
	*ret_text = root == NULL ? NULL : json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(root);
	if (*ret_text == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	if (strlen(*ret_text) > SERVER_SPEC_TEXT_MAX)
		return err_set(e, ERR_INVALID, "mcp: has more than %u bytes", SERVER_SPEC_TEXT_MAX);
	return 0;
}

/* The beginning is compared first, so rows of other sessions are not parsed. */
json_t *server_spec_servers(const char *client)
{
	json_t *root, *servers;

	if (client == NULL || strncmp(client, "{\"mcp\":{", 8) != 0)
		return NULL;
	root = json_loads(client, 0, NULL);
	servers = json_object_get(json_object_get(root, "mcp"), "servers");
	json_incref(servers);
	json_decref(root);
	return servers;
}

/* ---- a session for a server
 *
 * The session's row says whose server it is, so that another daemon can adopt it. */

static char *write_client(const char *owner, const char *name, json_t *server)
{
	json_t *run = json_pack("{s:O}", "command", json_object_get(server, "command"));
	/* public_traffic: its ports are for no client without a token
	 * (front/e2b/control/sandbox.c). */
	json_t *root = json_pack("{s:{s:s,s:s},s:{s:o},s:b}", "mcp_server", "session", owner,
				 "name", name, "gateway", name, run, "public_traffic", 0);
	json_t *tools = json_object_get(server, "tools"), *pin = json_object_get(server, "pin");
	char *text = NULL;

	if (root != NULL &&
	    (json_object_get(server, "cwd") == NULL ||
	     json_object_set(run, "cwd", json_object_get(server, "cwd")) == 0) &&
	    (tools == NULL || json_object_set(root, "tools", tools) == 0) &&
	    (pin == NULL || json_object_set(root, "pin", pin) == 0))
		text = json_dumps(root, JSON_COMPACT);
	json_decref(root);
	return text;
}

int server_spec_session(const char *owner, const char *name, json_t *server, char **ret_body,
			char **ret_client, struct err *e)
{
	*ret_body = write_body(server);
	*ret_client = write_client(owner, name, server);
	if (*ret_body != NULL && *ret_client != NULL)
		return 0;
	return err_set(e, ERR_SYSTEM, "out of memory");
}

/* ---- from the row of such a session
 *
 * The text was written by write_client(). A text in another form is refused as a whole. */

/* Texts with escapes are refused: ids and names have none. */
static bool copy_text(struct json_value v, char *ret, size_t cap)
{
	if (v.kind != JSON_READ_TEXT || v.n - 2 >= cap || memchr(v.p, '\\', v.n) != NULL)
		return false;
	memcpy(ret, v.p + 1, v.n - 2);
	ret[v.n - 2] = '\0';
	return true;
}

static bool read_owner(const char *client, struct json_value *ret, char *ret_owner, char *ret_name)
{
	struct json_value it;
	struct err e;

	if (client == NULL || strncmp(client, "{\"mcp_server\":", 14) != 0 ||
	    json_read(client, strlen(client), DEPTH_MAX, ret, &e) < 0)
		return false;
	it = json_read_member(*ret, "mcp_server");
	return copy_text(json_read_member(it, "session"), ret_owner, STORE_ID_MAX) &&
	       copy_text(json_read_member(it, "name"), ret_name, JOIN_SERVER_MAX + 1);
}

bool server_spec_read(const char *client, struct server_spec *ret)
{
	struct json_value all, gateway;
	struct err e;

	*ret = (struct server_spec){ 0 };
	if (!read_owner(client, &all, ret->owner, ret->name))
		return false;
	gateway = json_read_member(all, "gateway");
	if (gateway.kind != JSON_READ_OBJECT ||
	    tool_policy_read(json_read_member(all, "tools"), &ret->policy, &e) < 0)
		return false;
	ret->strict = json_read_is(json_read_member(all, "pin"), "strict");
	ret->gateway = strndup(gateway.p, gateway.n);
	return ret->gateway != NULL;
}
