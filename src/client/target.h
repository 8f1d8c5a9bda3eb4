/* target.h - composes the target of a request, every part escaped. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

struct target {
	char text[16384]; /* a path of 4096 bytes, all of them escaped, and room for the rest */
	size_t n;
	bool full, query;
};

/* "/v1/sessions" and so on, as it is. */
void target_init(struct target *t, const char *base);
/* Adds "/part". */
void target_part(struct target *t, const char *part);
/* Adds "?name=value" or "&name=value"; NULL values add nothing. */
void target_query(struct target *t, const char *name, const char *value);
void target_query_number(struct target *t, const char *name, uint64_t value);

/* The whole, or NULL with e set if it did not fit. */
const char *target_text(const struct target *t, struct err *e) MUST_USE;
