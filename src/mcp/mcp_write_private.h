/* mcp_write_private.h - parts of answers, for src/mcp only (and the fixture of its
 * tests). */
#pragma once

#include "mcp_write.h"

/* As mcp_write_result(), with another resultType; legacy clients get none. */
void mcp_write_result_of(struct json *j, const struct mcp_server *s, const struct mcp_request *r,
			 const char *type);
/* {"name":...,"version":...} */
void mcp_write_server_info(struct json *j, const char *name, const struct mcp_server *s);
