/* serve_egress.h - cordon-egress under the supervisor's care. It outlives cordond and is outlived
 * by it: whichever of the two is new, they get a new channel C. */
#pragma once

#include "child_process.h"
#include "serve.h"

struct serve_egress {
	struct child_process child;
	int control; /* owned: to cordon-egress; -1 */
	uint64_t look_ns;
	struct serve_stamp {
		uint64_t device, file;
		int64_t size, s, ns;
	} stamps[2]; /* of resolv.conf and hosts when egress got them */
};

/* What the settings name must be there: better said at once than by a program that dies. */
int serve_egress_check(const struct serve *s, struct err *e) MUST_USE;
void serve_egress_init(struct serve_egress *g);
int serve_egress_start(struct serve_egress *g, const struct serve *s, struct err *e) MUST_USE;
/* Both run, and one of them is new. daemon: the control socket of cordond. */
int serve_egress_join(struct serve_egress *g, int daemon, struct err *e) MUST_USE;
/* Tells it if the node's resolver settings have changed; looks at most every few seconds. Returns
 * when to look again. */
uint64_t serve_egress_look(struct serve_egress *g);
/* It shall end, or has. */
void serve_egress_let_go(struct serve_egress *g);
