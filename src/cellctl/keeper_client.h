/* keeper_client.h - channel A, seen from outside: starts a keeper and sends it requests. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "cgroups.h"
#include "keeper_msg.h"

/* A directory below which a server's keeper may find layers and mounts. */
struct keeper_root {
	int fd;	       /* borrowed: O_PATH directory */
	uint32_t uses; /* set of KEEPER_ROOT_* */
};

/* How to start a keeper. */
struct keeper_start {
	int client_end; /* borrowed: the end of channel A (SOCK_SEQPACKET) that requests come from
			 */
	int keeper_end; /* borrowed: the keeper's end */
	int userns;	/* borrowed: rootless_open()'s, to be able to adopt cells; -1: a new one */
	const struct cgroups *cgroups;
	bool serve;
	unsigned nroots; /* at most CELL_ROOTS_MAX */
	const struct keeper_root *roots;
};

/* Starts cordon-keeper, which must stand beside the running program, as a child. It ends when
 * no process holds the other end of channel A. The caller closes its copies of what it lent. */
int keeper_client_spawn(const struct keeper_start *how, pid_t *ret_pid, struct err *e) MUST_USE;

struct keeper_client {
	pid_t pid;
	int sock;			       /* owned */
	struct cgroups cgroups;		       /* owned */
	struct cell_restrictions restrictions; /* what it said of the machine in its HELLO */
};

/* For a program that wants a cell or a few of its own (cordon run): finds cgroups, makes the
 * channel, starts a keeper. It takes its time to look at the machine; what the caller does before
 * keeper_client_hello() is done meanwhile. */
int keeper_client_start(struct keeper_client *ret, struct err *e) MUST_USE;

/* Hears what it says of the machine, or why it cannot work here. */
int keeper_client_hello(struct keeper_client *k, struct err *e) MUST_USE;

/* One request and its reply. A refusal of the keeper is an error like any other. If ret_fd is not
 * NULL, the caller owns the descriptor that came with the reply, or -1. */
int keeper_client_call(struct keeper_client *k, const void *request, size_t len, const int *fds,
		       size_t nfds, struct keeper_reply *ret, int *ret_fd, struct err *e) MUST_USE;

/* Hears the reply to a request that was sent by other means. */
int keeper_client_receive(struct keeper_client *k, enum keeper_op op, struct keeper_reply *ret,
			  int *ret_fd, struct err *e) MUST_USE;

/* Judges a reply of len bytes that was received by other means: its form, then whether the keeper
 * refused. Makes its strings safe. Pure. */
int keeper_client_check_reply(struct keeper_reply *r, size_t len, enum keeper_op op,
			      struct err *e) MUST_USE;

/* Closes the channel, upon which the keeper ends its cells and itself, and waits for that. If it
 * was killed instead, the kernel ends its cells; then this removes the cgroup of the one named,
 * which may be NULL. */
void keeper_client_stop(struct keeper_client *k, const char *cell_id);
