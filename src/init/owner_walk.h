/* owner_walk.h - finds the process that has a socket open, and its mark. Called by owner_finder.c
 * in a process of its own: a search may take tens of milliseconds. */
#pragma once

#include "owner_msg.h"

/* What one search looks at, at most. Programs of the cell choose how much there is. */
#define OWNER_WALK_FDS_MAX 4096
#define OWNER_WALK_PROCESSES_MAX 1024

/* inode: the socket's. uid: who made it; processes of this user are looked at first. Sets the mark
 * of an answer, and its result. */
void owner_walk_find(uint32_t inode, uint32_t uid, struct owner_answer *ret);
