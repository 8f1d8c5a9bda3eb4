/* kept_output.h - a command's output printed in the JSON of its execution, as in the API's answer
 * to wait=true: up to 1 MiB of each stream, text as text, other bytes as base64. */
#pragma once

#include <jansson.h>

#include "lib/base/buf.h"

#define KEPT_OUTPUT_MAX ((size_t)1 << 20)

struct kept_output {
	struct buf out, err;
	bool cut;
};

void kept_output_init(struct kept_output *k);
void kept_output_release(struct kept_output *k);
void kept_output_take(struct kept_output *k, bool is_err, const uint8_t *bytes, size_t n);
/* Add the members stdout, stderr (or stdout_base64, stderr_base64) and inline_truncated. */
int kept_output_add(struct kept_output *k, json_t *execution, struct err *e) MUST_USE;
