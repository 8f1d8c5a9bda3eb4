/* similar.h - the name that a mistyped word probably means. Pure. */
#pragma once

#include <stddef.h>

/* The longest compared word. Longer words resemble nothing. */
#define SIMILAR_WORD_MAX 40

/* How many characters must be added, removed, changed or swapped with their neighbour to make one
 * word of the other. SIMILAR_WORD_MAX if either word is longer than that. */
unsigned similar_distance(const char *a, const char *b);

/* The best candidate so far. Starts as { .word = ... }. */
struct similar {
	const char *word; /* as typed */
	const char *best; /* NULL: no name is near enough */
	unsigned distance;
};

/* Offer one name: it becomes the best if it is near enough and nearer than those before. A name
 * that begins with the word is near. */
void similar_offer(struct similar *s, const char *name);
