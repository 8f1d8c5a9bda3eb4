/* colour.h - colours of words on a terminal. Files, pipes, TERM=dumb and people who set NO_COLOR
 * (any text) get none. */
#pragma once

#include <stdio.h>

enum colour {
	COLOUR_NONE,
	COLOUR_GOOD,  /* green */
	COLOUR_WARN,  /* yellow */
	COLOUR_BAD,   /* red */
	COLOUR_FAINT, /* ended, old */
};

/* The bytes that begin the colour if `to` shows colours, else "". COLOUR_NONE ends it. */
const char *colour(FILE *to, enum colour c);
