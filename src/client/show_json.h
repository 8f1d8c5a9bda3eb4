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
