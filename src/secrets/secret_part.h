/* secret_part.h - secrets as a part of sessions (session_parts.h). */
#pragma once

#include "session_parts.h"

extern const struct session_part secret_part;
