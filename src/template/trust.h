/* trust.h - makes the programs of a template trust the node's authority. */
#pragma once

#include "authority.h"

/* Adds its certificate to the template's /etc, open as etc: as ssl/certs/cordon.pem with the link
 * that OpenSSL looks for, to each bundle of certificates there is (the one of Debian is made if it
 * is not there), and to Java's, if that is of the usual format. */
int trust_add(int etc, const struct authority *a, struct err *e) MUST_USE;
