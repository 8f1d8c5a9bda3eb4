/* disk_usage.h - the one file system that all writes of a cell go to: how full it is, and was. */
#pragma once

#include <stdint.h>

#include "agent_msg.h"

/* How many samples found no bytes, or no inodes, free. */
struct disk_usage_samples {
	uint64_t full, inodes_full;
};

extern struct disk_usage_samples disk_usage_total;

void disk_usage_sample(void);

/* Fills in disk_bytes, disk_limit_bytes and inodes. */
void disk_usage_stat(struct agent_event *v);
