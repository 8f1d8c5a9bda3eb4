/* guest_greeting.h - what a guest is told with HELLO. Called by guest_life.c. */
#pragma once

#include <stdbool.h>

#include "boot_msg.h"
#include "guest_msg.h"

/* Names and limits are those of the request; time and random numbers are the machine's, as they are
 * now: a clone has those of its image until then. */
struct guest_hello guest_greeting(const struct boot_request *r, uint64_t generation, bool egress);
