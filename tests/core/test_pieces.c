/* Goal: work that grows with what a tenant has is done in pieces of bounded size: the space of
 * removed logs, the sessions and secrets of a removed tenant. The pieces are run by hand here, and
 * the effect of each is looked at. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "bed.h"
#include "daemon/node/core.h"
#include "daemon/node/core_private.h"
#include "daemon/output/log_removal.h"
#include "daemon/session/session.h"
#include "daemon/tenant/tenant.h"

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
	return size_in(bed.core->removed_logs.removed_fd, name);
}

static void remove_log(const char *name, enum log_removal_why why, off_t size)
{
	uint64_t bytes;

	CHECK(log_removal_add(&bed.core->removed_logs, &bed.tenant->removal, name, why, &bytes));
	CHECK(bytes == (uint64_t)size);
	CHECK(size_in(bed.core->output_fd, name) == -1 && left_of(name) == size);
	core_job_cancel(bed.core, &bed.tenant->removal.job);
}

static bool log_piece(void)
{
	struct job *j = &bed.tenant->removal.job;

	return j->on_piece(j);
}

static void a_large_log_goes_in_steps(void)
{
	bed_make(30000);
	make_log("a.log", 3 * STEP + 1);
	remove_log("a.log", LOG_IS_OLD, 3 * STEP + 1);
	CHECK(bed.core->removed_logs.old == 1);
	for (off_t steps = 2; steps >= 0; steps--) {
		CHECK(log_piece());
		CHECK(left_of("a.log") == steps * STEP + 1);
	}
	CHECK(log_piece() && left_of("a.log") == -1);
	CHECK(bed.core->removed_logs.old == 0 && !log_piece());
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
	CHECK(!log_removal_is_behind(&bed.tenant->removal));
	remove_log("room.log", LOG_MAKES_ROOM, size);
	CHECK(log_removal_is_behind(&bed.tenant->removal));
	for (int i = 0; i < 20; i++)
		CHECK(left_of("old.log") == 10 && log_piece());
	CHECK(left_of("room.log") == -1 && !log_removal_is_behind(&bed.tenant->removal));
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
	CHECK(left_of("read.log") == 2 * STEP && bed.core->removed_logs.old == 0);
	log_removal_retry(&bed.core->removed_logs);
	bed_turn(20);
	CHECK(left_of("read.log") == 2 * STEP);
	CHECK(close(reader) == 0);
	bed_until(is_all_gone); /* by the chores */
	bed_end();
}

/* ---- a removed tenant */

#define SESSIONS 6

static unsigned refused;

static void on_made(struct completion *c, const struct err *e)
{
	CHECK(e != NULL);
	refused++;
}

static int create_session(struct completion *made, struct err *e)
{
	struct session_spec spec = { .profile = -1 };
	struct session *s;
	unsigned retry;

	*made = (struct completion){ .on_done = on_made };
	return session_create(bed.core, bed.tenant, &spec, made, &s, &retry, e);
}

static void count_live(struct session *s, void *arg)
{
	unsigned *n = arg;

	*n += s->row.state < SESSION_ENDING;
}

static unsigned live(void)
{
	unsigned n = 0;

	session_each(bed.core, bed.tenant, count_live, &n);
	return n;
}

static void a_removed_tenant_is_stopped_in_pieces(void)
{
	struct completion made[SESSIONS + 1];
	struct job *j;
	struct err e;

	bed_make(30000);
	bed.way[KEEPER_CREATE] = BED_HOLD;
	bed.tenant->row.is_operator = false;
	bed.tenant->row.max_sessions = 0;
	for (int i = 0; i < SESSIONS; i++)
		CHECK(create_session(&made[i], &e) == 0);
	CHECK(live() == SESSIONS);
	CHECK(tenant_remove(bed.core, bed.tenant, NULL, &e) == 0);
	j = &bed.tenant->end.job;
	core_job_cancel(bed.core, j);
	CHECK(live() == SESSIONS && refused == 0);
	CHECK(create_session(&made[SESSIONS], &e) < 0 && e.code == ERR_DENIED);
	for (unsigned left = SESSIONS; left > 0; left--) {
		CHECK(live() == left);
		CHECK(j->on_piece(j));
		CHECK(live() == left - 1);
	}
	CHECK(!j->on_piece(j));
	bed_turn(20);
	CHECK(refused == SESSIONS && live() == 0);
	bed_end();
}

#define T(name)             \
	{                   \
#name, name \
	}

TEST_MAIN(T(a_large_log_goes_in_steps), T(many_logs_go_one_by_one),
	  T(those_that_make_room_go_first), T(what_is_read_is_left_whole),
	  T(a_removed_tenant_is_stopped_in_pieces))
