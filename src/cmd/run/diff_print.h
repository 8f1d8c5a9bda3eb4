/* diff_print.h - prints the list of a cell's changes, for people. */
#pragma once

#include <stdio.h>

#include "lib/base/err.h"

/* Read NUL-ended records from fd until its end and print a line for each. A list whose last
 * record is not 'E' was cut short: an error. */
int diff_print(int fd, FILE *to, struct err *e) MUST_USE;
