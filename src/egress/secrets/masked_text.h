/* masked_text.h - writes a text of a record with every known secret masked. Called by
 * access_record.c and llm_call.c. The text is masked before it becomes JSON: in JSON a secret
 * could also match names of members, numbers, or text across a quote, and masking it there would
 * break the record. */
#pragma once

#include <stddef.h>

#include "lib/json/json.h"
#include "lib/mask/mask.h"

/* m: NULL if there are no secrets. value: NULL for null. */
void masked_text(struct json *j, const struct mask *m, const char *name, const char *value);
/* As above, for n bytes. */
void masked_text_bytes(struct json *j, const struct mask *m, const char *name, const void *value,
		       size_t n);
/* As above, for the first n bytes of a longer text. Its end may be the beginning of a secret, so it
 * is covered: as many bytes as a secret may take. */
void masked_text_head(struct json *j, const struct mask *m, const char *name, const void *value,
		      size_t n);

/* As above, for a text that repeats parts of others, each perhaps cut off inside of a secret: the
 * reason of a refusal. from: the others, whole. NULL ends them. */
#define MASKED_TEXT_FROM_MAX 5
void masked_text_about(struct json *j, const struct mask *m, const char *name, const char *value,
		       const char *const from[MASKED_TEXT_FROM_MAX]);
