/* store_allow.h - what sessions may be made by a tenant or with a key: ten columns of both
 * tables. Each is narrower than what is above it: the key than the tenant, the tenant than the
 * node. */
#pragma once

#include "store.h"

#define STORE_ALLOW_LIST_MAX 256

struct store_allow {
	/* Names, separated by commas; "": all. */
	char templates[STORE_ALLOW_LIST_MAX];
	char levels[STORE_ALLOW_LIST_MAX];
	char networks[STORE_ALLOW_LIST_MAX]; /* names of presets, and "custom" */
	/* What one session may ask for at most; 0: as above it. */
	uint64_t memory_bytes, cpu_millis, pids, disk_bytes, timeout_ms;
	/* Of a key: how many sessions at a time, and in a minute; 0: no limit of its own. */
	uint64_t sessions, creates_per_minute;
};
