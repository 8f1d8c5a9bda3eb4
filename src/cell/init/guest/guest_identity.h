/* guest_identity.h - what makes a virtual machine the one of its session, and not the one that it
 * was cloned from: time, random numbers, names, limits. Called by guest_link.c for each HELLO. */
#pragma once

#include "lib/wire/guest_msg.h"

/* Set all that h has. Return which parts were refused (set of GUEST_NO_*), and why the first of
 * them in *ret_sys. */
uint32_t guest_identity_apply(const struct guest_hello *h, int *ret_sys);
