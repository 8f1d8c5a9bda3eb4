/* resource_uri.h - URIs of what sessions have:
 *
 *	cordon://sessions/{id}				its state
 *	cordon://sessions/{id}/files/{+path}		a file; absolute, without its first slash
 *	cordon://sessions/{id}/executions/{id}/output	what an execution wrote
 *	cordon://sessions/{id}/changes			files that it changed
 *
 * Pure. */
#pragma once

#include "json_tree.h"
#include "request.h"

#define RESOURCE_URI_MAX 16384

enum resource_kind {
	RESOURCE_NONE,
	RESOURCE_SESSION,
	RESOURCE_FILE,
	RESOURCE_OUTPUT,
	RESOURCE_CHANGES
};

struct resource_uri {
	enum resource_kind kind;
	char session[REQUEST_ID_MAX], execution[REQUEST_ID_MAX];
	char path[4096];
};

/* RESOURCE_NONE: it is no such URI. */
void resource_uri_read(struct json_span uri, struct resource_uri *ret);
/* False: the path is too long, or not absolute. */
bool resource_uri_file(const char *session, const char *path, char ret[RESOURCE_URI_MAX]);
