/* diff_print.h - prints the list of what a cell changed, for people. */
#pragma once

#include <stdio.h>

#include "err.h"

/* Reads NUL-ended records from fd until its end and prints a line for each. A list whose last
 * record is not 'E' was cut short: an error. */
int diff_print(int fd, FILE *to, struct err *e) MUST_USE;
