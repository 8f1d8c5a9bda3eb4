/* post_head.h - the head of POST /files: one file or a form, compressed or not, and the metadata to
 * be kept with each file. Pure. */
#pragma once

#include "err.h"
#include "file_meta.h"
#include "http1.h"

#define POST_HEAD_META_MAX (2 * FILE_META_PACKED_MAX)

struct post_head {
	bool is_form;		       /* else the body is the file */
	bool gzip;		       /* the body is packed */
	struct http1_span type;	       /* Content-Type; borrowed from the request */
	char meta[POST_HEAD_META_MAX]; /* "key=value" and a newline for each X-Metadata-Key */
};

/* ERR_INVALID: it has something that is not supported. */
int post_head_read(const struct http1_request *q, struct post_head *ret, struct err *e) MUST_USE;
