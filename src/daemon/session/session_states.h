/* session_states.h - the table of state changes of doc/sessions.md, which a test compares with it,
 * and the forms of a session without a cell. */
#pragma once

#include "daemon/session/session.h"

/* store_session.cold: the numbers are in rows. */
enum session_cold {
	COLD_NO,
	COLD_CAPTURING,	 /* with a cell, which may be frozen although the session is running */
	COLD_YES,	 /* no cell */
	COLD_TO_CAPTURE, /* pausing: the three ways of session_suspend.h */
	COLD_TO_DISK,
	COLD_TO_RESET,
	COLD_BLANK,	/* no cell, and the next cell starts with an empty disk */
	COLD_TO_MEMORY, /* pausing: its memory is being saved */
	COLD_MEMORY, /* no cell, and its memory is on disk: its programs continue in the next cell
		      */
	COLD_STATES
};

/* store_session.room: see session_room.h. The numbers are in rows. */
enum session_room {
	ROOM_FREE,
	ROOM_PAUSED, /* for lack of room on disk: it is resumed when there is some */
	ROOM_KEPT,   /* the same, and a client has paused it, too: it stays paused */
	ROOM_ALARM,  /* not for lack of room, but by an alarm: it is resumed on request only */
};

/* Does it have no cell, and will the next use boot it? */
bool session_is_cold(const struct store_session *row);

/* May a session change from one state to the other? */
bool session_states_allow(enum session_state from, enum session_state to);
