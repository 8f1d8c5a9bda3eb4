/* progress.h - shows the progress of a transfer (bytes, rate, time left), on a terminal only and
 * only after the first 0.7 seconds. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One transfer. done counts the moved bytes, next_ns is the time of the next drawing. */
struct progress {
	const char *name; /* borrowed. Escaped when printed */
	uint64_t total;	  /* UINT64_MAX: not known */
	uint64_t done;
	uint64_t start_ns, next_ns;
	bool shown, wanted;
};

void progress_init(struct progress *p, const char *name, uint64_t total);
void progress_add(struct progress *p, size_t bytes);
void progress_end(struct progress *p); /* removes the line */

/* "12.3M of 50M (24%), 4.1M/s, 9s left". Pure. */
void progress_format(const struct progress *p, uint64_t elapsed_ms, char *ret, size_t cap);
