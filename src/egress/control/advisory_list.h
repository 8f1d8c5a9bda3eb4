/* advisory_list.h - this process's list of packages known as malicious: a mapping of the list that
 * the supervisor sent last. Asked by package_judge.h's callers for each question. */
#pragma once

#include "lib/packages/advisories.h"

/* Take over a new list. It must be sealed memory. An empty one: there is no list any more.
 * Anything else leaves the former list in place. The descriptor is borrowed. */
void advisory_list_set(int fd);
/* NULL: there is none. Good until the loop's next turn. */
const struct advisories *advisory_list(void);
