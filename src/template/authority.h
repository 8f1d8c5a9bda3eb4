/* authority.h - the node's authority: who signs what cordon-egress shows to cells. Made once by
 * `cordon-egress --create-ca`, kept in the cache (cache.h) as authority.pem, for its owner
 * only.
 *
 * Here it is text: a first line "# 1a2b3c4d.0", under which OpenSSL looks for the certificate, then
 * a private key and a certificate in PEM. */
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

/* Opens the node's. ERR_NOT_FOUND: there is none; make one, authority_save() it, and open again. */
int authority_open(struct authority *ret, struct err *e) MUST_USE;
void authority_release(struct authority *a);

/* Writes a new one, completely or not at all. If another process was faster, its authority is kept,
 * which is a success. */
int authority_save(const char *text, size_t len, struct err *e) MUST_USE;

/* Takes the text apart; fd is -1. ERR_INVALID if it is not of that form. Pure. */
int authority_read(const char *text, size_t len, struct authority *ret, struct err *e) MUST_USE;
