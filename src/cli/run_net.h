/* run_net.h - network access of the cell of `cordon run`: a cordon-egress of its own, which ends
 * when its channel does. */
#pragma once

#include "agent_client.h"
#include "node_ca.h"
#include "buf.h"
#include "egress_msg.h"
#include "run_result.h"
#include "run_options.h"

struct run_net {
	const struct run_options *o;	   /* borrowed */
	struct run_result_network *result; /* borrowed: what happened, counted here */
	struct node_ca authority;
	char id[EGRESS_ID_MAX]; /* "": not attached */
	pid_t pid;		/* 0: none */
	int sock;		/* owned: channel C; -1 */
	int log;		/* owned: where records go; -1 */
	struct buf in, order;
};

/* Initialises it, so that run_net_close() is safe. */
void run_net_init(struct run_net *n);
/* Checks the options. -1: they are wrong. */
int run_net_check(struct run_net *n, const struct run_options *o, struct run_result_network *result,
		  struct err *e) MUST_USE;
/* Starts cordon-egress, if it is wanted. *ret: the authority that the cell shall trust, borrowed,
 * or NULL. */
int run_net_open(struct run_net *n, const struct node_ca **ret, struct err *e) MUST_USE;
/* With the answer to agent_send_listen_egress(), whose descriptors it takes; sys: its errno, or 0.
 * Returns when the policy is in force. ERR_INVALID: the policy is not valid. */
int run_net_attach(struct run_net *n, const char *id, struct agent *agent, int sys,
		   struct err *e) MUST_USE;
/* Reads what has arrived. */
void run_net_receive(struct run_net *n);
/* The cell is gone: reads the rest and waits for cordon-egress to end. */
void run_net_close(struct run_net *n);
