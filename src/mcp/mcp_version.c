#include "mcp_version.h"

#include <string.h>

#define REQUESTED_MAX 64 /* characters of an unknown version that are sent back */

static const char *const legacy[] = { MCP_VERSION_LEGACY, "2025-06-18", "2025-03-26" };

bool mcp_version_is_legacy(struct json_span version)
{
	for (size_t i = 0; i < COUNT(legacy); i++) {
		if (json_span_is(version, legacy[i]))
			return true;
	}
	return false;
}

void mcp_version_copy(struct json_span version, char ret[MCP_VERSION_MAX])
{
	size_t n = version.p == NULL ? 0 : version.n;

	n = n < MCP_VERSION_MAX ? n : MCP_VERSION_MAX - 1;
	if (n > 0)
		memcpy(ret, version.p, n);
	ret[n] = '\0';
}

void mcp_version_answer(struct json_span asked, char ret[MCP_VERSION_MAX])
{
	const struct json_span newest = { MCP_VERSION_LEGACY, sizeof(MCP_VERSION_LEGACY) - 1 };

	mcp_version_copy(mcp_version_is_legacy(asked) ? asked : newest, ret);
}

int mcp_version_refuse(struct json_span asked, struct mcp_fault *f)
{
	size_t n = asked.n < REQUESTED_MAX ? asked.n : REQUESTED_MAX;
	struct json j;

	(void)mcp_fault_set(f, MCP_UNSUPPORTED_VERSION,
			    "this version of the protocol is not supported");
	json_init(&j, f->data, sizeof(f->data));
	json_open(&j, NULL, '{');
	json_open(&j, "supported", '[');
	json_text(&j, NULL, MCP_VERSION);
	json_close(&j, ']');
	json_bytes(&j, "requested", asked.p, n);
	json_close(&j, '}');
	return -1;
}
