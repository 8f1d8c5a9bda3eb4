/* session_boot.h - runs a template's start command in a new session, and finds out when the session
 * is ready. Callers are the files that create, fork or boot a session and answer the client.
 *
 * The start command runs in the background as the user of the template, in its directory (a code
 * interpreter runs as root, in /). It is an execution of the kind SERVICE or INTERPRETER. The ready
 * command is run again and again until it succeeds. In a session with a cell of the pool both have
 * run already (pool_boot.h).
 */
#pragma once

#include "daemon/execution/execution.h"
#include "daemon/session/session.h"

/* In every cell: the code interpreter's server, and the client that sends code to it. */
#define SESSION_BOOT_INTERPRETER "/opt/cordon/bin/cordon-interpreter"

/* Does the session's template have such commands? If not, the session is ready. */
bool session_boot_is_needed(const struct session *s);

/* Run the commands. The session must be running. w ends when it is ready, or with an error: the
 * start command failed, or the ready command did not succeed within ten minutes. If the session
 * ends, so does w. Cancelling w leaves the commands running. */
void session_boot(struct session *s, const struct store_actor *who, struct completion *w);

/* ---- for the core's own files */

/* Start the start command, or (interpreter) the code interpreter's server in a session whose
 * template does not have it. */
struct execution *session_boot_start(struct session *s, const struct store_actor *who,
				     bool interpreter, struct err *e) MUST_USE;
/* The execution kind of the template's start command. */
enum execution_kind session_boot_kind(const struct store_template *t);
/* The client column of an interpreter's row, as long as the session's environment was not written
 * to the program. */
#define SESSION_BOOT_ENV_OWED "{\"env\":\"owed\"}"
/* The user for the commands. t NULL: for those of an interpreter. */
const char *session_boot_user(const struct store_template *t, uint32_t profile);
/* How long to wait before the ready command is run again. */
uint64_t session_boot_rest_ms(unsigned tries);

/* ---- a session with a new cell
 *
 * The start command runs again. Requests that wait for the session to be running also wait until it
 * is ready, because the request that woke it may be for a server that the command starts. Called by
 * session_suspend.c.
 */

/* Begin to wait for the commands. The new cell is up, its parts are not started yet. Does nothing
 * if there is no such command. */
void session_reboot_begin(struct session *s);
