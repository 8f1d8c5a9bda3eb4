/* session_service.h - programs that run for as long as their session does: the start command of a
 * template that is to be started again when it ends, and the server of the code interpreter.
 *
 * A session has at most one of each, and each is followed by itself: the server of the interpreter
 * in a session of another template is started when code comes, never by itself.
 *
 * Each start is an execution with a record of its own. A program that ends is started again after a
 * second; each time that it did not run for a minute the wait is doubled, up to 32 seconds. It is
 * not started while its session is paused, and not any more when the session ends or goes cold: the
 * next boot starts it then (session_boot.h). After a restart of the daemon the program is found by
 * the kind of its record. */
#pragma once

#include "session.h"

struct execution;

/* x was started as the start command of the session: writes the environment to its input if it is
 * an interpreter, and from now on starts it again if the template says so. w (may be NULL) ends
 * when the environment was written, or could not be. */
void session_service_follow(struct session *s, struct execution *x, struct completion *w);

/* PID 1 of a session of an earlier daemon has reported all that it holds. */
void session_service_recover(struct session *s);

/* Makes sure that the server of the interpreter runs, or will in a moment. The session is running.
 */
int session_service_interpreter(struct session *s, const struct store_actor *who,
				struct err *e) MUST_USE;

/* Does the interpreter's server belong to this session: has its template one, or was one started
 * for code? It does not matter whether it still runs: the cell has no say in it. */
bool session_service_has_interpreter(struct session *s);

/* The session leaves memory. */
void session_service_free(struct session *s);
