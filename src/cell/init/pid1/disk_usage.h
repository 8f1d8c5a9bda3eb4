/* disk_usage.h - how full the cell's disk is, the file system that all its writes go to, and in how
 * many samples it was full. Called by main.c and programs.c. Theory of operation: disk_usage.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/wire/agent_msg.h"

/* In how many samples no bytes, or no inodes, were free, and how often that began. */
struct disk_usage_samples {
	uint64_t full, inodes_full, filled, inodes_filled;
};

extern struct disk_usage_samples disk_usage_total;

/* The last sample, and the pause before the next. */
struct disk_usage {
	uint64_t free, inodes_free;
	bool full, inodes_full;
	uint64_t pause_ns, next_ns, unchanged_ns;
};

struct statfs;

/* Take one sample into account, and set d->pause_ns. Pure. For disk_usage_sample() and tests. */
void disk_usage_note(struct disk_usage *d, struct disk_usage_samples *total,
		     const struct statfs *fs);
/* The next samples are close together. */
void disk_usage_restart(struct disk_usage *d);

void disk_usage_sample(void);

/* A program starts, or is asked for something: takes a sample, and more are close together again.
 */
void disk_usage_begin(void);

/* Take a sample if one is due. running: any program runs. Without one none is taken. */
void disk_usage_turn(bool running, uint64_t now_ns);

/* When the next is due. 0: never. */
uint64_t disk_usage_wake_ns(void);

/* Take a sample, and fill in what STATED has of the disk. */
void disk_usage_stat(struct agent_event *v);
