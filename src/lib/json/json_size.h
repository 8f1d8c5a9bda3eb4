/* json_size.h - bounds the number of values of a JSON text before it is parsed. Pure.
 *
 * The parsed tree takes up to a hundred times the memory of its text, so parsers of client input
 * bound the number of values, not only of bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Return true if the text has at most max_values values (arrays and objects counted) and at most
 * max_depth nested brackets. Does not check that the text is JSON. The result holds for every text
 * that a parser accepts. */
bool json_size_fits(const char *text, size_t len, unsigned max_depth, size_t max_values);
