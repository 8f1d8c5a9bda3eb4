/* server_address.h - the server to use, and the key for it. */
#pragma once

#include "args.h"

#define SERVER_ADDRESS_KEY_MAX 256

/* --server, CORDON_SERVER, or the default. Borrowed. */
const char *server_address(const struct args_common *o);

/* Names the place of the key that server_address_key() found; "" if it found none. */
const char *server_address_key_place(void);

/* The first of: --key-file, CORDON_API_KEY, ~/.config/cordon/key, the key that a server on this
 * machine wrote at its first start. None at all is "" and no error, but a file that was named must
 * be there, and what is found must look like a key. */
int server_address_key(const struct args_common *o, char *ret_key, size_t cap,
		       struct err *e) MUST_USE;
