/* egress_start.h - starts cordon-egress, or cordon-pull, with what it may use: for cordon serve and
 * cordon run. */
#pragma once

#include "child_process.h"

struct egress_start {
	const char *program;  /* NULL: cordon-egress */
	int control, channel; /* borrowed; -1: none */
	int authority;	      /* borrowed: the node's, key and certificate; read from its start */
	const char *ca; /* file of further authorities that servers are verified by; "": none */
	unsigned log_format, log_level; /* enum log_format, enum log_level */
	unsigned processes;		/* of the node, to divide what is bounded for all; 1 to 8 */
	bool drop;			/* as child_process_start()'s */
	uid_t uid;
	gid_t gid;
};

int egress_start(const struct egress_start *how, pid_t *ret_pid, struct err *e) MUST_USE;

/* Opens the node's resolv.conf and hosts; /dev/null in place of a missing file. The caller owns
 * both descriptors. */
void egress_start_names(int ret_fds[2]);
