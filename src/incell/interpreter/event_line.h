/* event_line.h - the lines of an answer to POST /execute: JSON in ASCII, each with its newline,
 * never an empty one. Pure but for the time of day. */
#pragma once

#include "lib/base/buf.h"
#include "lib/json/json_read.h"

void event_line_count(struct buf *b, uint64_t count);
/* stream: "stdout" or "stderr". */
void event_line_output(struct buf *b, const char *stream, struct json_value text);
/* Replace the name of the file that lines begin with, in place. Return the new length. */
size_t event_line_rename(uint8_t *bytes, size_t n, const char *file, const char *shown);
void event_line_bytes(struct buf *b, const char *stream, const void *bytes, size_t n);
/* Members of the interface only. A text loses the quotes around it. */
void event_line_result(struct buf *b, struct json_value result);
void event_line_error(struct buf *b, struct json_value error);
void event_line_failure(struct buf *b, const char *name, const char *value, const char *traceback);
void event_line_keepalive(struct buf *b);
void event_line_end(struct buf *b);
