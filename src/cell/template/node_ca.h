/* node_ca.h - the node's certificate authority (CA), which signs the certificates that
 * cordon-egress presents to cells. `cordon-egress --create-ca` makes it once. It is kept in the
 * cache (cache_dir.h) as authority.pem, readable by its owner only. Called by cordon run and cordon
 * serve.
 *
 * The file is text: a first line "# 1a2b3c4d.0", the name by which OpenSSL finds the certificate,
 * then a private key and a certificate in PEM. */
#pragma once

#include <stddef.h>

#include "lib/base/err.h"

#define NODE_CA_TEXT_MAX 16384
#define NODE_CA_LINK_MAX 16

struct node_ca {
	char link[NODE_CA_LINK_MAX];
	char cert[NODE_CA_TEXT_MAX]; /* the certificate alone: public */
	int fd;			     /* owned: the file, key and all, for cordon-egress, or -1 */
};

/* Open the node's CA. ERR_NOT_FOUND: there is none. Make one, node_ca_save() it, and open again.
 */
int node_ca_open(struct node_ca *ret, struct err *e) MUST_USE;
void node_ca_release(struct node_ca *a);

/* Write a new CA, completely or not at all. If another process was first, its file is kept, and
 * the call succeeds. */
int node_ca_save(const char *text, size_t len, struct err *e) MUST_USE;

/* Parse the text. Fd is -1. ERR_INVALID if it is malformed. Pure. */
int node_ca_read(const char *text, size_t len, struct node_ca *ret, struct err *e) MUST_USE;
