/* shown_text.h - text from a cell as it is given to a model: characters that control a terminal or
 * the direction of text or that cannot be seen (utf8_is_control()), and bytes outside UTF-8, are
 * written as visible escapes. Pure.
 *
 * "\x1b" stands for one byte, "\u202e" and "\U000e0041" for a character. Line feeds and tabs stay.
 * A carriage return before a line feed is dropped. Backslashes of the text are not doubled: the
 * result is for reading. */
#pragma once

#include "lib/base/buf.h"

#define SHOWN_TEXT_GROWTH 4 /* times as long as the bytes, at most */

/* Append the first of the bytes, at most max bytes of text. Return how many bytes are shown. */
size_t shown_text_head(struct buf *to, const uint8_t *bytes, size_t n, size_t max);
/* Append the last of the bytes, at most max bytes of text. Return how many bytes are shown. */
size_t shown_text_tail(struct buf *to, const uint8_t *bytes, size_t n, size_t max);
/* Append all of them. */
void shown_text(struct buf *to, const uint8_t *bytes, size_t n);
