/* process_spec.h - what clients ask of the process service: StartRequest, ProcessSelector. Pure,
 * fuzzed. */
#pragma once

#include "daemon/execution/execution.h"
#include "front/e2b/base/rpc_message.h"
#include "lib/base/buf.h"
#include "lib/json/json.h"

#define PROCESS_SPEC_CLIENT_MAX (64U << 10)

struct process_spec {
	struct buf strings; /* argc arguments, then envc assignments */
	uint32_t argc, envc;
	char *cwd;    /* owned. NULL: none */
	char *client; /* owned: see process_spec_show() */
	bool pty, stdin_open;
	uint16_t rows, cols;
};

/* Read a StartRequest. ERR_INVALID. The caller releases it in any case. */
int process_spec_read(const json_t *message, struct process_spec *ret, struct err *e) MUST_USE;
void process_spec_release(struct process_spec *s);

/* The command as one text, for the record of it. NULL without memory. The caller frees it. */
char *process_spec_text(const struct process_spec *s) MUST_USE;

/* Add NAME=value unless the spec or one of the len bytes of other assignments has that name. */
void process_spec_default(struct process_spec *s, const char *others, size_t len, const char *name,
			  const char *value);

/* Write the members "config" and "tag" of a ProcessInfo. client: of the execution's row, "" if
 * another interface started it. command: its text, if known. Above PROCESS_SPEC_CLIENT_MAX
 * altogether, it was kept without arguments and environment. */
void process_spec_show(struct json *j, const char *client, const char *command);
/* Is that its tag? */
bool process_spec_has_tag(const char *client, const char *tag);

/* ---- which process */
struct process_selector {
	uint32_t pid;
	char *tag; /* owned. NULL: by pid */
};

/* The member "process" of a message. ERR_INVALID. ERR_UNSUPPORTED: it selects by neither. */
int process_selector_read(const json_t *message, struct process_selector *ret,
			  struct err *e) MUST_USE;
void process_selector_release(struct process_selector *s);
