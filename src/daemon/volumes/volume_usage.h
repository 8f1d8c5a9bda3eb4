/* volume_usage.h - the disk space of a volume, as cordon-storage finds it. Called by the native
 * interface. */
#pragma once

#include "daemon/disk/storage_link.h"
#include "daemon/volumes/volume.h"

struct volume_usage {
	struct completion done;	 /* the owner's */
	uint64_t bytes, entries; /* valid when done has ended without error */
	/* The rest is for volume_usage.c only. */
	struct storage_job job;
	struct volume_node *node;
};

/* done ends when the numbers are known. */
void volume_usage_ask(struct core *c, const struct store_volume *v, struct volume_usage *u);
void volume_usage_cancel(struct volume_usage *u);
