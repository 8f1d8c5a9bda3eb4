/* fuzz.h - what every fuzz target is made of. */
#ifndef CORDON_FUZZ_FUZZ_H
#define CORDON_FUZZ_FUZZ_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* How often the parser said yes. Read by replay.c: a corpus of which nothing is taken any more has
 * outlived the format it was made for, and tests little. */
extern unsigned long fuzz_accepted;

/* Copies of exactly this size, so that ASan sees one byte too far; the caller frees them. */
static inline void *fuzz_copy(const void *bytes, size_t size)
{
	void *copy = malloc(size + (size == 0));

	assert(copy != NULL);
	if (size > 0)
		memcpy(copy, bytes, size);
	return copy;
}

/* The same with a NUL behind it. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	assert(text != NULL);
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	return text;
}

#endif
