/* filter.h - system-call filters (seccomp). Installed for good, for the process and its children.
 */
#pragma once

#include "err.h"
#include "keeper_msg.h"

/* The profile's filter, compiled at build time from syscalls.def. */
int filter_calls(enum keeper_profile profile, struct err *e) MUST_USE;

/* Refuses to give a file the set-user-id or set-group-id bit. */
int filter_setid(struct err *e) MUST_USE;
