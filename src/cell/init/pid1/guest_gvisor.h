/* guest_gvisor.h - what PID 1 of a gVisor guest does for each HELLO (guest_link.h): time and random
 * numbers are the machine's, the host name and the limit of open files were set by runsc. */
#pragma once

#include <stdbool.h>

#include "lib/wire/guest_msg.h"

/* Set by guest_gvisor_init(). */
extern bool guest_gvisor_is_used;

/* The words behind "guest" of cordon-init's command line: none, or the user id and the group id of
 * the locked profile. */
void guest_gvisor_init(int argc, char **argv);

/* Set the limit of processes and the machine id. Then, the first time, gives up all rights if the
 * profile is locked. Return the set of GUEST_NO_* that failed. *ret_sys is the first errno. */
uint32_t guest_gvisor_apply(const struct guest_hello *h, int *ret_sys);
