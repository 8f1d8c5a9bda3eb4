/* dockerfile_words.h - words of a Dockerfile: quotes, variables, lists in JSON. Called by
 * dockerfile.c. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"

#define DOCKERFILE_WORDS_MAX 256

/* Variables of ARG and ENV. */
struct dockerfile_words {
	size_t n;
	char *texts[DOCKERFILE_WORDS_MAX]; /* NAME=value; owned */
};

char *dockerfile_words_copy(const char *text, size_t n);
/* False: there are too many. */
bool dockerfile_words_set(struct dockerfile_words *v, const char *name, const char *value);
void dockerfile_words_release(struct dockerfile_words *v);

/* The length of the name of a variable at the start of the text; 0: there is none. */
size_t dockerfile_words_name(const char *text);
/* The length of the next word, quotes and escapes included. */
size_t dockerfile_words_length(const char *text);
/* Without quotes; variables are replaced outside of single quotes, if asked for. The caller frees
 * the result. */
char *dockerfile_words_expand(const struct dockerfile_words *r, const char *text, size_t len,
			      bool variables);
/* A list in JSON, as of CMD ["a", "b"]: the words as one command of a shell. NULL: it is none. */
char *dockerfile_words_json(const char *text);

/* The next instruction: lines that end in a backslash are joined, comments and empty lines are left
 * out. *line counts the lines, *ret_first is that of the instruction. False: there is none. */
bool dockerfile_words_line(const char **at, const char *end, unsigned *line, unsigned *ret_first,
			   struct buf *ret);
