/* Goal: samples of the disk are so close together that a disk which was full is found, and so rare
 * that a program that only waits costs next to nothing. */
#include "cell/init/pid1/disk_usage.h"

#include <sys/statfs.h>

#include "lib/base/clock.h"
#include "test.h"

#define MIB (1ULL << 20)
#define BLOCK 4096
#define FILES 1000000

static struct disk_usage disk;
static struct disk_usage_samples total;

static void begin(void)
{
	disk = (struct disk_usage){ 0 };
	total = (struct disk_usage_samples){ 0 };
}

/* One sample: so many bytes and inodes are free. Returns the pause after it. */
static uint64_t sample(uint64_t size, uint64_t free_bytes, uint64_t files)
{
	const struct statfs fs = { .f_bsize = BLOCK,
				   .f_blocks = size / BLOCK,
				   .f_bfree = free_bytes / BLOCK + 5, /* for root alone */
				   .f_bavail = free_bytes / BLOCK,
				   .f_files = FILES,
				   .f_ffree = files };

	disk_usage_note(&disk, &total, &fs);
	return disk.pause_ns;
}

/* ---- one pause */

static void the_pause_follows_a_change(void)
{
	static const struct {
		uint64_t free_bytes, files, ns;
	} rows[] = {
		{ 900 * MIB, FILES, 4 * CLOCK_MS }, /* more than a quarter */
		{ 200 * MIB, FILES, CLOCK_MS },	    /* less */
		{ 2 * MIB, FILES, 2 * MIB / 4 },    /* as long as it lasts, */
		{ MIB / 4, FILES, CLOCK_MS / 5 },   /* but at least this */
		{ 0, FILES, CLOCK_MS / 5 },	    /* full: it may be freed at once */
		{ 900 * MIB, 20000, CLOCK_MS },	    /* few inodes */
		{ 900 * MIB, 500, 500 * 1000 },	    /* as long as they last */
		{ 900 * MIB, 0, CLOCK_MS / 5 },	    /* none */
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		begin();
		(void)sample(1024 * MIB, 1000 * MIB, FILES);
		CHECK(sample(1024 * MIB, rows[i].free_bytes, rows[i].files) == rows[i].ns);
	}
}

/* The samples of so many milliseconds in which nothing changes; ret_last: the last pause. */
static unsigned idle(uint64_t size, uint64_t free_bytes, uint64_t ms, uint64_t *ret_last)
{
	unsigned n = 0;

	for (uint64_t t = 0; t < ms * CLOCK_MS; n++)
		t += *ret_last = sample(size, free_bytes, FILES);
	return n;
}

static void the_pause_grows_while_nothing_changes(void)
{
	uint64_t last;

	begin();
	disk_usage_restart(&disk);
	(void)idle(1024 * MIB, 1024 * MIB, 800, &last);
	CHECK(last == 250 * CLOCK_MS); /* less than the 268 ms in which it could be filled */
	begin();
	disk_usage_restart(&disk);
	(void)idle(64 * MIB, 64 * MIB, 800, &last);
	CHECK(last == 64 * MIB / 4);
	(void)idle(64 * MIB, 64 * MIB, 2000, &last);
	CHECK(last == 100 * CLOCK_MS); /* nothing was written for a second */
	(void)idle(64 * MIB, 64 * MIB, 10000, &last);
	CHECK(last == 1000 * CLOCK_MS);
	CHECK(sample(64 * MIB, 63 * MIB, FILES) == 4 * CLOCK_MS); /* a change */
	disk_usage_restart(&disk);
	CHECK(disk.pause_ns == CLOCK_MS && disk.next_ns == 0); /* a program starts */
}

static void one_that_waits_costs_little(void)
{
	static const uint64_t sizes[] = { MIB / 16, MIB, 16 * MIB, 256 * MIB, 65536 * MIB };
	uint64_t last;

	for (size_t i = 0; i < COUNT(sizes); i++) {
		begin();
		disk_usage_restart(&disk);
		CHECK(idle(sizes[i], sizes[i], 12000, &last) < 700);
		CHECK(idle(sizes[i], sizes[i], 60000, &last) <= 60);
		CHECK(idle(sizes[i], 0, 12000, &last) < 200); /* full, and nothing is written */
		CHECK(idle(sizes[i], 0, 60000, &last) <= 60);
	}
}

/* ---- a disk that fills up */

/* Of a disk that a program fills from the moment start_ns on with so many bytes in a nanosecond,
 * and frees full_ns after it was full. */
static uint64_t free_at(uint64_t t, uint64_t size, uint64_t start_ns, double rate, uint64_t full_ns)
{
	uint64_t filled_ns = start_ns + (uint64_t)((double)size / rate);

	if (t < start_ns || t > filled_ns + full_ns)
		return size;
	return t >= filled_ns ? 0 : size - (uint64_t)((double)(t - start_ns) * rate);
}

static bool is_found(uint64_t size, uint64_t start_ns, double rate, uint64_t full_ns)
{
	uint64_t end = start_ns + (uint64_t)((double)size / rate) + full_ns;

	begin();
	(void)sample(size, size, FILES);
	disk_usage_restart(&disk);
	for (uint64_t t = disk.pause_ns; t <= end; t += disk.pause_ns)
		(void)sample(size, free_at(t, size, start_ns, rate, full_ns), FILES);
	return total.filled == 1;
}

static void a_full_disk_is_found(void)
{
	static const double rates[] = { 0.01, 0.1, 0.5, 1, 1.7, 3, 4 };

	for (uint64_t size = 4 * MIB; size <= 8192 * MIB; size *= 2)
		for (size_t i = 0; i < COUNT(rates); i++)
			CHECK(is_found(size, 0, rates[i], CLOCK_MS / 5));
	/* The program begins to write within a second. */
	for (uint64_t size = 16 * MIB; size <= 8192 * MIB; size *= 2)
		for (uint64_t ms = 1; ms < 1000; ms += 13)
			for (size_t i = 0; i < COUNT(rates); i++)
				CHECK(is_found(size, ms * CLOCK_MS, rates[i], CLOCK_MS / 5));
	/* Later: what doc/limits.md says. */
	for (uint64_t ms = 1000; ms < 9000; ms += 97)
		CHECK(is_found(16 * MIB, ms * CLOCK_MS, 4, 100 * CLOCK_MS));
	for (uint64_t ms = 9000; ms < 20000; ms += 97)
		CHECK(is_found(16 * MIB, ms * CLOCK_MS, 4, 1000 * CLOCK_MS));
}

/* "filled" counts how often it became full, "full" the samples in which it was. */
static void each_time_is_counted(void)
{
	begin();
	for (unsigned i = 0; i < 3; i++) {
		(void)sample(1024 * MIB, 512 * MIB, FILES);
		(void)sample(1024 * MIB, MIB, FILES); /* a thousandth */
		(void)sample(1024 * MIB, 0, FILES);
	}
	CHECK(total.filled == 3 && total.full == 6 && total.inodes_full == 0);
	(void)sample(1024 * MIB, 512 * MIB, 0);
	(void)sample(1024 * MIB, 512 * MIB, 0);
	CHECK(total.inodes_filled == 1 && total.inodes_full == 2 && total.filled == 3);
	(void)sample(1024 * MIB, MIB + BLOCK, FILES);
	CHECK(total.filled == 3);
}

TEST_MAIN({ "the pause follows a change", the_pause_follows_a_change },
	  { "the pause grows while nothing changes", the_pause_grows_while_nothing_changes },
	  { "one that waits costs little", one_that_waits_costs_little },
	  { "a full disk is found", a_full_disk_is_found },
	  { "each time is counted", each_time_is_counted })
