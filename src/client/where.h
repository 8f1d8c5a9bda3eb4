/* where.h - which server to talk to, and with which key. */
#pragma once

#include "args.h"

#define WHERE_KEY_MAX 256

/* --server, CORDON_SERVER, or the default. Borrowed. */
const char *where_server(const struct args_common *o);

/* The first of: --key-file, CORDON_API_KEY, ~/.config/cordon/key, the key that a server on this
 * machine wrote at its first start. None at all is "" and no error, but a file that was named must
 * be there, and what is found must look like a key. */
int where_key(const struct args_common *o, char *ret_key, size_t cap, struct err *e) MUST_USE;
