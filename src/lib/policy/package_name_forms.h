/* package_name_forms.h - further names that a package may have beside the name read from a request,
 * because too much or too little may stand in front of it. Rules that refuse compare all of these
 * names. Pure. Called by package_judge.c. */
#pragma once

#include "lib/policy/package_judge.h"

/* The rest of a name behind its first part. NULL: the name has only one part. "maven2.org.evil:lib"
 * may be "org.evil:lib", and "mirror/evil.com/x" may be "evil.com/x". */
const char *package_form_behind(enum ecosystem eco, const char *name);

/* The name with the segments in front of it in the path, beginning with segment `skip`. Requests of
 * Go and git are read at any host, so the path of an entry must not change the name of a repository
 * or module. NULL: there is no such segment. "": the result is no name. */
const char *package_form_in_front(const struct package_question *q, const struct package_request *r,
				  unsigned skip, char ret[PACKAGE_NAME_MAX]);
