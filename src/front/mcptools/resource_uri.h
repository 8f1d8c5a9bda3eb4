/* resource_uri.h - URIs of the contents of sessions:
 *
 *	cordon://sessions/{id}				its state
 *	cordon://sessions/{id}/files/{+path}		a file, without its first slash
 *	cordon://sessions/{id}/executions/{id}/output	an execution's output
 *	cordon://sessions/{id}/changes			files that it changed
 *
 * Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "front/web/request.h"
#include "lib/json/json_tree.h"

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

/* ---- kinds of files
 *
 * What the first bytes of a file tell about it. Pure. */

/* "image/png", jpeg, gif or webp. NULL: none of them. */
const char *file_kind_image(const uint8_t *bytes, size_t n);
/* Is it no text? A NUL, or many bytes other than UTF-8. */
bool file_kind_is_binary(const uint8_t *bytes, size_t n);
