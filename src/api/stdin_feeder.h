/* stdin_feeder.h - gives an execution the input that came with its request, at its own pace, and
 * then end of file.
 *
 * It outlives the request: who starts something in the background does not stay. It ends when all
 * is taken or the execution takes no more. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "execution.h"

/* Is there room for so many bytes more? ERR_LIMIT if not. To be asked before the execution is
 * started. */
int stdin_feeder_check(size_t len, struct err *e) MUST_USE;

/* The bytes are taken over (malloc'ed) on success. */
int stdin_feeder_start(struct execution *x, uint8_t *bytes, size_t len, struct err *e) MUST_USE;
