/* local_cert.h - the node's own authority and the server's certificate (selfsign.h), as files in
 * the state folder:
 *
 *	tls/authority.pem	its key and certificate, readable by cordond only
 *	tls/ca.pem		its certificate, for clients that trust it
 *	tls/server.pem		the server's key and certificate, readable by cordond only
 *
 * A key is in one file with its certificate and files are replaced whole, so that no crash leaves
 * two that do not belong together. */
#pragma once

#include <stdint.h>

#include "err.h"

#define LOCAL_CERT_SERVER "tls/server.pem"

/* Makes what is missing, damaged, for another domain or about to expire, and logs it.
 * Works in confinement. On failure files that were good still are. domain, now: as selfsign.h has
 * them. *ret_renew_at: when to call it again. */
int local_cert_keep(int state_fd, const char *domain, int64_t now, int64_t *ret_renew_at,
		    struct err *e) MUST_USE;
