/* level.h - the verbs about isolation levels, which need no server. */
#pragma once

#include "cmd/base/options.h"

/* `cordon guest`: shows and installs the kernel of guests at level microvm. */
extern const struct verb guest_verb;

/* `cordon profile`: prints the system-call profile that cells run under. */
extern const struct verb profile_verb;

/* `cordon level`: shows which levels this machine can do, and installs the parts of one. */
extern const struct verb level_verb;
