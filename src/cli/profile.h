/* profile.h - `cordon profile`: prints the system-call profile that cells run under. */
#pragma once

#include "options.h"

extern const struct verb profile_verb;
