/* json_size.h - how much a JSON text would be to parse, before it is. Pure.
 *
 * A tree of values takes a hundred times the memory and the time of its text, so those who read
 * texts of clients bound the number of values, not only of bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Are there at most max_values values (those in arrays and objects, and these themselves) and at
 * most max_depth brackets inside each other? Whether it is JSON at all is not looked at: what it
 * says holds for every text that a parser takes. */
bool json_size_fits(const char *text, size_t len, unsigned max_depth, size_t max_values);
