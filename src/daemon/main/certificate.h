/* certificate.h - the certificate of cordond: from the operator's files, which the supervisor
 * reads, or from an authority of the node's own (certificate.c), renewed while the server runs. */
#pragma once

#include "lib/config/config.h"
#include "lib/loop/loop.h"

struct certificate {
	struct tls *tls; /* owned. NULL: no TLS */
	struct loop *loop;
	int state_fd;			/* borrowed */
	char domain[CONFIG_DOMAIN_MAX]; /* without a port */
	char file[CONFIG_PATH_MAX + 32];
	struct loop_timer timer;
	int64_t renew_at; /* seconds since 1970 */
};

/* Open it as the configuration says, before cordond is confined. *c must stay where it is. */
int certificate_open(struct certificate *c, struct loop *loop, int state_fd,
		     const struct config *config, struct err *e) MUST_USE;

/* cordond --check-tls CERT KEY: check the files passed by descriptor. The names are for the message
 * on standard error. Return the exit code. */
int certificate_check(const char *cert_name, const char *key_name);
