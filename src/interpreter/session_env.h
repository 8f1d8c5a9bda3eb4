/* session_env.h - the environment of a new kernel: the server's own, and over it that of the
 * session. Called by context.c. */
#pragma once

#include "buf.h"

/* json: an object of texts (code_request_is_env()), or empty. The caller frees the result with
 * session_env_free(). NULL without memory. */
char **session_env_make(const struct buf *json);
void session_env_free(char **env);
