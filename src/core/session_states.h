/* session_states.h - the table of state changes of doc/sessions.md, which a test compares with it.
 */
#pragma once

#include "session.h"

/* May a session change from one state to the other? */
bool session_states_allow(enum session_state from, enum session_state to);
