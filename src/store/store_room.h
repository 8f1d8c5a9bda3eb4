/* store_room.h - room on disk that the store has for itself, so that a file system which sessions
 * have filled does not stop the server: ends of sessions are recorded, reads and deletions work,
 * and cordond starts. Used by store.c only.
 *
 * The journal keeps blocks behind its end (fallocate(2)), more than it uses between checkpoints.
 * They are its own: no other file gets them, and commits need no others. The index of the journal
 * is made anew by the first connection; its blocks come from a small file beside the store, which
 * is given up when the store cannot be opened, and made again when there is room. */
#pragma once

#include <stdbool.h>

#define STORE_ROOM_JOURNAL (24U << 20)
#define STORE_ROOM_START (1U << 20)

/* Takes what is missing of both, as far as there is room. path: of the database. Repeatable. */
void store_room_keep(const char *path);
/* Gives the file beside the store up. False: there was none. */
bool store_room_give_up(const char *path);
