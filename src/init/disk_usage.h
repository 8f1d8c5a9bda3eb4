/* disk_usage.h - how full the cell's disk is, the file system that all its writes go to, and in how
 * many samples it was full. Called by main.c and programs.c. */
#pragma once

#include <stdint.h>

#include "agent_msg.h"

/* In how many samples no bytes, or no inodes, were free. */
struct disk_usage_samples {
	uint64_t full, inodes_full;
};

extern struct disk_usage_samples disk_usage_total;

void disk_usage_sample(void);

/* Fills in disk_bytes, disk_limit_bytes and inodes. */
void disk_usage_stat(struct agent_event *v);
