/* gateway_config.h - reads the argument of `mcp-gateway --config`: a JSON object with one member
 * for each MCP server. Pure. The text comes from the client that made the sandbox, by a command
 * line in the cell, and is not trusted beyond that.
 *
 * A server is given as {"command": "..."} or {"command": ["...", ...]}, or, as E2B's clients do,
 * by the name github/OWNER/REPO and {"runCmd": "...", "installCmd": "..."}. Each with "envs" (or
 * "env") and "cwd". Other names are those of E2B's catalogue, whose servers are container images:
 * they are refused. */
#pragma once

#include "lib/base/buf.h"
#include "lib/mcp/client/join.h"

#define GATEWAY_SERVERS_MAX 32
#define GATEWAY_CONFIG_MAX (256U << 10)

struct gateway_entry {
	char name[JOIN_SERVER_MAX + 1]; /* of its tools: github/OWNER/REPO becomes REPO */
	char repository[128];		/* OWNER/REPO, or "" */
	struct buf install, run;	/* shell commands. install may be empty */
	struct buf cwd;
	struct buf env; /* "K=V" strings, each with its NUL */
};

struct gateway_config {
	struct gateway_entry *entries; /* owned */
	size_t n;
};

/* The caller releases *ret in any case. */
int gateway_config_read(const char *text, size_t len, struct gateway_config *ret,
			struct err *e) MUST_USE;
void gateway_config_release(struct gateway_config *c);
