/* open_path.h - openat2(2) for built-ins, also where a cell's filter refuses it.
 *
 * In a cell that can write to a directory of the machine the filter of set-id bits
 * (cell/keeper/restrict.c) answers openat2 with ENOSYS: its mode is behind a pointer. There the
 * path is walked here, one name at a time, with the same rules. ".." is refused beneath a
 * directory. */
#pragma once

#include <stdint.h>

/* flags: no O_CREAT. resolve: of RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS and RESOLVE_NO_MAGICLINKS.
 * Return a descriptor that the caller owns, or -1 with errno as openat2 sets it. */
int open_path(int dir_fd, const char *path, uint64_t flags, uint64_t resolve);

/* The walk alone. For tests, which compare it with openat2. */
int open_path_walk(int dir_fd, const char *path, uint64_t flags, uint64_t resolve);
