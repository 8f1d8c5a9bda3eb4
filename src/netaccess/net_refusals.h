/* net_refusals.h - the last hosts that a session was refused, for the answers of executions: what
 * was refused while one ran is said with its result. The whole list is in the network records. */
#pragma once

#include "json.h"
#include "session.h"

struct access_record_text;
struct net_refusal;
struct store_execution;

#define NET_REFUSALS_MAX 16 /* kept for a session */

/* Of a session; all zeros: none yet. */
struct net_refusals {
	struct net_refusal *at; /* owned; NULL: none yet */
	unsigned n;		/* since the start; the ring has the last ones */
};

/* A record that says so; execution: "" if it is not known. */
void net_refusals_add(struct net_refusals *l, const struct access_record_text *r,
		      const char *execution);
void net_refusals_release(struct net_refusals *l);

/* The member "denied" of an execution: [{"kind", "name", "reason"}], each host once. Those of other
 * executions are left out. Nothing is written if the session has ended. */
void net_refusals_write(struct core *c, const struct store_execution *row, struct json *j);
/* The same in one line for people, with its end of line. "": nothing was refused. */
#define NET_REFUSALS_LINE 512
void net_refusals_line(struct core *c, const struct store_execution *row,
		       char ret[NET_REFUSALS_LINE]);
