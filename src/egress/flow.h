/* flow.h - a connection of a cell, from the moment it is accepted: what it is, whether it may be,
 * and whom to give it to. */
#pragma once

#include "guest.h"

/* Accepts what waits at the guest's listener, a bounded number at a time. */
void flow_accept(struct guest *g);
/* The policy is another one: what no longer complies is cut, with a record; what goes on is by a
 * rule of the new one. The old policy's rules are gone after this call. */
void flow_recheck(struct guest *g);
void flow_cut_all(struct guest *g);
