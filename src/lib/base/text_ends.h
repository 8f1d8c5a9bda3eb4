/* text_ends.h - the beginning and the end of a stream as text for a model (shown_text.h): at most
 * TEXT_ENDS_MAX bytes of text. Pure. Used by front/mcptools/run_results.c, for the log of an
 * execution, and by cmd/client/verb_mcp.c, for pipes. */
#pragma once

#include "lib/base/buf.h"

#define TEXT_ENDS_MAX 16384
#define TEXT_ENDS_HALF (TEXT_ENDS_MAX / 2)
#define TEXT_ENDS_PIECE 32768 /* bytes added at once */

struct text_ends {
	struct buf head, tail;
	uint64_t total; /* bytes of the stream, added or not */
};

void text_ends_init(struct text_ends *t);
void text_ends_release(struct text_ends *t); /* safe if it is all zero */
/* The next bytes, at most TEXT_ENDS_PIECE. The caller counts them in total. */
void text_ends_add(struct text_ends *t, const uint8_t *bytes, size_t n);
/* Appends the text and returns whether some of it was left out. Then how says in one word how to
 * get it: "[... N bytes left out: HOW ...]". to has room for TEXT_ENDS_TEXT bytes. */
#define TEXT_ENDS_TEXT (TEXT_ENDS_MAX + 256)
bool text_ends_show(const struct text_ends *t, const char *how, struct buf *to);
