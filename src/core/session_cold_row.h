/* session_cold_row.h - what session_cold.c writes to the row of a session on its way to being cold.
 * A row that says so is written before its cell is ended. */
#pragma once

#include "session.h"
#include "session_states.h"
#include "template_stack.h"

/* Before anything is done: the session pauses, or is paused already, and is to become cold. cold:
 * COLD_TO_CAPTURE, COLD_TO_DISK or COLD_TO_RESET. A daemon that starts again goes on from there
 * (session_cold_again()). */
int session_cold_write_going(struct session *s, uint32_t cold, const struct store_actor *who,
			     struct err *e) MUST_USE;

/* The session is cold, and these are its own layers: one transaction. blank: its next cell gets a
 * new disk. */
/* The same for one whose memory was saved: its layers of kind STORE_LAYER_GUEST_OF_SESSION are
 * these from here on. */
int session_cold_write_memory(struct session *s, const char *root, const char *memory,
			      struct err *e) MUST_USE;
int session_cold_write(struct session *s, const struct template_stack *own, bool blank,
		       struct err *e) MUST_USE;

/* The session has lost its cell, and is cold in any case. The row follows as far as it can be
 * written; if it cannot, the next start finds no cell and comes here again. */
void session_cold_write_lost(struct session *s, const char *why);
