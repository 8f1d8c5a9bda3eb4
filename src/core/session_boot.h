/* session_boot.h - the start command of a template in a new session, and how it is known that the
 * session is ready. Called when a session was created, forked or booted again, by those that answer
 * the client.
 *
 * The start command runs in the background as the user of the template, in its directory; it is an
 * execution like any other. The ready command is run again and again until it succeeds. */
#pragma once

#include "session.h"

/* Does the template of the session have such commands? If not, the session is ready. */
bool session_boot_is_needed(const struct session *s);

/* The session must be running. w ends when it is ready, or with the reason why not: the start
 * command failed, or the ready command did not succeed within ten minutes. If the session ends, so
 * does w. Cancelling w leaves the commands running. */
void session_boot(struct session *s, const struct store_actor *who, struct completion *w);
