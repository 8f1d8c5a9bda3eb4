/* process.h - finds the execution that a client selects by pid or tag. */
#pragma once

#include "daemon/execution/execution.h"
#include "front/e2b/envd/process_spec.h"
#include "front/web/request.h"

/* A process that runs, or has ended while others still hold its output open: clients may still
 * follow and kill those. NULL: none. */
struct execution *process_find(struct session *s, const struct process_selector *which);

/* Fail the request: there is no such process. */
void process_find_fail(struct request *r, const struct process_selector *which);
/* Fail the request: the selector could not be read. */
void process_find_refuse(struct request *r, const struct err *e);
