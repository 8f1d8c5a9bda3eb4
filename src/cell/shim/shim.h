/* shim.h - shared by the files of cordon-shim: the loop, and the request for work.
 *
 * A callback changes tables and calls shim_wake(). At the end of the turn main.c then does all
 * possible work: sends events to the server, handles its requests, writes to the guest, sets
 * timers. So no file calls into another in a circle, and nothing depends on the order of events
 * within a turn. */
#pragma once

#include <stdbool.h>

#include "lib/loop/loop.h"

extern struct loop *shim_loop;

/* The work at the end of a turn. main.c sets on_run. */
extern struct loop_task shim_settle;

/* Programs of the guest are in the network of the cell, as in gVisor. guest_life.c sets it with the
 * engine. */
extern bool shim_shares_network;

/* New work may be possible. Cheap. Any number of times. */
void shim_wake(void);
