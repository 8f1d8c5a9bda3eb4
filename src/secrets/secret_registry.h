/* secret_registry.h - a secret as the credentials of a registry: its value is "user:password".
 * Called by images/image_pull.c. The value is in the clear until the caller wipes it. */
#pragma once

#include "secret.h"

/* host: of the registry, without its port; if the secret is bound to hosts, it must be one of them.
 * *ret is malloc'ed: user, NUL, password, NUL; the caller wipes and frees *ret_len bytes. */
int secret_registry_open(struct core *c, const struct tenant *t, const char *which,
			 const char *host, char **ret, size_t *ret_len, struct err *e) MUST_USE;
