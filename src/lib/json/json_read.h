/* json_read.h - reads JSON without copying or allocating: values are spans of the text. Pure. For
 * programs without jansson. Used by src/incell/interpreter and src/lib/mcp/server.
 *
 * json_read() checks the whole text first (RFC 8259, strictly: UTF-8, no lone control bytes, a
 * bound for the depth). All other functions walk values of a checked text, so they cannot fail on
 * its form. Of members with the same name the first one counts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buf.h"

enum json_kind {
	JSON_READ_NONE, /* no such value */
	JSON_READ_OBJECT,
	JSON_READ_ARRAY,
	JSON_READ_TEXT,
	JSON_READ_NUMBER,
	JSON_READ_TRUE,
	JSON_READ_FALSE,
	JSON_READ_NULL
};

struct json_value {
	enum json_kind kind;
	const char *p; /* as it stands in the text, with quotes or brackets. Borrowed */
	size_t n;
};

/* Check the text and give its one value. ERR_INVALID says where it is wrong. */
int json_read(const char *text, size_t len, unsigned max_depth, struct json_value *ret,
	      struct err *e) MUST_USE;

/* The member of an object. JSON_READ_NONE if v is no object or has none of this name. The name is
 * plain ASCII without quotes and backslashes. */
struct json_value json_read_member(struct json_value v, const char *name);

/* Walk over an object or array: *at begins as NULL and is the walk's. False at the end. ret_name:
 * in an object, a text still quoted. In an array NONE. */
bool json_read_next(struct json_value v, const char **at, struct json_value *ret_name,
		    struct json_value *ret);

/* Walk over all values of a checked text, in the order in which they stand: *at begins at its
 * first byte. An object or array comes when it opens (n is 1), and as JSON_READ_NONE when it closes
 * (p is behind the bracket). Names of members come as texts. False at the end. */
bool json_read_step(const char **at, const char *end, struct json_value *ret);

/* Add the decoded text, in UTF-8, to the buffer. A surrogate without its other half becomes
 * U+FFFD. \u0000 becomes a NUL. ERR_INVALID if v is no text. Else fails as buf_add(). */
int json_read_text(struct json_value v, struct buf *ret, struct err *e) MUST_USE;
/* Is it exactly this text, without escapes on either side? */
bool json_read_is(struct json_value v, const char *text);
/* False if v is no whole number from 0 to UINT64_MAX. */
bool json_read_uint(struct json_value v, uint64_t *ret);

/* Copy a document, without that member of its member `name`. One with thousands of values costs no
 * tree. A text that is none becomes "{}". The caller frees it. NULL: out of memory. */
char *json_read_without(const char *document, const char *name, const char *member);
