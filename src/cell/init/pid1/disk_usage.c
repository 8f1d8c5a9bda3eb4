/* disk_usage.c - theory of operation
 *
 * The kernel counts no failed writes: a full tmpfs refuses a write, and nothing more. So a full
 * disk is found by samples of its free space, each a statfs(2) of about a microsecond. The pause
 * before the next sample is the time in which a program could fill the free space (BYTES_PER_NS,
 * NS_PER_INODE), within bounds:
 *
 *   it changed, a quarter is free   CLOSE_NS to CHANGING_NS
 *   it changed, less is free        CLOSE_NS to NEAR_NS
 *   it did not change               doubled each time, IDLE_LEAST_NS to IDLE_MOST_NS
 *   not for a second                at least SETTLED_PAUSE_NS
 *   not for ten seconds             QUIET_PAUSE_NS: one that only waits costs next to nothing
 *
 * A program that starts begins with NEAR_NS. So a disk that fills up is sampled before it is full,
 * and then every CLOSE_NS: it is found full if it is so for that long, plus the time that PID 1
 * waits for a processor.
 *
 * "Full" is less than a thousandth of free bytes: a program that removes its file at once after a
 * write that failed leaves few samples in between, and they rarely find exactly nothing free. */
#include "cell/init/pid1/disk_usage.h"

#include <sys/statfs.h>

#include "lib/base/clock.h"

/* An overlay answers for the file system of its upper directory: the disk, in every profile. */
#define PLACE "/"

#define CLOSE_NS (CLOCK_MS / 5)
#define NEAR_NS CLOCK_MS
#define CHANGING_NS (4 * CLOCK_MS)
#define IDLE_LEAST_NS (2 * CLOCK_MS)
#define IDLE_MOST_NS (250 * CLOCK_MS)
#define SETTLED_NS (1000 * CLOCK_MS)
#define SETTLED_PAUSE_NS (100 * CLOCK_MS)
#define QUIET_NS (10000 * CLOCK_MS)
#define QUIET_PAUSE_NS (1000 * CLOCK_MS)
#define BYTES_PER_NS 4	     /* that a program writes to memory at most */
#define NS_PER_INODE 1000ULL /* that a program needs at least to make a file */
#define FULL_PART 1024

struct disk_usage_samples disk_usage_total;

static struct disk_usage disk = { .pause_ns = NEAR_NS };

static uint64_t disk_usage_between(uint64_t value, uint64_t least, uint64_t most)
{
	return value < least ? least : value > most ? most : value;
}

/* In which time a program could fill the disk, or use up its inodes. */
static uint64_t disk_usage_time_to_fill(const struct statfs *fs)
{
	uint64_t bytes = (uint64_t)fs->f_bavail * (uint64_t)fs->f_bsize / BYTES_PER_NS;
	uint64_t inodes = (uint64_t)fs->f_ffree * NS_PER_INODE;

	return fs->f_files > 0 && inodes < bytes ? inodes : bytes;
}

static uint64_t disk_usage_next_pause(const struct disk_usage *d, const struct statfs *fs,
				      bool moved)
{
	bool near = fs->f_bavail < fs->f_blocks / 4 || fs->f_ffree < fs->f_files / 4;
	uint64_t left = disk_usage_time_to_fill(fs), most;

	if (moved)
		return disk_usage_between(left, CLOSE_NS, near ? NEAR_NS : CHANGING_NS);
	if (d->unchanged_ns > QUIET_NS)
		return QUIET_PAUSE_NS;
	/* A full disk makes news again only when it fills up again. */
	most = d->full ? IDLE_MOST_NS : disk_usage_between(left, IDLE_LEAST_NS, IDLE_MOST_NS);
	if (d->unchanged_ns > SETTLED_NS && most < SETTLED_PAUSE_NS)
		most = SETTLED_PAUSE_NS;
	return disk_usage_between(d->pause_ns * 2, IDLE_LEAST_NS, most);
}

void disk_usage_note(struct disk_usage *d, struct disk_usage_samples *total,
		     const struct statfs *fs)
{
	/* Not f_bfree: ext4 keeps some of that for itself. */
	bool full = fs->f_bavail <= fs->f_blocks / FULL_PART;
	bool inodes_full = fs->f_files > 0 && fs->f_ffree == 0;
	bool moved = fs->f_bavail != d->free || fs->f_ffree != d->inodes_free;

	total->full += full;
	total->inodes_full += inodes_full;
	total->filled += full && !d->full;
	total->inodes_filled += inodes_full && !d->inodes_full;
	d->full = full;
	d->inodes_full = inodes_full;
	d->free = fs->f_bavail;
	d->inodes_free = fs->f_ffree;
	d->unchanged_ns = moved ? 0 : d->unchanged_ns + d->pause_ns;
	d->pause_ns = disk_usage_next_pause(d, fs, moved);
}

void disk_usage_restart(struct disk_usage *d)
{
	d->pause_ns = NEAR_NS;
	d->unchanged_ns = 0;
	d->next_ns = 0;
}

void disk_usage_sample(void)
{
	struct statfs fs;

	if (statfs(PLACE, &fs) == 0)
		disk_usage_note(&disk, &disk_usage_total, &fs);
}

void disk_usage_begin(void)
{
	disk_usage_sample();
	disk_usage_restart(&disk);
}

void disk_usage_turn(bool running, uint64_t now_ns)
{
	if (!running) {
		disk.next_ns = 0;
		return;
	}
	if (disk.next_ns > now_ns)
		return;
	if (disk.next_ns != 0)
		disk_usage_sample();
	disk.next_ns = now_ns + disk.pause_ns;
}

uint64_t disk_usage_wake_ns(void)
{
	return disk.next_ns;
}

void disk_usage_stat(struct agent_event *v)
{
	struct statfs fs;

	if (statfs(PLACE, &fs) < 0)
		return;
	disk_usage_note(&disk, &disk_usage_total, &fs);
	v->disk_full = disk_usage_total.filled;
	v->inodes_full = disk_usage_total.inodes_filled;
	v->inodes_limit = (uint64_t)fs.f_files;
	v->disk_bytes = (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
	v->disk_limit_bytes = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
	v->inodes = (uint64_t)(fs.f_files - fs.f_ffree);
}
