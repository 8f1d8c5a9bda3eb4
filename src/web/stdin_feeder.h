/* stdin_feeder.h - writes the input that came with a request to its execution, at the execution's
 * pace, and then end of file. It outlives the request, since an execution may run in the
 * background. It ends when all is written or the execution takes no more. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "execution.h"

/* Is there room for so many more bytes? ERR_LIMIT if not. Called before the execution is
 * started. */
int stdin_feeder_check(size_t len, struct err *e) MUST_USE;

/* The bytes are taken over (malloc'ed) on success. */
int stdin_feeder_start(struct execution *x, uint8_t *bytes, size_t len, struct err *e) MUST_USE;
