/* hex.h - bytes as lower-case hexadecimal digits and back. Pure. */
#pragma once

#include <stddef.h>

#include "lib/base/err.h"

/* Write 2 * n digits and a NUL. */
void hex_encode(const void *bytes, size_t n, char *ret_text);

/* Read exactly 2 * n digits, either case, and nothing behind them. ERR_INVALID otherwise, with
 * nothing written. The message does not quote the text, which may be a secret. */
int hex_decode(const char *text, size_t len, void *ret_bytes, size_t n, struct err *e) MUST_USE;
