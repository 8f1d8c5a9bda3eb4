/* session_part.h - reads one part of a session that the server gives as JSON (processes, diff). */
#pragma once

#include <jansson.h>

#include "args.h"

/* word: the session as given on the command line. *ret is a new reference. */
int session_part_get(const struct args_common *common, const char *word, const char *part,
		     json_t **ret, struct err *e) MUST_USE;
