/* masked_text.h - a text of a record with every known value covered. Values are covered in the text
 * itself, before JSON is made of it: in JSON a value could also be found in names of members, in
 * numbers or across a quote, and covering it there would break the record. */
#pragma once

#include <stddef.h>

#include "json.h"
#include "mask.h"

/* m: NULL, nothing is known. value: NULL for null. */
void masked_text(struct json *j, const struct mask *m, const char *name, const char *value);
/* The same for n bytes. */
void masked_text_bytes(struct json *j, const struct mask *m, const char *name, const void *value,
		       size_t n);
