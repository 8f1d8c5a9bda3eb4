#include "disk_usage.h"

#include <sys/statfs.h>

/* An overlay answers for the file system of its upper directory, which is the disk in every
 * profile. */
#define PLACE "/"

struct disk_usage_samples disk_usage_total;

void disk_usage_sample(void)
{
	struct statfs fs;

	if (statfs(PLACE, &fs) < 0)
		return;
	disk_usage_total.full += fs.f_bfree == 0;
	disk_usage_total.inodes_full += fs.f_ffree == 0;
}

void disk_usage_stat(struct agent_event *v)
{
	struct statfs fs;

	if (statfs(PLACE, &fs) < 0)
		return;
	v->disk_bytes = (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
	v->disk_limit_bytes = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
	v->inodes = (uint64_t)(fs.f_files - fs.f_ffree);
}
