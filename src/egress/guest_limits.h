/* guest_limits.h - what a guest may use: connections, requests per minute, bytes; by its policy as
 * a whole and by rule. */
#pragma once

#include "guest.h"

struct rates;

/* For a guest's policy. Counts of rules begin anew with every policy; the guest's own go on. */
int limits_renew(struct guest *g, struct err *e) MUST_USE;
void limits_free(struct rates *r);

/* Each: false, and why, if it is too much. rule: that allowed it, or NULL. */
bool limits_connection(struct guest *g, const struct policy_rule *rule, const char **ret_why);
/* One that limits_connection() counted is over. version: g->version when it was counted. */
void limits_connection_over(struct guest *g, const struct policy_rule *rule, uint64_t version);
bool limits_request(struct guest *g, const struct policy_rule *rule, const char **ret_why);
/* Counts them into the guest's totals, too. */
bool limits_bytes(struct guest *g, const struct policy_rule *rule, uint64_t out, uint64_t in,
		  const char **ret_why);
