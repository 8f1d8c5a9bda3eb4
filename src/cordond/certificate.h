/* certificate.h - where the certificate of cordond comes from: files of the operator's, which the
 * supervisor lends, or an authority of the node's own (local_cert.h), which renews it while it
 * serves. */
#pragma once

#include "config.h"
#include "loop.h"

struct certificate {
	struct tls *tls; /* owned; NULL: there is no TLS */
	struct loop *loop;
	int state_fd;			/* borrowed */
	char domain[CONFIG_DOMAIN_MAX]; /* without a port */
	char file[CONFIG_PATH_MAX + 32];
	struct loop_timer timer;
	int64_t renew_at; /* seconds since 1970 */
};

/* As the configuration says. *c must stay where it is. Before cordond is confined. */
int certificate_open(struct certificate *c, struct loop *loop, int state_fd,
		     const struct config *config, struct err *e) MUST_USE;

/* cordond --check-tls CERT KEY: whether the files that were lent can be used; the names are for the
 * message, which goes to standard error. Returns the exit code. */
int certificate_check(const char *cert_name, const char *key_name);
