/* disk_usage.h - how full the cell's disk is, the file system that all its writes go to, and in how
 * many samples it was full. Called by main.c and programs.c. Theory of operation: disk_usage.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent_msg.h"

/* In how many samples no bytes, or no inodes, were free; and how often that began. */
struct disk_usage_samples {
	uint64_t full, inodes_full, filled, inodes_filled;
};

extern struct disk_usage_samples disk_usage_total;

void disk_usage_sample(void);

/* A program starts: takes a sample, and more are close together again. */
void disk_usage_begin(void);

/* Takes a sample if one is due. running: any program runs; without one none is taken. */
void disk_usage_turn(bool running, uint64_t now_ns);

/* When the next is due; 0: never. */
uint64_t disk_usage_wake_ns(void);

/* Fills in disk_bytes, disk_limit_bytes and inodes. */
void disk_usage_stat(struct agent_event *v);
