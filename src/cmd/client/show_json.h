/* show_json.h - the server's JSON, printed. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* {"a":1,"b":{"c_ms":90000}} as lines "a: 1" and "b.c: 90s". A member whose name ends in _bytes,
 * _ms or _millis is a size, a time or a fraction, and loses that ending. */
void show_tree(const json_t *object, FILE *to);

/* JSON, indented if it is for people to read. Control characters that JSON leaves alone are
 * escaped. A line break at the end. */
void show_json(const json_t *j, bool indented, FILE *to);

/* {"a":"b","c":"d"} as a=b,c=d, not escaped yet. Cut at cap. */
void show_json_pairs(const json_t *object, char *ret, size_t cap);
/* One value for a table, not escaped yet: text as it is, ["a","b"] as a,b, {"a":"b"} as a=b, "-"
 * for null and for missing or empty values. Cut at cap. */
void show_json_cell(const json_t *value, char *ret, size_t cap);
