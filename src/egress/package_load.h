/* package_load.h - one load of a view: looked for in the package cache, fetched or confirmed if it
 * is not fresh, and read into facts, piece by piece. Called by package_view.c. */
#pragma once

#include "package_view.h"

/* Begins; package_view_loaded() comes later, from the loop, once. v has no load. any_age: what the
 * cache has is enough, whatever its age. -1: out of memory. */
int package_load_start(struct package_view *v, const struct package_view_ask *ask, bool any_age,
		       struct err *e) MUST_USE;
/* Breaks it off, without that call. */
void package_load_cancel(struct package_view *v);
/* Is it made for this session? */
bool package_load_is_of(const struct package_view *v, const struct egress_session *session);
/* A fetch of some view ended: if this one waits for its turn and may begin, it does. */
void package_load_try(struct package_view *v);
