/* run_net.h - network access for the cell of `cordon run`: its own cordon-egress, which ends with
 * its channel. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cell/cellctl/agent_client.h"
#include "cell/template/node_ca.h"
#include "cmd/run/run_options.h"
#include "cmd/run/run_result.h"
#include "lib/base/buf.h"
#include "lib/wire/egress_msg.h"

/* The hosts that the network policy of `cordon run` refused, and whether a cell
 * without network access was asked for a host: for one line at the end of the command. The network
 * is closed by default, and programs say that in many ways, or not at all. */
#define RUN_REFUSED_SHOWN 3
#define RUN_REFUSED_HOST 254

struct run_refused {
	char hosts[RUN_REFUSED_SHOWN][RUN_REFUSED_HOST];
	size_t n;
	bool more;  /* other hosts, too */
	bool tried; /* without network access: a program looked for a host by its name */
};

/* Look into the network of the cell whose PID 1 this is, before the cell ends. */
void run_refused_look(struct run_refused *r, int pidfd);
/* Print the line on stderr, if there is one. */
void run_refused_say(const struct run_refused *r);

struct run_net {
	const struct run_options *o;	   /* borrowed */
	struct run_result_network *result; /* borrowed: what happened, counted here */
	struct node_ca authority;
	char id[EGRESS_ID_MAX]; /* "": not attached */
	pid_t pid;		/* 0: none */
	int sock;		/* owned: channel C, or -1 */
	int log;		/* owned: where records go. -1 */
	struct buf in, order;
	struct run_refused refused; /* for the line at the end */
};

/* Initialise it, so that run_net_close() is safe. */
void run_net_init(struct run_net *n);
/* Check the options. -1: they are wrong. */
int run_net_check(struct run_net *n, const struct run_options *o, struct run_result_network *result,
		  struct err *e) MUST_USE;
/* Start cordon-egress, if it is wanted. *ret: the authority that the cell shall trust, borrowed,
 * or NULL. */
int run_net_open(struct run_net *n, const struct node_ca **ret, struct err *e) MUST_USE;
/* With the answer to agent_send_listen_egress(), whose descriptors it takes. sys: its errno, or 0.
 * Return when the policy is in force. ERR_INVALID: the policy is not valid. */
int run_net_attach(struct run_net *n, const char *id, struct agent *agent, int sys,
		   struct err *e) MUST_USE;
/* Read all arrived records. */
void run_net_receive(struct run_net *n);
/* The cell is gone: reads the rest and waits for cordon-egress to end. */
void run_net_close(struct run_net *n);
