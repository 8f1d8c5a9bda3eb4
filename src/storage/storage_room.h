/* storage_room.h - the part of the disk that stays free (setting storage_reserve), for operations
 * that write much. Others write at the same time, also to the same file system, so everything that
 * writes the content of files says so here, before each piece. The file system is looked at every
 * STORAGE_ROOM_STEP bytes, and must have STORAGE_ROOM_MARGIN above the reserve then: so many
 * operations at once take little of the reserve.
 *
 * A process does one job, so the bytes it has written are a number of the process. */
#pragma once

#include <stdint.h>

#include "lib/base/err.h"

#define STORAGE_ROOM_STEP (4U << 20)
#define STORAGE_ROOM_MARGIN (16U << 20)

/* How much of the file system stays free, in percent. 0, and before it is called: all may be
 * written. */
void storage_room_keep(uint32_t percent);

/* So many bytes are about to be written to the file system of fd. REASON_STORAGE_FULL: there is no
 * room for them. */
int storage_room_take(int fd, uint64_t bytes, struct err *e) MUST_USE;
