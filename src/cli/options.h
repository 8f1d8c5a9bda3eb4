/* options.h - the options of a verb as one table, which is used to parse them, to print help and to
 * make the manual page. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "err.h"

enum option_kind {
	OPTION_FLAG,   /* bool */
	OPTION_TEXT,   /* const char * */
	OPTION_WORD,   /* const char *, after a '=' only; "" if none is given */
	OPTION_LIST,   /* struct option_list: may be given again */
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
	const char *argument; /* how help calls it; NULL for a flag */
	enum option_kind kind;
	size_t offset; /* of the field in the verb's own struct */
	uint64_t min, max;
	const char *help;
	long letter; /* 'f': also -f; 0: none */
};

struct verb {
	const char *name, *usage, *summary, *text;
	const struct option *options;
	size_t noptions;
	int (*run)(int argc, char **argv);
};

/* Reads options up to the first word that is not an option, or to "--": "--name value",
 * "--name=value", and for those with a letter "-n value", "-nvalue", several flags as in "-it".
 * Fields not named stay as they are; *ret_given, if not NULL, has a bit for each option that was.
 * Returns how many words were taken, or -1. */
int options_parse(const struct verb *v, int argc, char **argv, void *fields, uint64_t *ret_given,
		  struct err *e) MUST_USE;

/* Finds the value of an option in a command line that options_parse() has refused; NULL: none. */
const char *options_find(const struct verb *v, int argc, char **argv, const char *name);

void options_help(const struct verb *v, FILE *to);
void options_man(const struct verb *const *verbs, size_t n, FILE *to);
/* The part of the manual page that follows that of options_man(): verbs of another program. */
void options_man_more(const char *title, const struct verb *const *verbs, size_t n, FILE *to);
