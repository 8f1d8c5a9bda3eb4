/* walls.h - what a process gives up for good. Called once, in the new PID 1, in enter.c's order. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "err.h"
#include "keeper_msg.h"

/* Capabilities beyond the profile's are removed for the process and all its children. file_caps:
 * root of the cell may give capabilities to files. */
int walls_drop_caps(enum keeper_profile profile, bool file_caps, struct err *e) MUST_USE;

/* Nothing but what lies below the current root can be opened, whatever descriptor or mount may
 * turn up; nothing outside can be signalled or reached by abstract socket. */
int walls_landlock(struct err *e) MUST_USE;

/* The kernel's Landlock version as far as we can use it; 0: none. */
int walls_landlock_abi(void);

/* A session keyring of its own, so that the keeper's cannot be searched. */
int walls_keyring(struct err *e) MUST_USE;

int walls_rlimits(uint64_t nofile, struct err *e) MUST_USE;

int walls_no_new_privs(struct err *e) MUST_USE;
