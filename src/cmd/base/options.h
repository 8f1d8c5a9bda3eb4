/* options.h - the options of a verb as one table, for parsing, for help and for the manual page. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/base/err.h"

enum option_kind {
	OPTION_FLAG,   /* bool */
	OPTION_TEXT,   /* const char * */
	OPTION_SPAN,   /* const char *: a time, checked when it is sent. 0 is sent, too */
	OPTION_JSON,   /* const char *: a file with a JSON object. "-": standard input */
	OPTION_WORD,   /* const char *, after a '=' only. "" if none is given */
	OPTION_LIST,   /* struct option_list: may be given again */
	OPTION_PAIRS,  /* struct option_list of NAME=VALUE: may be given again */
	OPTION_COUNT,  /* uint64_t */
	OPTION_BYTES,  /* uint64_t, given as 512M and the like */
	OPTION_TIME,   /* uint64_t, milliseconds */
	OPTION_MILLIS, /* uint64_t, thousandths */
};

#define OPTION_LIST_MAX 256

struct option_list {
	const char *items[OPTION_LIST_MAX];
	size_t n;
};

struct option {
	const char *name;     /* without the dashes */
	const char *argument; /* how help calls it. NULL for a flag */
	enum option_kind kind;
	size_t offset; /* of the field in the verb's own struct */
	uint64_t min, max;
	const char *help;
	long letter; /* 'f': also -f. 0: none */
	/* The client sends the option as this member of the request: "pids", or "limits.pids" for a
	 * member of a member. A flag is sent as true, or as text: "root=read-only". NULL: not sent.
	 */
	const char *member;
	/* Words that may be its value, for shells, or a kind of them (complete.h), such as
	 * "@templates". NULL: as the argument says. */
	const char *values;
	bool is_global; /* of every verb that needs a server: help has it in one line */
};

struct verb {
	const char *name, *usage, *summary, *text;
	const char *examples; /* lines of a shell, each "cordon ..." with a comment or none */
	const struct option *options;
	size_t noptions;
	int (*run)(int argc, char **argv);
};

/* Read options up to the first word other than an option, or to "--": "--name value",
 * "--name=value", and for those with a letter "-n value", "-nvalue", several flags as in "-it".
 * Fields not named stay as they are. *ret_given, if not NULL, has a bit for each given option.
 * Return how many words were taken, or -1. */
int options_parse(const struct verb *v, int argc, char **argv, void *fields, uint64_t *ret_given,
		  struct err *e) MUST_USE;

/* The option that this word ("--name", "-xn") leaves waiting for its value in the next one, or
 * NULL. */
const struct option *options_open(const struct verb *v, const char *word);

/* Find the value of an option in a command line that options_parse() has refused. NULL: none. */
const char *options_find(const struct verb *v, int argc, char **argv, const char *name);

void options_help(const struct verb *v, FILE *to);
/* The global options in full, for the help of the program. */
void options_help_global(const struct verb *v, FILE *to);
void options_man(const struct verb *const *verbs, size_t n, FILE *to);
/* The manual page's part behind options_man()'s: another program's verbs. */
void options_man_more(const char *title, const struct verb *const *verbs, size_t n, FILE *to);
/* A section of names and their meanings. */
void options_man_section(const char *title, const char *const (*rows)[2], size_t n, FILE *to);
