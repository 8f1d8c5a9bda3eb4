/* ca_trust.h - makes the programs of a template trust the node's CA. */
#pragma once

#include "cell/template/node_ca.h"

/* Add the certificate to the template's /etc (etc is a descriptor of it): as ssl/certs/cordon.pem
 * with the link by which OpenSSL finds it, to each bundle of certificates (Debian's is made if it
 * does not exist), and to Java's key store, if it has the format JKS. */
int ca_trust_add(int etc, const struct node_ca *a, struct err *e) MUST_USE;
