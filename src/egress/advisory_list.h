/* advisory_list.h - the list of packages that are known as malicious, of this process: a mapping of
 * what the supervisor sent last. Asked by package_judge.h's callers for each question. */
#pragma once

#include "advisories.h"

/* Takes over a new list; it must be sealed memory. An empty one: there is no list any more. What is
 * not a list leaves the one before in place. The descriptor is borrowed. */
void advisory_list_set(int fd);
/* NULL: there is none. Good until the loop's next turn. */
const struct advisories *advisory_list(void);
