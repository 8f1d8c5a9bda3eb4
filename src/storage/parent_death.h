/* parent_death.h - in a process that a runner has forked: it dies with that runner, and does not
 * continue if the runner has died already. For processes below the first one of a pid namespace. */
#pragma once

#include "lib/base/err.h"

int parent_death_follow(struct err *e) MUST_USE;
