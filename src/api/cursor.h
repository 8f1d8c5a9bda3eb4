/* cursor.h - the end of a page of a list, as opaque text. Pure, fuzzed. */
#pragma once

#include <stdint.h>

#include "err.h"
#include "json.h"
#include "store.h"

#define CURSOR_MAX (2 * (24 + STORE_ID_MAX) + 1) /* with its NUL */

/* The cursor of a row by its time and id. */
void cursor_write(struct json *j, const char *name, uint64_t ms, const char *id);
/* ERR_INVALID for what cursor_write() did not write. */
int cursor_parse(const char *cursor, uint64_t *ret_ms, char ret_id[STORE_ID_MAX],
		 struct err *e) MUST_USE;
