/* shim.h - what the files of cordon-shim share: the loop, and how work is asked for.
 *
 * A callback changes tables and calls shim_wake(). At the end of the turn main.c then does all that
 * may be possible now: sends reports to the server, handles its requests, writes to the guest, sets
 * timers. So no file calls into another in a circle, and nothing depends on the order of events
 * within a turn. */
#pragma once

#include "loop.h"

extern struct loop *shim_loop;

/* Something may be possible that was not before. Cheap; any number of times. */
void shim_wake(void);
