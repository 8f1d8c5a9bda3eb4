/* tls_socket.h - how OpenSSL reads and writes sockets here: its own method uses write(2), which
 * raises SIGPIPE; this one uses send(2). Called by tls.c. */
#pragma once

#include <openssl/bio.h>

/* For BIO_new(); freed with BIO_meth_free(). The BIO's data is the descriptor, borrowed. NULL:
 * out of memory. */
BIO_METHOD *tls_socket_method(void);
