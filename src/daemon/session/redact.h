/* redact.h - names of things that are covered in output and records (mask.h), as settings, requests
 * and rows have them. A row has lines, each a name ("email") or "pattern:" and a pattern of mask.h.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/mask/mask.h"

#define REDACT_MAX 16	       /* entries of a session */
#define REDACT_PATTERN_MAX 128 /* bytes of a pattern of a session */
#define REDACT_TEXT_MAX (REDACT_MAX * (REDACT_PATTERN_MAX + 16))
#define REDACT_PATTERN "pattern:"

/* Is it an entry? */
int redact_check(const char *entry, struct err *e) MUST_USE;
/* Names with blanks between them as a set of 1 << name. Other words are left out. */
unsigned redact_names(const char *words);
/* Lines "name TAB number" of what was covered. Names of which nothing was are left out. */
void redact_counts(const uint64_t counts[MASK_COUNTS], char *ret, size_t cap);
