/* show_json.h - the server's JSON, printed. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* JSON, indented if it is for people to read; control characters that JSON leaves alone are
 * escaped. A line break at the end. */
void show_json(const json_t *j, bool indented, FILE *to);

/* {"a":"b","c":"d"} as a=b,c=d, not escaped yet. Cut at cap. */
void show_json_pairs(const json_t *object, char *ret, size_t cap);
/* One value for a table, not escaped yet: text as it is, ["a","b"] as a,b, {"a":"b"} as a=b, "-"
 * for null and for what is missing or empty. Cut at cap. */
void show_json_cell(const json_t *value, char *ret, size_t cap);
