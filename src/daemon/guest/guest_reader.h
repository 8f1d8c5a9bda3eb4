/* guest_reader.h - reads the changed files of a virtual machine, by a built-in of its agent
 * (cell/init/guest/guest_changes.h): no keeper sees the files of a guest. Used by session_diff.c
 * and session_capture.c, with the keeper's readers for all other sessions.
 *
 * The guest's data is untrusted, and so is its timing. */
#pragma once

#include "daemon/session/session.h"

struct guest_reader; /* freed by guest_reader_free() */

/* Are the changes of this session read so? */
bool guest_reader_is_needed(const struct session *s);

/* name: "diff", "frozen-diff" or "capture". With the latter two the programs of the guest stand
 * still until guest_reader_free(). ready begins, and ends when the output can be taken, or with the
 * reason why not, also if the session ends before. The session must have a cell that runs. */
struct guest_reader *guest_reader_new(struct session *s, const char *name,
				      struct completion *ready);
/* The caller owns the descriptor. Only once, after ready has ended without an error. PID 1 may make
 * this pipe blocking or not at any time. */
int guest_reader_take(struct guest_reader *r);
/* End the built-in. ready does not end after this. r may be NULL. */
void guest_reader_free(struct guest_reader *r);

/* ---- for the core's own files: the session has no cell any more. */
void guest_readers_lost(struct session *s, const struct err *why);
