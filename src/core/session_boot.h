/* session_boot.h - the start command of a template in a new session, and how it is known that the
 * session is ready. Called when a session was created, forked or booted again, by those that answer
 * the client.
 *
 * The start command runs in the background as the user of the template, in its directory (that of a
 * code interpreter as root, in /); it is an execution like any other, of the kind SERVICE or
 * INTERPRETER. The ready command is run again and again until it succeeds. A session with a cell of
 * the pool has both behind it (pool_boot.h). */
#pragma once

#include "execution.h"
#include "session.h"

/* In every cell: the server of the code interpreter, and what sends code to it. */
#define SESSION_BOOT_INTERPRETER "/opt/cordon/bin/cordon-interpreter"

/* Does the template of the session have such commands? If not, the session is ready. */
bool session_boot_is_needed(const struct session *s);

/* The session must be running. w ends when it is ready, or with the reason why not: the start
 * command failed, or the ready command did not succeed within ten minutes. If the session ends, so
 * does w. Cancelling w leaves the commands running. */
void session_boot(struct session *s, const struct store_actor *who, struct completion *w);

/* ---- for the core's own files */

/* Starts the start command, or (interpreter) the server of the code interpreter in a session whose
 * template does not have it. */
struct execution *session_boot_start(struct session *s, const struct store_actor *who,
				     bool interpreter, struct err *e) MUST_USE;
enum execution_kind session_boot_kind(const struct store_template *t);
/* In the row of an interpreter, as long as the session's environment was not written to it. */
#define SESSION_BOOT_ENV_OWED "{\"env\":\"owed\"}"
/* The user that the commands run as; t NULL: those of an interpreter. */
const char *session_boot_user(const struct store_template *t, uint32_t profile);
/* How long to wait before the ready command is run again. */
uint64_t session_boot_rest_ms(unsigned tries);
