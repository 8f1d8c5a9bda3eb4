/* code_line.h - masks the lines of an answer that are not output, within each. For code_answer.c,
 * whose structure it works on. */
#pragma once

#include "code_answer.h"

void code_line_init(struct code_answer *k);
void code_line_release(struct code_answer *k);
/* The next bytes of a line. fixed: they are the beginning that names its type, or its newline, and
 * are never covered. */
void code_line_feed(struct code_answer *k, const struct mask *m, const uint8_t *data, size_t n,
		    bool fixed, struct buf *out);
/* The next bytes of an answer that is no line. */
void code_line_text(struct code_answer *k, const struct mask *m, const uint8_t *data, size_t n,
		    struct buf *out);
/* Gives out all that is held. */
void code_line_end(struct code_answer *k, const struct mask *m, struct buf *out);
/* Room for n bytes until the next call; the caller wipes what it has written there. It is kept,
 * because a cell decides how often it is needed. */
uint8_t *code_line_scratch(struct code_answer *k, size_t n);
