/* guest_gvisor.h - limits and machine id in gVisor. Called by guest_limits.c and guest_root.c where
 * cordon-init did not boot a machine. */
#pragma once

#include "guest_msg.h"

/* For each HELLO: its pids. Returns 0 or an errno. */
int guest_gvisor_limits(const struct guest_hello *h);

/* Writes /dev/machine-id, to which /etc/machine-id leads, as in the cell. Returns 0 or an errno. */
int guest_gvisor_machine_id(const char *id);
