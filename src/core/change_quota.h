/* change_quota.h - how many bytes of policies and secrets a tenant may change in a time. */
#pragma once

#include <stddef.h>

#include "err.h"

struct tenant;

/* May the tenant change so many bytes now? They are counted if so. Asked before they are parsed.
 * ERR_LIMIT: in a second. */
int change_quota_take(struct tenant *t, size_t bytes, struct err *e) MUST_USE;
