/* exec_start.h - the part of a start beside the specification: the interpreter that runs code, and
 * input. The input writer writes a request's input to its execution, at the execution's pace, and
 * then end of file. It outlives the request, since an execution may run in the background. It ends
 * when all is written or the execution takes no more. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "daemon/execution/execution.h"
#include "front/web/request.h"
#include "front/web/spec_exec.h"

/* Is there room for so many more bytes? ERR_LIMIT if not. Called before the execution is
 * started. */
int stdin_feeder_check(size_t len, struct err *e) MUST_USE;

/* The bytes are taken over (malloc'ed) on success. */
int stdin_feeder_start(struct execution *x, uint8_t *bytes, size_t len, struct err *e) MUST_USE;

/* ---- code
 *
 * What an execution of code needs before it is started. */

/* Make sure that the interpreter of the session runs, and set user and directory of the program
 * that sends the code to it. Do nothing if the execution is not one of code. */
int code_begin(struct request *r, struct session *session, struct spec_exec *s,
	       struct err *e) MUST_USE;
