/* cursor.h - the end of a page of a list, as opaque text. Pure, fuzzed. */
#pragma once

#include <stdint.h>

#include "daemon/store/store.h"
#include "lib/base/err.h"
#include "lib/json/json.h"

#define CURSOR_MAX (2 * (24 + STORE_ID_MAX) + 1) /* with its NUL */

/* ---- a place in each of several lists, "1-a.0.1f" */

#define CURSOR_PLACES_MAX 4
#define CURSOR_PLACES_TEXT (4 + CURSOR_PLACES_MAX * 17)

void cursor_write_places(const uint64_t *places, unsigned n, char ret[CURSOR_PLACES_TEXT]);
/* "0": the beginning of all. ERR_INVALID for what cursor_write_places() did not write. */
int cursor_parse_places(const char *text, uint64_t *ret_places, unsigned n, struct err *e) MUST_USE;

/* ---- a row by its time and id */

/* The cursor of a row. */
void cursor_write(struct json *j, const char *name, uint64_t ms, const char *id);
/* ERR_INVALID for what cursor_write() did not write. */
int cursor_parse(const char *cursor, uint64_t *ret_ms, char ret_id[STORE_ID_MAX],
		 struct err *e) MUST_USE;
