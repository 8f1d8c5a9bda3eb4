/* context_private.h - between context.c, which runs code in a context, and contexts.c, which keeps
 * the table of them. */
#pragma once

#include "context.h"

/* A new context; the rest of it is set by the caller. */
void context_setup(struct context *c);
/* Ends its kernel, and its executions with an error. */
void context_stop(struct context *c, const char *why);
/* Sends the session's environment to its kernel, if it has one. */
void context_send_env(struct context *c);
/* Starts the kernel before it is needed. */
int context_warm(struct context *c, struct err *e) MUST_USE;
