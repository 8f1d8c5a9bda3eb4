/* tls_socket.h - how OpenSSL reads and writes our sockets: its own way uses write(2), which raises
 * SIGPIPE; this one uses send(2). */
#pragma once

#include <openssl/bio.h>

/* For BIO_new(); freed with BIO_meth_free(). The BIO's data is the descriptor, borrowed. NULL: no
 * memory. */
BIO_METHOD *tls_socket_method(void);
