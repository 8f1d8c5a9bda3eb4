/* storage_room.h - the part of the disk that stays free (setting storage_reserve), for operations
 * that write much: they look once in STORAGE_ROOM_STEP bytes, because others write at the same
 * time. */
#pragma once

#include <stdint.h>

#include "err.h"

#define STORAGE_ROOM_STEP (64U << 20)

/* Is there room for so many bytes more on the file system of fd? REASON_STORAGE_FULL. */
int storage_room_check_bytes(int fd, uint32_t percent, uint64_t bytes, struct err *e) MUST_USE;
/* Is there room for STORAGE_ROOM_STEP bytes more on the file system of fd? REASON_STORAGE_FULL. */
int storage_room_check(int fd, uint32_t percent, struct err *e) MUST_USE;
