/* masked_text.h - writes a text of a record with every known secret masked. Called by
 * access_record.c and llm_call.c. The text is masked before it becomes JSON: in JSON a secret
 * could also match names of members, numbers, or text across a quote, and masking it there would
 * break the record. */
#pragma once

#include <stddef.h>

#include "json.h"
#include "mask.h"

/* m: NULL if there are no secrets. value: NULL for null. */
void masked_text(struct json *j, const struct mask *m, const char *name, const char *value);
/* The same for n bytes. */
void masked_text_bytes(struct json *j, const struct mask *m, const char *name, const void *value,
		       size_t n);
