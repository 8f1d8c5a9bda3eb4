/* disk_usage.c - theory of operation
 *
 * The kernel counts no failed writes, so a disk that was full is found by samples of its free
 * space. Their distance follows the disk: a millisecond while little is free and that changes, a
 * few while more is free and that changes; while nothing is written, it grows up to the time in
 * which a program could fill what is free, at most a quarter of a second; at least a tenth once
 * nothing was written for a second, and a second once nothing was written for ten: a server that
 * only waits costs next to nothing. A program that starts begins with the shortest. So a disk that
 * fills up is looked at before it is full, whatever the program does when a write fails.
 *
 * "Full" is less than a thousandth of free bytes: a program that removes its file at once after a
 * write that failed leaves few samples in between, and they rarely find exactly nothing free. */
#include "disk_usage.h"

#include <sys/statfs.h>

#include "clock.h"

/* An overlay answers for the file system of its upper directory, which is the disk in every
 * profile. */
#define PLACE "/"

#define NEAR_MS 1	/* between samples while less than a quarter is free, and changes */
#define CHANGING_MS 4	/* while more is free, and changes */
#define IDLE_LEAST_MS 2 /* while nothing changes: as long as the free bytes last, within these */
#define IDLE_MOST_MS 250
/* Without a change for so long: at least so long between two samples. */
#define SETTLED_MS 1000
#define SETTLED_PAUSE_MS 100
#define QUIET_MS 10000
#define QUIET_PAUSE_MS 1000
#define BYTES_PER_MS 4000000ULL /* that a program writes to memory at most */
#define FULL_PART 1024

struct disk_usage_samples disk_usage_total;

static struct {
	uint64_t free, inodes_free; /* at the last sample */
	bool full, inodes_full;
	uint64_t pause_ms, next_ns, unchanged_ms;
} last = { .pause_ms = NEAR_MS };

void disk_usage_sample(void)
{
	uint64_t avail, most;
	struct statfs fs;
	bool near, moved, full, inodes_full;

	if (statfs(PLACE, &fs) < 0)
		return;
	/* Not f_bfree: ext4 keeps some of that for itself. */
	avail = fs.f_bavail;
	full = avail <= (uint64_t)fs.f_blocks / FULL_PART;
	inodes_full = fs.f_files > 0 && fs.f_ffree == 0;
	disk_usage_total.full += full;
	disk_usage_total.inodes_full += inodes_full;
	disk_usage_total.filled += full && !last.full;
	disk_usage_total.inodes_filled += inodes_full && !last.inodes_full;
	last.full = full;
	last.inodes_full = inodes_full;
	near = avail < fs.f_blocks / 4 || fs.f_ffree < fs.f_files / 4;
	moved = avail != last.free || fs.f_ffree != last.inodes_free;
	last.free = avail;
	last.inodes_free = fs.f_ffree;
	most = avail * (uint64_t)fs.f_bsize / BYTES_PER_MS;
	most = most < IDLE_LEAST_MS ? IDLE_LEAST_MS : most > IDLE_MOST_MS ? IDLE_MOST_MS : most;
	if (full) /* only that it fills up again is news */
		most = IDLE_MOST_MS;
	last.unchanged_ms = moved ? 0 : last.unchanged_ms + last.pause_ms;
	if (last.unchanged_ms > SETTLED_MS && most < SETTLED_PAUSE_MS)
		most = SETTLED_PAUSE_MS;
	if (last.unchanged_ms > QUIET_MS)
		most = QUIET_PAUSE_MS;
	if (moved)
		last.pause_ms = near ? NEAR_MS : CHANGING_MS;
	else
		last.pause_ms = last.pause_ms * 2 > most ? most : last.pause_ms * 2;
}

void disk_usage_begin(void)
{
	disk_usage_sample();
	last.pause_ms = NEAR_MS;
	last.unchanged_ms = 0;
	last.next_ns = 0;
}

void disk_usage_turn(bool running, uint64_t now_ns)
{
	if (!running) {
		last.next_ns = 0;
		return;
	}
	if (last.next_ns > now_ns)
		return;
	if (last.next_ns != 0)
		disk_usage_sample();
	last.next_ns = now_ns + last.pause_ms * CLOCK_MS;
}

uint64_t disk_usage_wake_ns(void)
{
	return last.next_ns;
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
