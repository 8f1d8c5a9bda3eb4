/* doc_writer.h - writes a JSON document copied from doc_json.h with changes. Commas and names are
 * placed here, so that members and elements can be left out or added. Pure. */
#pragma once

#include "lib/base/buf.h"
#include "lib/packages/doc_json.h"

struct doc_writer {
	struct buf *out; /* borrowed, set before each use */
	unsigned depth;
	uint64_t filled; /* bit N: the container at depth N is not empty */
};

/* Begin a value. name: the name of a member as written, with quotes. NULL: in an array, or the
 * whole document. */
void doc_writer_value(struct doc_writer *w, const char *name, size_t n);
void doc_writer_open(struct doc_writer *w, bool array);
void doc_writer_close(struct doc_writer *w, bool array);
void doc_writer_raw(struct doc_writer *w, const char *bytes, size_t n);
/* Begin a member that shaping adds. name: plain ASCII. */
void doc_writer_member(struct doc_writer *w, const char *name);
/* Write a text of printable ASCII as a value. */
void doc_writer_text(struct doc_writer *w, const char *text);
