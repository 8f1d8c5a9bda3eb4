#include "masked_text.h"

#include <stdlib.h>
#include <string.h>

void masked_text_bytes(struct json *j, const struct mask *m, const char *name, const void *value,
		       size_t n)
{
	uint8_t *copy;

	if (m == NULL || n == 0) {
		json_bytes(j, name, value, n);
		return;
	}
	copy = malloc(n);
	if (copy == NULL) {
		json_none(j, name);
		return;
	}
	memcpy(copy, value, n);
	(void)mask_text(m, NULL, copy, n);
	json_bytes(j, name, copy, n);
	explicit_bzero(copy, n);
	free(copy);
}

void masked_text(struct json *j, const struct mask *m, const char *name, const char *value)
{
	if (value == NULL)
		json_none(j, name);
	else
		masked_text_bytes(j, m, name, value, strlen(value));
}
