/* ca_create.h - cordon-egress --make-authority: a new authority for whoever keeps it. */
#pragma once

/* Writes to the standard output, whole, or says on the standard error why not:
 *	# 1a2b3c4d.0                   the name OpenSSL looks for the certificate under
 *	-----BEGIN PRIVATE KEY-----    ...
 *	-----BEGIN CERTIFICATE-----    ...
 * Any reader of PEM skips the first line, and one without OpenSSL can take it all apart. Returns
 * the status to exit with. */
int ca_create(void);
