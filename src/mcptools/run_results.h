/* run_results.h - the results of an execution of code in the answer of a tool: texts, pictures, the
 * error with its traceback. The lines come from a cell (web/result_view.h) and are not trusted:
 * each is read as strict JSON, and what is shown has a bound. */
#pragma once

#include "tool.h"

#define RUN_RESULTS_BYTES (2U << 20) /* of all lines */

/* Writes the members `results` and, if there was one, `code_error` of the structured result, and
 * appends the texts of results to text. over: there were more lines than these. */
void run_results_write(struct tool_call *c, const struct buf *lines, bool over, struct buf *text);
/* Adds pictures as blocks of content. */
void run_results_images(struct tool_call *c, const struct buf *lines);
