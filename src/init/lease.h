/* lease.h - how long the cell lives while no server is connected to it.
 *
 * A lingering cell outlives the server that made it, so that the next server can use it. If no
 * other server is started with the same run_dir, the cell would stay until the machine is
 * restarted. So the server sends PID 1 two times: the lease, how long the cell may be without a
 * connection, and the deadline, when its session ends. While a server is connected they have no
 * effect. Without one the cell ends at the sooner of the two.
 *
 * A new connection drops the deadline: its server may have promised another one to a client before
 * PID 1 ran, and ended before it could send it. A server sends the deadline after READY.
 *
 * Times are of CLOCK_MONOTONIC. It runs on while a cell is frozen, but a frozen PID 1 cannot end
 * anything: such a cell stays until its cgroup is thawed or killed. The server that thaws it
 * connects first, so main.c looks for a connection before it acts on an expired lease.
 *
 * Pure arithmetic. Called by main.c, which ends the cell. */
#pragma once

#include <stdint.h>

void lease_set(uint64_t ms);			       /* 0: no limit */
void lease_set_deadline(uint64_t ms, uint64_t now_ns); /* from now; 0: none */

void lease_on_disconnect(uint64_t now_ns);
void lease_on_connect(void);

/* The cell was frozen for ms: the deadline is later by that. */
void lease_delay_deadline(uint64_t ms);

/* When the cell ends; 0: a server is connected, or there is no limit. */
uint64_t lease_end_ns(void);
