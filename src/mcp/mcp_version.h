/* mcp_version.h - which revisions are known. For src/mcp only. */
#pragma once

#include "mcp.h"

bool mcp_version_is_legacy(struct json_span version);
/* The version that initialize is answered with: the client's if it is one of ours. */
void mcp_version_answer(struct json_span asked, char ret[MCP_VERSION_MAX]);
void mcp_version_copy(struct json_span version, char ret[MCP_VERSION_MAX]);
/* -32022 with data.supported and data.requested. */
int mcp_version_refuse(struct json_span asked, struct mcp_fault *f);
