/* secret_part.h - secrets as a part of sessions (session_hooks.h). */
#pragma once

#include "daemon/session/session_hooks.h"

extern const struct session_part secret_part;
