/* guest_pressure.h - kills the largest program of a virtual machine whose programs do nothing but
 * wait for memory. See guest_boot.h.
 *
 * A kernel without swap kills for memory only when nothing can be given up any more. Pages of files
 * always can: programs that take nearly all memory leave no room for their own code, which the
 * kernel then reads from the disk again and again, for minutes, before it kills anything. So
 * the machine's first process is told by the kernel when that has taken two of five seconds,
 * and has it kill: the same choice, and the same counter, as if memory had run out. */
#pragma once

#include <sys/types.h>

#include "own.h"

struct err;

/* Called once, when the cgroup of programs has been made (a descriptor of its directory). */
int guest_pressure_init(int cgroup, struct err *e) MUST_USE;

/* In the agent: closes what the first process alone uses. */
void guest_pressure_leave(void);

/* In the machine's first process, which keeps no other descriptor than the standard ones: returns
 * when process `agent`, its child, has ended. */
void guest_pressure_watch(pid_t agent);
