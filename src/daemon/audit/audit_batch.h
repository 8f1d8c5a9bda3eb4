/* audit_batch.h - many rows as one audit record: their number and the root of the Merkle tree whose
 * leaves they are (tlog.h). Called by egressctl/net_batch.c. `cordon audit records` makes the same
 * trees of the records that a client reads. Pure. */
#pragma once

#include <stdint.h>

#include "daemon/store/store_net.h"
#include "lib/base/err.h"
#include "lib/json/json.h"
#include "lib/tlog/tlog.h"

struct audit_batch {
	struct tlog_range tree;
	uint64_t first, last; /* rows. 0: there is none */
	uint64_t lost;	      /* records that cordon-egress had to drop before these */
};

/* A network record as every interface shows it: the row's number, time, session and execution in
 * front of its data. These bytes are the leaf, so they never change for a row that is stored. */
void audit_batch_show(struct json *j, const char *name, const struct store_net *row);

/* Add a row. Rows come in the order of their numbers. */
int audit_batch_add(struct audit_batch *b, const struct store_net *row, struct err *e) MUST_USE;
/* The root as hexadecimal digits. */
void audit_batch_root(const struct audit_batch *b, char ret[2 * TLOG_HASH + 1]);
