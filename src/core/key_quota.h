/* key_quota.h - how many keys a tenant may have, and how fast it may make them. */
#pragma once

#include "core.h"

/* May the tenant make one more key? If so, it is counted. */
int key_quota_take(struct core *c, struct tenant *t, struct err *e) MUST_USE;
