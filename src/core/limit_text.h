/* limit_text.h - values of limits in errors, as people write them: memory and disk with a unit,
 * processors as a number with a fraction. Called by session_spec.c, session_storage.c, allow.c. */
#pragma once

#include <stdint.h>

#define LIMIT_TEXT_MAX 24

struct limit_text {
	char s[LIMIT_TEXT_MAX];
};

/* name: as clients write it: "memory", "cpus", "pids", "disk_read_bps", ... */
struct limit_text limit_text(const char *name, uint64_t value);
