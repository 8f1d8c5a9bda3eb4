/* session_reboot.h - the start command of a session that has a cell again. Those that wait for the
 * session to be running wait until it is ready, too: a request that woke it may be for a server
 * that the command starts. Called by session_cold.c. */
#pragma once

#include "session.h"

/* Its new cell is up; its parts are not started yet. Does nothing if there is no such command. */
void session_reboot_begin(struct session *s);
/* The session leaves memory. */
void session_reboot_free(struct session *s);
