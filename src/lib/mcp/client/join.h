/* join.h - several MCP servers as one: their tools in one list, each named SERVER__TOOL, and the
 * results of calls as they are passed on. Pure. Called by mcp-gateway and by cordond's endpoint of
 * a session. */
#pragma once

#include "lib/json/json.h"
#include "lib/mcp/client/peer.h"

#define JOIN_SEPARATOR "__"
#define JOIN_SERVER_MAX 40 /* characters of a server's name */

/* Letters, digits, '-' and single '_', 1 to JOIN_SERVER_MAX of them, beginning and ending with a
 * letter or digit: so that the first "__" of a joined name ends the server's. */
bool join_server_name_is_valid(const char *name, size_t n);

/* Divide a joined name. false: it has no separator, or one of both parts is not valid. *ret_server
 * characters belong to the server, the tool begins at *ret_tool. */
bool join_split(const char *name, size_t n, size_t *ret_server, size_t *ret_tool);

/* One element of the answer to tools/list. server NULL: the name is not joined. A joined name that
 * would be longer than TOOL_NAME_MAX is left out: false. */
bool join_write_tool(struct json *j, const char *server, const struct listed_tool *t);

/* Write the members of a server's result into the open object, without resultType and _meta, which
 * the caller writes. A name that comes again, is longer than 63 bytes or has an escape is left out:
 * readers would not agree on its value. So are members after the first JOIN_RESULT_MEMBERS. The
 * output is one line. */
#define JOIN_RESULT_MEMBERS 32
void join_write_result(struct json *j, struct json_value result);
