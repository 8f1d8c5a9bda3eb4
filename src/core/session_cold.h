/* session_cold.h - sessions without a cell: paused, with their files on disk and no memory.
 *
 * A session becomes cold when it is paused without memory, when it is reset, and when a persistent
 * one is put to rest. Its cell is ended; it keeps its id, settings and limits. Its next resume
 * makes a new cell of the template and the layers that it has of its own (its upper directories,
 * captured, or for disk sessions its disk) with fresh processes. A cold session survives every
 * restart, also of the machine. It is not counted as memory, processes or sessions of its tenant;
 * what it has on disk is counted as stored bytes.
 *
 * store_session.cold says how far it is, so that a daemon that dies at any step is followed by one
 * that goes on: the row is written before the cell is ended, and a cell of a cold session is ended
 * whenever one is found. */
#pragma once

#include "session_states.h"

/* What becomes of the files it has written. */
enum cold_how {
	COLD_CAPTURE, /* they become a layer of the session */
	COLD_DISK,    /* they are on its disk, which stays */
	COLD_RESET,   /* they are dropped: the session begins again */
	COLD_KEEP,    /* they are in its memory, which is saved with its processes */
};

/* Pauses the session and ends its cell; w ends when the cell is gone and its memory is free. A
 * session that is paused with its memory becomes cold, too; a virtual machine goes on for that,
 * until its files are read. w may be NULL. */
void session_cold_pause(struct session *s, enum cold_how how, const struct store_actor *who,
			struct completion *w);

/* Back to the start, under the same id: drops what it has written, and boots it again. w ends when
 * it is usable. */
void session_cold_reset(struct session *s, const struct store_actor *who, struct completion *w);
/* Boots a session that is paused with its memory as if it had been paused without. */
void session_cold_reboot(struct session *s, const struct store_actor *who, struct completion *w);

/* Persistent sessions: is kept without a cell, whatever ended that? */
bool session_is_kept(const struct store_session *row);

/* ---- for the core's own files */

/* Begins to make a cell for a cold session: session_resume(). */
void session_cold_wake(struct session *s, const struct store_actor *who);
/* Its new cell is up, or could not be made. */
void session_cold_up(struct session *s, const struct err *e);
/* It could not be woken, perhaps in order to read its files. */
void session_cold_not_woken(struct session *s, const struct err *e);
/* After a start: true if it is cold, and nothing else is to be done for it. */
bool session_cold_restore(struct session *s);
/* The cell of a session that is kept has died (s->cell), or is not there after a start (NULL): the
 * session becomes cold. why: a constant text. */
void session_cold_lost(struct session *s, const char *why);
/* After a start: an earlier daemon was about to make it cold. */
void session_cold_again(struct session *s);
/* After a start: an earlier daemon was saving its memory; it runs. */
void session_cold_undo(struct session *s);
/* The session ends. True: its cell is being ended already, and session_stopped_soon() follows. */
bool session_cold_stopping(struct session *s, const struct err *why);
/* It leaves memory. */
void session_cold_free(struct session *s);
