/* args.h - what all verbs have in common on the command line, and how they fail. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cmd/base/options.h"
#include "lib/base/err.h"
#include "lib/wire/exit_codes.h"

/* Exit codes, which scripts compare (doc/cell.md). `exec`, `attach` and `run` exit with the code of
 * their command, and with ARGS_USAGE or ARGS_FAILED if there is none. */
enum {
	ARGS_OK = 0,
	ARGS_USAGE = EXIT_USAGE,
	ARGS_NOT_FOUND = 3,   /* there is no such thing, or it has ended */
	ARGS_REFUSED = 4,     /* the server refuses: key, scope, quota, state */
	ARGS_UNREACHABLE = 5, /* no server answers, or it cannot now: try again */
	ARGS_FAILED = EXIT_CORDON,
	ARGS_GO = -1, /* no exit code yet */
};

/* The first member, named common, of every verb's own struct. */
struct args_common {
	const char *server, *key_file, *ca_file;
	bool insecure, json, help;
};

/* The rows for it in the table of struct type. */
/* clang-format off */
#define ARGS_CONNECTION(type) \
	{ "key-file", "FILE", OPTION_TEXT, offsetof(type, common.key_file), 0, 0, \
	  "file with the API key (else CORDON_API_KEY, ~/.config/cordon/key, first.key)", \
	  .is_global = true }, \
	{ "ca-file", "FILE", OPTION_TEXT, offsetof(type, common.ca_file), 0, 0, \
	  "certificates to trust instead of the system's (https)", .is_global = true }, \
	{ "insecure", NULL, OPTION_FLAG, offsetof(type, common.insecure), 0, 0, \
	  "does not check the server's certificate", .is_global = true }, \
	{ "help", NULL, OPTION_FLAG, offsetof(type, common.help), 0, 0, "shows the help of the verb", \
	  .is_global = true }

#define ARGS_COMMON(type) \
	{ "json", NULL, OPTION_FLAG, offsetof(type, common.json), 0, 0, \
	  "prints the server's JSON instead of text", .is_global = true }, \
	{ "server", "URL", OPTION_TEXT, offsetof(type, common.server), 0, 0, \
	  "http://, https:// or unix:/path (else CORDON_SERVER, http://127.0.0.1:4983)", \
	  .is_global = true }, \
	ARGS_CONNECTION(type)
/* clang-format on */

#define ARGS_WORDS_MAX 1024

/* The words of a command line beside options, borrowed. */
struct args_words {
	const char *at[ARGS_WORDS_MAX + 1];
	size_t n;
};

/* Read options and words in any order. After "--" all are words. fields begins with a struct
 * args_common. Return ARGS_GO, or the exit code: help was shown, or a mistake was reported (also
 * fewer than min or more than max words). */
int args_read(const struct verb *v, int argc, char **argv, void *fields, struct args_words *ret,
	      size_t min, size_t max) MUST_USE;

/* args_read() for verbs with a command at the end: options stop at the first word. *ret_rest is the
 * place of the words, *ret_n their number. */
int args_read_command(const struct verb *v, int argc, char **argv, void *fields, char ***ret_rest,
		      size_t *ret_n) MUST_USE;

/* Print "cordon: message" to stderr, control characters escaped. Return ARGS_NOT_FOUND,
 * ARGS_REFUSED, ARGS_UNREACHABLE or ARGS_FAILED, as e says. */
int args_fail(const struct err *e);
/* For verbs that read no files, where ERR_INVALID is a fault of the command line, found here or by
 * the server: args_wrong() then, else args_fail(). */
int args_refused(const struct verb *v, const struct err *e);
/* For verbs that exit with the code of a command: args_wrong(), or ARGS_FAILED. */
int args_fail_command(const struct verb *v, const struct err *e);
/* Print "cordon: message" and "see cordon VERB --help" to stderr. Return ARGS_USAGE. */
int args_wrong(const struct verb *v, const char *fmt, ...) PRINTF(2, 3);
