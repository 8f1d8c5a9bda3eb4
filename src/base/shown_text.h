/* shown_text.h - text from a cell as it is given to a model: characters that control a terminal or
 * the direction of text or that cannot be seen (utf8_is_control()), and bytes that are not UTF-8,
 * are written as visible escapes. Pure.
 *
 * "\x1b" stands for one byte, "\u202e" and "\U000e0041" for a character. Line feeds and tabs stay;
 * a carriage return before a line feed is dropped. Backslashes of the text are not doubled: the
 * result is for reading. */
#pragma once

#include "buf.h"

#define SHOWN_TEXT_GROWTH 4 /* times as long as the bytes, at most */

/* Appends the first of the bytes, at most max bytes of text. Returns how many bytes are shown. */
size_t shown_text_head(struct buf *to, const uint8_t *bytes, size_t n, size_t max);
/* Appends the last of the bytes, at most max bytes of text. Returns how many bytes are shown. */
size_t shown_text_tail(struct buf *to, const uint8_t *bytes, size_t n, size_t max);
/* Appends all of them. */
void shown_text(struct buf *to, const uint8_t *bytes, size_t n);
