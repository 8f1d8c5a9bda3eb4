#include "cmd/base/colour.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The rules of no-color.org and of terminals that can show none. */
static bool is_wanted(FILE *to)
{
	const char *no = secure_getenv("NO_COLOR"), *term = secure_getenv("TERM");

	return isatty(fileno(to)) == 1 && (no == NULL || *no == '\0') &&
	       (term == NULL || strcmp(term, "dumb") != 0);
}

const char *colour(FILE *to, enum colour c)
{
	static const char *const begin[] = { [COLOUR_NONE] = "\033[0m",
					     [COLOUR_GOOD] = "\033[32m",
					     [COLOUR_WARN] = "\033[33m",
					     [COLOUR_BAD] = "\033[31m",
					     [COLOUR_FAINT] = "\033[2m" };

	return is_wanted(to) ? begin[c] : "";
}
