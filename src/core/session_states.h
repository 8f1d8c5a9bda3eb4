/* session_states.h - the table of state changes of doc/sessions.md, which a test compares with it,
 * and what a session has instead of a cell. */
#pragma once

#include "session.h"

/* store_session.cold: the numbers are in rows. */
enum session_cold {
	COLD_NO,
	COLD_CAPTURING,	 /* it has a cell, which may be frozen although it is running */
	COLD_YES,	 /* it has none */
	COLD_TO_CAPTURE, /* pausing: the three ways of session_cold.h */
	COLD_TO_DISK,
	COLD_TO_RESET,
	COLD_BLANK,	/* it has none, and its next one gets a new disk */
	COLD_TO_MEMORY, /* pausing: its memory is being saved */
	COLD_MEMORY,	/* it has none, and its memory is on disk: it goes on where it was */
	COLD_STATES
};

/* Has it no cell, and is to be booted again? */
bool session_is_cold(const struct store_session *row);

/* May a session change from one state to the other? */
bool session_states_allow(enum session_state from, enum session_state to);
