/* args.h - what all verbs have in common on the command line, and how they fail. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "err.h"
#include "options.h"

enum {
	ARGS_OK = 0,
	ARGS_USAGE = 2,
	ARGS_FAILED = 125,
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
	  "file with the API key (else CORDON_API_KEY, ~/.config/cordon/key, first.key)" }, \
	{ "ca-file", "FILE", OPTION_TEXT, offsetof(type, common.ca_file), 0, 0, \
	  "certificates to trust instead of the system's (https)" }, \
	{ "insecure", NULL, OPTION_FLAG, offsetof(type, common.insecure), 0, 0, \
	  "does not check the server's certificate" }, \
	{ "help", NULL, OPTION_FLAG, offsetof(type, common.help), 0, 0, "shows this help" }

#define ARGS_COMMON(type) \
	{ "json", NULL, OPTION_FLAG, offsetof(type, common.json), 0, 0, \
	  "prints the server's JSON instead of text" }, \
	{ "server", "URL", OPTION_TEXT, offsetof(type, common.server), 0, 0, \
	  "http://, https:// or unix:/path (else CORDON_SERVER, http://127.0.0.1:4983)" }, \
	ARGS_CONNECTION(type)
/* clang-format on */

#define ARGS_WORDS_MAX 1024

/* The words of a command line that are no options, borrowed. */
struct args_words {
	const char *at[ARGS_WORDS_MAX + 1];
	size_t n;
};

/* Reads options and words in any order; after "--" all are words. fields begins with a struct
 * args_common. Returns ARGS_GO, or the exit code: help was shown, or a mistake was reported (also
 * fewer than min or more than max words). */
int args_read(const struct verb *v, int argc, char **argv, void *fields, struct args_words *ret,
	      size_t min, size_t max) MUST_USE;

/* The same for verbs with a command at the end: options stop at the first word. *ret_rest is where
 * the words begin, *ret_n how many there are. */
int args_read_command(const struct verb *v, int argc, char **argv, void *fields, char ***ret_rest,
		      size_t *ret_n) MUST_USE;

/* For an error of what the command line asks for, before anything was sent: args_wrong() if it is
 * ERR_INVALID, else args_fail(). */
int args_refused(const struct verb *v, const struct err *e);
/* Prints "cordon: message" to stderr, control characters escaped. Returns ARGS_FAILED. */
int args_fail(const struct err *e);
/* Prints "cordon: message" and "see cordon VERB --help" to stderr. Returns ARGS_USAGE. */
int args_wrong(const struct verb *v, const char *fmt, ...) PRINTF(2, 3);
