/* execution_kill.h - process trees of ended executions that are being killed: see execution_kill.c.
 */
#pragma once

#include "session.h"

/* PID 1 of an adopted cell takes requests now: sends those that waited. */
void execution_kills_synced(struct session *s);
/* The cell is gone, and everything in it: those that wait are called. */
void execution_kills_lost(struct session *s);
