/* files_head.h - heads of /files. GET: the name of a download. POST: one file or a form, compressed
 * or not, and the metadata to be kept with each file. Pure. */
#pragma once

#include <stdbool.h>

#include "lib/base/err.h"
#include "lib/http/http1.h"
#include "lib/wire/file_meta.h"

#define POST_HEAD_META_MAX (2 * FILE_META_PACKED_MAX)

struct post_head {
	bool is_form;		       /* else the body is the file */
	bool gzip;		       /* the body is packed */
	struct http1_span type;	       /* Content-Type, borrowed from the request */
	char meta[POST_HEAD_META_MAX]; /* "key=value" and a newline for each X-Metadata-Key */
};

/* ERR_INVALID: an unsupported part. */
int post_head_read(const struct http1_request *q, struct post_head *ret, struct err *e) MUST_USE;

/* ---- Content-Disposition
 *
 * Content-Disposition and Content-Type of a file, by its name. Pure. */

#define DISPOSITION_MAX 1344

/* Write inline with filename="..." of the path's last part, and filename* unless it is plain ASCII.
 * Leave out a name that does not fit. */
void disposition_write(const char *path, char ret[DISPOSITION_MAX]);
/* The media type of its extension, application/octet-stream for an unknown one. */
const char *disposition_type(const char *path);
/* Can content of this type contain code that a browser runs? */
bool disposition_is_active(const char *type);
