/* Goal: work that grows with what a tenant has is done in pieces of bounded size: the space of
 * removed logs. The pieces are run by hand here, and
 * the effect of each is looked at. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "bed.h"
#include "inside.h"

#define STEP LOG_REMOVAL_STEP

static void make_log(const char *name, off_t size)
{
	int fd = openat(bed.core->output_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && ftruncate(fd, size) == 0 && close(fd) == 0);
}

/* Of a file in a folder; -1: there is none. */
static off_t size_in(int folder, const char *name)
{
	struct stat st;

	return fstatat(folder, name, &st, 0) < 0 ? -1 : st.st_size;
}

static off_t left_of(const char *name)
{
	return size_in(bed.core->removed_fd, name);
}

static void remove_log(const char *name, enum log_removal_why why, off_t size)
{
	uint64_t bytes;

	CHECK(log_removal_add(bed.core, bed.tenant, name, why, &bytes));
	CHECK(bytes == (uint64_t)size);
	CHECK(size_in(bed.core->output_fd, name) == -1 && left_of(name) == size);
	core_job_cancel(bed.core, &bed.tenant->removal.job);
}

static bool log_piece(void)
{
	struct job *j = &bed.tenant->removal.job;

	return j->piece(j);
}

static void a_large_log_goes_in_steps(void)
{
	bed_make(30000);
	make_log("a.log", 3 * STEP + 1);
	remove_log("a.log", LOG_IS_OLD, 3 * STEP + 1);
	CHECK(bed.core->old_logs == 1);
	for (off_t steps = 2; steps >= 0; steps--) {
		CHECK(log_piece());
		CHECK(left_of("a.log") == steps * STEP + 1);
	}
	CHECK(log_piece() && left_of("a.log") == -1);
	CHECK(bed.core->old_logs == 0 && !log_piece());
	bed_end();
}

static void many_logs_go_one_by_one(void)
{
	char name[16];

	bed_make(30000);
	for (int i = 0; i < 8; i++) {
		(void)snprintf(name, sizeof(name), "%d.log", i);
		make_log(name, 10);
		remove_log(name, LOG_IS_OLD, 10);
	}
	for (int i = 0; i < 8; i++) {
		CHECK(log_piece());
		for (int k = 0; k < 8; k++) {
			(void)snprintf(name, sizeof(name), "%d.log", k);
			CHECK((left_of(name) == -1) == (k <= i));
		}
	}
	CHECK(!log_piece());
	bed_end();
}

static void those_that_make_room_go_first(void)
{
	const off_t size = 20 * STEP;

	bed_make(30000);
	make_log("old.log", 10);
	make_log("room.log", size);
	remove_log("old.log", LOG_IS_OLD, 10);
	CHECK(!log_removal_is_behind(bed.tenant));
	remove_log("room.log", LOG_MAKES_ROOM, size);
	CHECK(log_removal_is_behind(bed.tenant));
	for (int i = 0; i < 20; i++)
		CHECK(left_of("old.log") == 10 && log_piece());
	CHECK(left_of("room.log") == -1 && !log_removal_is_behind(bed.tenant));
	CHECK(log_piece() && left_of("old.log") == -1 && !log_piece());
	bed_end();
}

static bool is_all_gone(void)
{
	return left_of("read.log") == -1;
}

static void what_is_read_is_left_whole(void)
{
	int reader;

	bed_make(30000);
	make_log("read.log", 2 * STEP);
	reader = openat(bed.core->output_fd, "read.log", O_RDONLY | O_CLOEXEC);
	CHECK(reader >= 0 && flock(reader, LOCK_SH) == 0);
	remove_log("read.log", LOG_IS_OLD, 2 * STEP);
	CHECK(log_piece() && !log_piece());
	CHECK(left_of("read.log") == 2 * STEP && bed.core->old_logs == 0);
	log_removal_retry(bed.core);
	bed_turn(20);
	CHECK(left_of("read.log") == 2 * STEP);
	CHECK(close(reader) == 0);
	bed_until(is_all_gone); /* by the chores */
	bed_end();
}

#define T(name)             \
	{                   \
#name, name \
	}

TEST_MAIN(T(a_large_log_goes_in_steps), T(many_logs_go_one_by_one),
	  T(those_that_make_room_go_first), T(what_is_read_is_left_whole))
