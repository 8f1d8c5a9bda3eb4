/* part_head.h - the headers of a part of a form: which field it is, and which file. Pure. */
#pragma once

#include "http1.h"

#define PART_HEAD_NAME_MAX 64
#define PART_HEAD_FILENAME_MAX 4096

struct part_head {
	char name[PART_HEAD_NAME_MAX];
	char filename[PART_HEAD_FILENAME_MAX];
	bool has_filename;
};

/* Lines, each with its CRLF. NULL, or why it is malformed: a constant. */
const char *part_head_read(struct part_head *ret, const char *bytes, size_t len) MUST_USE;

/* Takes "; name=value" from the front of a header's value: 1; 0 at its end; -1 if it is something
 * else. A quoted value comes with its escapes. */
int part_head_param(struct http1_span *s, struct http1_span *ret_name, struct http1_span *ret_value,
		    bool *ret_quoted) MUST_USE;
