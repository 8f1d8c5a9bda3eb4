/* package_load.h - one load of a view: looked for in the package cache, fetched or confirmed if it
 * is not fresh, and read into facts, piece by piece. Called by package_view.c. */
#pragma once

#include "egress/packages/package_view.h"

/* Begin. package_view_loaded() comes later, from the loop, once. v has no load. any_age: the
 * cache's document is enough, however old. -1: out of memory. */
int package_load_start(struct package_view *v, const struct package_view_ask *ask, bool any_age,
		       struct err *e) MUST_USE;
/* Break it off, without that call. */
void package_load_cancel(struct package_view *v);
/* One that waits in the queue of another session is broken off, if this session may fetch now: the
 * caller begins another. */
void package_load_take_over(struct package_view *v, const struct package_view_ask *ask);
/* True while no request was sent: it can be cancelled. */
bool package_load_is_waiting(const struct package_view *v);
/* Is it made for this session? */
bool package_load_is_of(const struct package_view *v, const struct egress_session *session);
/* True: the load waited for its turn and has begun to fetch, or has ended. */
bool package_load_try(struct package_view *v);
