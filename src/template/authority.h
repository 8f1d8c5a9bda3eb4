/* authority.h - the node's certificate authority (CA), which signs the certificates that
 * cordon-egress presents to cells. `cordon-egress --create-ca` makes it once; it is kept in the
 * cache (cache.h) as authority.pem, readable by its owner only. Called by cordon run and cordon
 * serve.
 *
 * The file is text: a first line "# 1a2b3c4d.0", the name by which OpenSSL finds the certificate,
 * then a private key and a certificate in PEM. */
#pragma once

#include <stddef.h>

#include "err.h"

#define AUTHORITY_TEXT_MAX 16384
#define AUTHORITY_LINK_MAX 16

struct authority {
	char link[AUTHORITY_LINK_MAX];
	char cert[AUTHORITY_TEXT_MAX]; /* the certificate alone: public */
	int fd;			       /* owned: the file, key and all, for cordon-egress; or -1 */
};

/* Opens the node's CA. ERR_NOT_FOUND: there is none; make one, authority_save() it, and open again.
 */
int authority_open(struct authority *ret, struct err *e) MUST_USE;
void authority_release(struct authority *a);

/* Writes a new CA, completely or not at all. If another process has written one first, that one is
 * kept, which is a success. */
int authority_save(const char *text, size_t len, struct err *e) MUST_USE;

/* Parses the text; fd is -1. ERR_INVALID if it is malformed. Pure. */
int authority_read(const char *text, size_t len, struct authority *ret, struct err *e) MUST_USE;
