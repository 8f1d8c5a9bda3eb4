/* ascii_json.h - JSON in ASCII and on one line: clients of E2B decode each piece of a stream on its
 * own, so a character must not be divided between two, and a line break ends a message. Pure. */
#pragma once

#include "lib/base/buf.h"
#include "lib/json/json_read.h"

/* Add a value of a checked text: other characters than ASCII become escapes, white space between
 * values becomes spaces. */
void ascii_json_value(struct buf *b, struct json_value v);
/* Add a program's bytes as a text with its quotes. Bytes outside UTF-8 become U+FFFD. */
void ascii_json_bytes(struct buf *b, const void *bytes, size_t n);
void ascii_json_text(struct buf *b, const char *text);

/* As above, without one pair of quotes, ' or ", around the text: 'a' is a. */
void ascii_json_unquoted(struct buf *b, struct json_value v);
