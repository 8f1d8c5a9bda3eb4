/* guest.h - `cordon guest`: shows and installs the kernel of guests at level microvm. */
#pragma once

#include "options.h"

extern const struct verb guest_verb;
