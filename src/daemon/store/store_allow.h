/* store_allow.h - which sessions a tenant may create, and which can be created with a key: ten
 * columns of both tables. A key can only narrow its tenant's rules, and a tenant the node's. */
#pragma once

#include "daemon/store/store.h"

#define STORE_ALLOW_LIST_MAX 256

struct store_allow {
	/* Names, separated by commas. "": all. */
	char templates[STORE_ALLOW_LIST_MAX];
	char levels[STORE_ALLOW_LIST_MAX];
	char networks[STORE_ALLOW_LIST_MAX]; /* names of presets, and "custom" */
	/* The most that one session may request. 0: the limit of the tenant or node. */
	uint64_t memory_bytes, cpu_millis, pids, disk_bytes, timeout_ms;
	/* A key's bounds: how many sessions at a time, and in a minute. 0: no limit of its own. */
	uint64_t sessions, creates_per_minute;
};
