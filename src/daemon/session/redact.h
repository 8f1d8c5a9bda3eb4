/* redact.h - names of things that are covered in output and records (mask.h), as settings, requests
 * and rows have them. A row has lines, each a name ("email") or "pattern:" and a pattern of mask.h.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/mask/mask.h"

#define REDACT_MAX 16	       /* entries that a request may have */
#define REDACT_PATTERN_MAX 128 /* bytes of a pattern of a session */
#define REDACT_TEXT_MAX (REDACT_MAX * (REDACT_PATTERN_MAX + 16))
#define REDACT_PATTERN "pattern:"
/* Of a session: its tenant's entries, and its own. */
#define REDACT_ALL (2 * REDACT_MAX)
#define REDACT_ALL_TEXT_MAX (2 * REDACT_TEXT_MAX)

/* Is it an entry? */
int redact_check(const char *entry, struct err *e) MUST_USE;
/* Lines of the tenant's entries and of those of a session that are others. Either may be NULL.
 * ERR_LIMIT: more than REDACT_ALL. */
int redact_join(const char *tenant, const char *own, char ret[REDACT_ALL_TEXT_MAX],
		struct err *e) MUST_USE;
/* Names with blanks between them as a set of 1 << name. Other words are left out. */
unsigned redact_names(const char *words);
/* Lines "name TAB number" of what was covered. Names of which nothing was are left out. */
void redact_counts(const uint64_t counts[MASK_COUNTS], char *ret, size_t cap);
