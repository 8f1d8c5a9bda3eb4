/* execution_kill.h - trees of ended executions that are being killed. For session_lifecycle.c. */
#pragma once

#include "session.h"

/* The session's cell can be asked now. */
void execution_kills_synced(struct session *s);
/* The cell is gone, and everything in it. */
void execution_kills_lost(struct session *s);
