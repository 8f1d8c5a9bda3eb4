/* units.h - numbers with units: "512M", "1.5", "30s", "5m". Pure, strict, fuzzed. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

/* Each reads the whole string or fails, with a message that quotes it and names the allowed forms.
 * *ret is written on success only. There are no signs, spaces or empty strings. */
int units_count(const char *text, uint64_t min, uint64_t max, uint64_t *ret,
		struct err *e) MUST_USE;

/* Bytes: plain, or with K, M, G, T (powers of 1024, also as "KiB", "MB" and so on). */
int units_bytes(const char *text, uint64_t min, uint64_t max, uint64_t *ret,
		struct err *e) MUST_USE;

/* Milliseconds: a number (of seconds) or with ms, s, m, h, d. Fractions allowed. */
int units_time_ms(const char *text, uint64_t min, uint64_t max, uint64_t *ret,
		  struct err *e) MUST_USE;

/* Thousandths: "1.5" is 1500. At most three decimals. */
int units_millis(const char *text, uint64_t min, uint64_t max, uint64_t *ret,
		 struct err *e) MUST_USE;

/* Write 1536 as "1.5K". For people. */
void units_format_bytes(uint64_t bytes, char *ret_text, size_t cap);
