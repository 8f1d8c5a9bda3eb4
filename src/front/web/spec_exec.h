/* spec_exec.h - reads request bodies about one execution. Pure, fuzzed. */
#pragma once

#include <jansson.h>

#include "daemon/execution/execution.h"
#include "lib/base/buf.h"

#define SPEC_ARGS_MAX 4096

/* The values read, and the JSON that their texts point into. */
struct spec_exec {
	struct execution_spec spec;
	json_t *root; /* owned, as the rest */
	struct buf strings, text, secrets;
	/* The input that came with the request. */
	uint8_t *input;
	size_t input_len;
	bool has_input; /* perhaps of 0 bytes */
	bool is_code;	/* for the interpreter: the code is its input */
};

/* Fail with ERR_INVALID, naming the member, or ERR_SYSTEM without memory. spec_exec_release() in
 * either case. */
int spec_exec_read(const void *body, size_t len, struct spec_exec *ret, struct err *e) MUST_USE;
void spec_exec_release(struct spec_exec *s);

/* {"signal": "TERM" | 15} */
int spec_exec_signal(const void *body, size_t len, int *ret, struct err *e) MUST_USE;
/* {"rows": 24, "cols": 80} */
int spec_exec_size(const void *body, size_t len, uint16_t *ret_rows, uint16_t *ret_cols,
		   struct err *e) MUST_USE;

/* A text message of an attached client. */
enum spec_exec_order { SPEC_EXEC_RESIZE, SPEC_EXEC_SIGNAL, SPEC_EXEC_EOF, SPEC_EXEC_ORDERS };
struct spec_exec_message {
	enum spec_exec_order order;
	int signal;
	uint16_t rows, cols;
};
int spec_exec_message(const void *text, size_t len, struct spec_exec_message *ret,
		      struct err *e) MUST_USE;
