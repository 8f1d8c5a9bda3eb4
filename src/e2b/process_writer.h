/* process_writer.h - bytes on their way into one process, which may take them slowly. */
#pragma once

#include "process_find.h"
#include "rpc.h"

struct process_writer {
	struct execution *x; /* stays in memory while followed */
	struct execution_follower follower;
	struct request *r;
	void (*on_done)(struct request *r); /* all of it was taken, or it failed */
	uint8_t *bytes;			    /* owned */
	size_t len, taken;
	size_t counted; /* see rpc_count() */
	bool to_pty, busy, failed;
	char why[160]; /* it failed */
};

/* The bytes in a message's member "input" (a ProcessInput), or `lifted`, the bytes that
 * rpc_read_with_bytes() decoded before (NULL: none), which are taken over. Returns 1, 0 if it holds
 * neither kind, -1: ERR_INVALID; ERR_LIMIT, if too much is being kept for all clients. Not while
 * busy. */
int process_writer_read(struct process_writer *w, const json_t *message, struct buf *lifted,
			struct err *e) MUST_USE;

/* Sets the process that gets them. */
void process_writer_follow(struct process_writer *w, struct request *r, struct session *s,
			   struct execution *x, void (*on_done)(struct request *r));
/* Writes them; on_done is called, from inside or later. */
void process_writer_give(struct process_writer *w);
/* In the request's release function. Safe if it is all zero. */
void process_writer_release(struct process_writer *w);
