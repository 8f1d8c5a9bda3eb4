/* resolver_queue.h - lookups that wait because too many names are being asked for, and which of
 * them is next. For resolver*.c only. */
#pragma once

#include "lib/outbound/resolver_private.h"

/* May a name be asked for, for this owner (NULL: none), now? */
bool resolver_queue_may(const struct resolver *r, const struct resolver_owner *o);
void resolver_queue_init(struct resolver *r);
/* Bound the open names to this process's part of the node's bound. */
void resolver_queue_divide(struct resolver *r, unsigned processes);
void resolver_queue_release(struct resolver *r);
void resolver_queue_add(struct resolver_job *j);
void resolver_queue_remove(struct resolver_job *j);
