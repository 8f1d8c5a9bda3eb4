/* code_begin.h - what an execution of code needs before it is started. */
#pragma once

#include "request.h"
#include "spec_exec.h"

/* Makes sure that the interpreter of the session runs, and sets user and directory of the program
 * that sends the code to it. Does nothing if the execution is not one of code. */
int code_begin(struct request *r, struct session *session, struct spec_exec *s,
	       struct err *e) MUST_USE;
