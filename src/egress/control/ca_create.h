/* ca_create.h - cordon-egress --create-ca: creates the CA that cells trust. Called by
 * `cordon`, which stores the output. */
#pragma once

/* Write to the standard output, whole, or the reason of a failure to the standard error:
 *	# 1a2b3c4d.0                   the name under which OpenSSL looks for the certificate
 *	-----BEGIN PRIVATE KEY-----    ...
 *	-----BEGIN CERTIFICATE-----    ...
 * Readers of PEM skip the first line, and a program without OpenSSL can split the rest by its
 * lines. Return the exit status. */
int ca_create(void);
