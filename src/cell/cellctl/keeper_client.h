/* keeper_client.h - starts cordon-keeper, and the client's end of channel A (keeper_msg.h).
 *
 * keeper_client_spawn() is for cordon serve, which passes the client's end to cordond. There
 * daemon/cells/keeper_link.c has the requests. The rest is for cordon run and tests: one keeper of
 * the caller's own, one request at a time, blocking. Replies are checked: the keeper is trusted,
 * but errors in them may quote texts of a cell. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "cell/cellctl/cgroups.h"
#include "lib/wire/keeper_msg.h"

/* A root: a directory below which a server's layers and mounts must be. */
struct keeper_root {
	int fd;	       /* borrowed: O_PATH directory */
	uint32_t uses; /* set of KEEPER_ROOT_* */
};

/* How to start a keeper. */
struct keeper_start {
	int client_end; /* borrowed: the end of channel A that sends requests, SOCK_SEQPACKET */
	int keeper_end; /* borrowed: the keeper's end */
	int userns;	/* borrowed: of rootless_open(), to work on its cells. -1: a new one */
	const struct cgroups *cgroups;
	bool serve;
	bool engines;	 /* cells with an engine may be asked for: pass cordon-shim, too */
	unsigned nroots; /* at most CELL_ROOTS_MAX */
	const struct keeper_root *roots;
};

/* Start cordon-keeper as a child, from the directory of the running program. It exits when no
 * process holds the client's end of channel A. The caller closes its copy of keeper_end. */
int keeper_client_spawn(const struct keeper_start *how, pid_t *ret_pid, struct err *e) MUST_USE;

struct keeper_client {
	pid_t pid;
	int sock;		/* owned */
	struct cgroups cgroups; /* owned */
	struct cell_restrictions
		restrictions; /* of HELLO: the restrictions that the machine can enforce */
};

/* Whether cordon-shim is installed. Without it there are no cells with an engine: the keeper
 * answers ERR_UNSUPPORTED. */
bool keeper_client_has_shim(void);

/* For a program with cells of its own: finds cgroups, makes the channel, starts a keeper. engines:
 * as in keeper_start. Does not wait until the keeper is ready: the caller can do other work before
 * keeper_client_hello(). */
int keeper_client_start(struct keeper_client *ret, bool engines, struct err *e) MUST_USE;

/* Receive HELLO: the machine's restrictions, or why the keeper cannot work here. */
int keeper_client_hello(struct keeper_client *k, struct err *e) MUST_USE;

/* Send a request and receive its reply. An error of the keeper is returned as an error of this
 * call. If ret_fd is not NULL, the caller owns the descriptor that came with the reply, or -1. */
int keeper_client_call(struct keeper_client *k, const void *request, size_t len, const int *fds,
		       size_t nfds, struct keeper_reply *ret, int *ret_fd, struct err *e) MUST_USE;

/* Receive the reply to a request that the caller has sent. */
int keeper_client_receive(struct keeper_client *k, enum keeper_op op, struct keeper_reply *ret,
			  int *ret_fd, struct err *e) MUST_USE;

/* Check a reply of len bytes: version, error of the keeper, operation. Make its strings safe to
 * print. Pure. */
int keeper_client_check_reply(struct keeper_reply *r, size_t len, enum keeper_op op,
			      struct err *e) MUST_USE;

/* Close the channel, so that the keeper destroys its cell and exits, and wait for that. If the
 * keeper was killed, the kernel has killed the cell. Then this removes the cgroup of cell_id (or
 * NULL). */
void keeper_client_stop(struct keeper_client *k, const char *cell_id);
