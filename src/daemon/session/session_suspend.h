/* session_suspend.h - sessions without a cell: paused, with their files on disk and no memory.
 *
 * A session becomes cold when it is paused without memory, when it is reset, and when a persistent
 * one is put to rest. Its cell is ended. It keeps its id, settings and limits. Its next resume
 * makes a new cell of the template and the session's own layers (its captured upper directories, or
 * for disk sessions its disk) with fresh processes. A cold session survives every restart, also of
 * the machine. It is not counted as memory, processes or sessions of its tenant. Its files on disk
 * are counted as stored bytes.
 *
 * store_session.cold records the progress, so that the next daemon continues after one that died at
 * any step: the row is written before the cell is ended, and any cell of a cold session is ended.
 */
#pragma once

#include "daemon/session/session_states.h"

/* The fate of the files that the session has written. */
enum cold_how {
	COLD_CAPTURE, /* they become a layer of the session */
	COLD_DISK,    /* they are on its disk, which stays */
	COLD_RESET,   /* they are dropped: the session begins again */
	COLD_KEEP,    /* they are in its memory, saved with its processes */
};

/* Pause the session and end its cell. w ends when the cell is gone and its memory is free. A
 * session paused with its memory becomes cold, too. A virtual machine runs for that, until its
 * files are read. w may be NULL. */
void session_cold_pause(struct session *s, enum cold_how how, const struct store_actor *who,
			struct completion *w);

/* Reset the session under the same id: drop its files, and boot it again. w ends when it is usable.
 */
void session_cold_reset(struct session *s, const struct store_actor *who, struct completion *w);
/* Boot a session paused with its memory as if it had been paused without. */
void session_cold_reboot(struct session *s, const struct store_actor *who, struct completion *w);

/* Is the session kept without a cell, whatever ended the cell? True for persistent sessions. */
bool session_is_kept(const struct store_session *row);

/* ---- for the core's own files */

/* Begin to make a cell for a cold session: session_resume(). */
void session_cold_wake(struct session *s, const struct store_actor *who);
/* The new cell is up, or could not be made. */
void session_cold_up(struct session *s, const struct err *e);
/* The session could not be woken, perhaps in order to read its files. */
void session_cold_not_woken(struct session *s, const struct err *e);
/* After a start: true if the session is cold, and nothing else has to be done for it. */
bool session_cold_restore(struct session *s);
/* Make a kept session cold: its cell has died (s->cell), or is missing after a start (NULL). why: a
 * constant text. */
void session_cold_lost(struct session *s, const char *why);
/* After a start: continue, because an earlier daemon was about to make it cold. */
void session_cold_again(struct session *s);
/* After a start: undo, because an earlier daemon was saving the memory of a running session. */
void session_cold_undo(struct session *s);
/* The session ends, and so have its operations. True: it has no cell, or its cell is being ended
 * already, and session_ended_soon() follows. */
bool session_cold_ending(struct session *s);
