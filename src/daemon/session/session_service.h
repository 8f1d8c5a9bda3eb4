/* session_service.h - programs that run as long as their session: a template's start command with
 * restart, and the code interpreter's server.
 *
 * A session has at most one of each, and each is followed by itself: the interpreter's server in a
 * session of another template is started when code comes, never on its own.
 *
 * Each start is an execution with a record of its own. An ended program is started again after a
 * second. Each time that it did not run for a minute the wait is doubled, up to 32 seconds. It is
 * not started while its session is paused, nor when the session ends or becomes cold: the next boot
 * starts it then (session_boot.h). After a restart of the daemon the program is found by the kind
 * of its record.
 */
#pragma once

#include "daemon/session/session.h"

struct execution;

/* Follow x, the session's start command: write the environment to its input if it is an
 * interpreter, and start it again after its end if the template says so. w (may be NULL) ends when
 * the environment was written, or could not be. */
void session_service_follow(struct session *s, struct execution *x, struct completion *w);

/* Find the programs again: PID 1 of a session of an earlier daemon has reported all held programs.
 */
void session_service_recover(struct session *s);

/* Make sure that the interpreter's server runs, or will in a moment. The session is running. */
int session_service_interpreter(struct session *s, const struct store_actor *who,
				struct err *e) MUST_USE;

/* Does the interpreter's server belong to this session: has its template one, or was one started
 * for code? It does not matter whether it still runs: the cell has no say in it. */
bool session_service_has_interpreter(struct session *s);
