/* exec.h - starting a command in a session: the options that `exec` and `run --server`
 * share, and the request. */
#pragma once

#include <jansson.h>

#include "cmd/client/api_call.h"
#include "cmd/client/id_match.h"

/* A member named exec of the verb's own struct. The fields of the rows in EXEC_OPTIONS. */
struct exec_options {
	const char *user, *cwd, *record, *result;
	uint64_t timeout_ms, output_limit;
	struct option_list env, secrets;
	bool tty, record_input;
	const char *language, *context, *save_dir; /* of code */
};

/* clang-format off */
#define EXEC_OPTIONS(type) \
	{ "tty", NULL, OPTION_FLAG, offsetof(type, exec.tty), 0, 0, \
	  "gives the command a terminal, with the size of this one", 't' }, \
	{ "user", "NAME", OPTION_TEXT, offsetof(type, exec.user), 0, 0, \
	  "user in the cell: user (default), root, or any other there", 'u' }, \
	{ "cwd", "DIR", OPTION_TEXT, offsetof(type, exec.cwd), 0, 0, \
	  "directory to start in (default: the user's home)", 'w' }, \
	{ "env", "K=V", OPTION_LIST, offsetof(type, exec.env), 0, 0, \
	  "sets a variable; the caller's environment is not passed on", 'e' }, \
	{ "timeout", "TIME", OPTION_TIME, offsetof(type, exec.timeout_ms), 1, 366ULL * 86400000, \
	  "how long the command may run, such as 30s" }, \
	{ "lang", "NAME", OPTION_TEXT, offsetof(type, exec.language), 0, 0, \
	  "runs code instead of a command: python, javascript, typescript, bash, r, java", .values = "python javascript typescript bash r java" }, \
	{ "context", "NAME", OPTION_TEXT, offsetof(type, exec.context), 0, 0, \
	  "with --lang: whose variables the code has (default: one for each language)" }, \
	{ "save-dir", "DIR", OPTION_TEXT, offsetof(type, exec.save_dir), 0, 0, \
	  "with --lang: saves images and documents of results as DIR/result-N.png and so on" }, \
	{ "record", "WHAT", OPTION_TEXT, offsetof(type, exec.record), 0, 0, \
	  "text: the server keeps the command for cordon ls (default); hash: only its hash", .values = "text hash" }, \
	{ "record-input", NULL, OPTION_FLAG, offsetof(type, exec.record_input), 0, 0, \
	  "the server keeps what is typed for cordon cast: passwords, too" }, \
	{ "result", "FILE", OPTION_TEXT, offsetof(type, exec.result), 0, 0, \
	  "writes the result of the command as one JSON object; -: to standard output, at the end" }, \
	{ "output-limit", "SIZE", OPTION_BYTES, offsetof(type, exec.output_limit), 1, \
	  (uint64_t)INT64_MAX, "bytes of output that are kept and passed on" }
/* clang-format on */

struct exec_command {
	char **argv; /* borrowed */
	size_t argc;
	bool input; /* the command has input, sent later */
	bool background;
	const char *code; /* instead of argv: exec_code() */
};

/* Make it code, if --lang was given: the one word, or stdin for "-". Check that options fit
 * together. The caller frees *ret_text. */
int exec_code(const struct exec_options *o, struct exec_command *c, char **ret_text,
	      struct err *e) MUST_USE;

/* Start it in the session. *ret is the execution, owned by the caller, and ret_id its id. */
int exec_command(struct api_call *a, const char *session, const struct exec_options *o,
		 const struct exec_command *c, char ret_id[ID_MATCH_ID_MAX], json_t **ret,
		 struct err *e) MUST_USE;

/* Has it ended? A starting server may not know so far that it runs. */
bool exec_has_ended(const json_t *execution);

/* The exit code of an ended command, as for `cordon run`. Print the error. program: the started
 * program, which the server does not record. NULL: not known. */
int exec_exit_code(const json_t *execution, const char *program);

/* Replace the execution of code by one with its results, its error and its count. */
int exec_with_results(struct api_call *a, json_t **execution, struct err *e) MUST_USE;
