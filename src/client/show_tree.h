/* show_tree.h - an object of the server's JSON for people: one member a line, with units. */
#pragma once

#include <jansson.h>
#include <stdio.h>

/* {"a":1,"b":{"c_ms":90000}} as lines "a: 1", "b.c: 90s". A member whose name ends in _bytes, _ms
 * or _millis is a size, a time or a fraction, and loses that ending. */
void show_tree(const json_t *object, FILE *to);
