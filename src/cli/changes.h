/* changes.h - the list of what a cell changed, made fit for people's eyes. */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "err.h"

struct changes_record {
	char kind; /* 'A', 'C', 'D', 'T'; 'E': the end */
	uint32_t mode;
	uint64_t size;
	const char *path; /* borrowed; any bytes */
};

/* Reads "kind TAB mode TAB size TAB path" without its final NUL. Pure. */
int changes_parse(const char *text, struct changes_record *ret, struct err *e) MUST_USE;

/* Reads NUL-ended records from fd until its end and prints a line for each. A list whose last
 * record is not 'E' was cut short: an error. */
int changes_print(int fd, FILE *to, struct err *e) MUST_USE;
