/* level.h - `cordon level`: shows which levels this machine can do; install gets what one needs. */
#pragma once

#include "options.h"

extern const struct verb level_verb;
