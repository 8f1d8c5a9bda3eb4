/* egress_start.h - starts cordon-egress, or cordon-pull, with its resources: for cordon serve and
 * cordon run. */
#pragma once

#include "cell/template/node_ca.h"
#include "cmd/base/child_process.h"

/* Open the node's CA (node_ca.h). If there is none, cordon-egress creates it with its OpenSSL. The
 * caller releases it. */
int authority_make(struct node_ca *ret, struct err *e) MUST_USE;

struct egress_start {
	const char *program;  /* NULL: cordon-egress */
	int control, channel; /* borrowed. -1: none */
	int authority;	      /* borrowed: the node's key and certificate, read from its start */
	const char *ca; /* file of further authorities that servers are verified by. "": none */
	unsigned log_format, log_level; /* enum log_format, enum log_level */
	unsigned processes;		/* of the node, to divide common bounds. 1 to 8 */
	bool drop;			/* as child_process_start()'s */
	uid_t uid;
	gid_t gid;
};

int egress_start(const struct egress_start *how, pid_t *ret_pid, struct err *e) MUST_USE;

/* Open the node's resolv.conf and hosts. /dev/null in place of a missing file. The caller owns
 * both descriptors. */
void egress_start_names(int ret_fds[2]);
