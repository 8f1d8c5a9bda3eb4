/* audit_witness.h - cordon audit witness: has witnesses (C2SP tlog-witness) cosign the last
 * checkpoint, and gives their signatures to the server. cordond makes no connections, so the
 * operator runs this, from cron for example.
 *
 * A witness remembers the last checkpoint that it saw of each log. It gets the new one with the
 * consistency proof from there, verifies it as cordon-notary does, and signs with the time. */
#pragma once

#include "cmd/client/args.h"

struct audit_witness {
	const char *tenant; /* NULL: the key's own log */
	const char *out;    /* a file for the checkpoint with all signatures. NULL: none */
	/* URL and verifier key of each witness, one after the other. */
	const char *const *words;
	size_t n;
};

/* Return the exit status: 0 if all have cosigned. */
int audit_witness_run(const struct verb *v, const struct args_common *o,
		      const struct audit_witness *w);
