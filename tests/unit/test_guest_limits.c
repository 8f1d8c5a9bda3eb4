/* Programs of a guest stand still while its memory is copied, from QUIESCE until the guest has its
 * own names and random numbers: nothing else lets them go on in between. The freezer is played by
 * two files here, so neither QEMU nor cgroups are needed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static unsigned waited_ms;

/* Each look at the freezer is a millisecond. */
static int wait_here(const struct timespec *t, struct timespec *left)
{
	(void)t;
	(void)left;
	waited_ms++;
	return 0;
}

#define nanosleep wait_here
#include "../../src/cell/init/guest/guest_limits.c"
#undef nanosleep

#include "test.h"

/* ---- what guest_limits_init() needs, which is not called here */

int spawn_cgroup = -1;
int (*spawn_on_child)(void);
uint32_t (*programs_limits_hit)(const struct limit_counts *before, bool failed, bool more);
void (*programs_limit_counts)(struct limit_counts *ret);

int restrict_rlimits(uint64_t nofile, struct err *e)
{
	return err_set(e, ERR_UNSUPPORTED, "not here");
}

int restrict_drop_caps(enum cell_profile profile, bool server, struct err *e)
{
	return err_set(e, ERR_UNSUPPORTED, "not here");
}

/* ---- the freezer */

static char folder[] = "/tmp/cordon-freezer-XXXXXX";

static void put(const char *name, const char *text)
{
	int fd = openat(cell, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

static bool is_frozen(void)
{
	char text[8] = "";
	int fd = openat(cell, "cgroup.freeze", O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && close(fd) == 0);
	return text[0] == '1';
}

static void make(bool stands_still)
{
	CHECK(mkdtemp(folder) != NULL);
	cell = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(cell >= 0);
	put("cgroup.freeze", "0");
	put("cgroup.events", stands_still ? "populated 1\nfrozen 1\n" : "populated 1\nfrozen 0\n");
}

static void end(void)
{
	CHECK(unlinkat(cell, "cgroup.freeze", 0) == 0 && unlinkat(cell, "cgroup.events", 0) == 0);
	CHECK(close(cell) == 0 && rmdir(folder) == 0);
}

static void nothing_else_lets_them_go_on(void)
{
	struct err e;

	make(true);
	CHECK(guest_limits_hold(&e) == 0 && is_frozen());
	CHECK(guest_limits_freeze(false, &e) == 0 && is_frozen()); /* a read of the files ends */
	guest_limits_let_go(false);
	CHECK(!is_frozen());
	guest_limits_let_go(false); /* repeatable */
	CHECK(guest_limits_freeze(true, &e) == 0 && is_frozen());
	guest_limits_let_go(false); /* not held: those of others stand still */
	CHECK(is_frozen());
	CHECK(guest_limits_freeze(false, &e) == 0 && !is_frozen());
	end();
}

/* A capture of the files is under way when the copy is over: its end lets them go on. */
static void others_keep_them_still(void)
{
	struct err e;

	make(true);
	CHECK(guest_limits_freeze(true, &e) == 0 && guest_limits_hold(&e) == 0);
	guest_limits_let_go(true);
	CHECK(is_frozen());
	CHECK(guest_limits_freeze(false, &e) == 0 && !is_frozen());
	end();
}

/* One does not stop: the copy is refused, and the others run on. */
static void a_hold_that_fails_holds_nothing(void)
{
	struct err e;

	make(false);
	CHECK(guest_limits_hold(&e) < 0 && e.code == ERR_SYSTEM);
	CHECK(waited_ms >= FREEZE_MS && !is_frozen());
	guest_limits_let_go(true);
	CHECK(guest_limits_freeze(false, &e) == 0 && !is_frozen());
	end();
}

static void without_a_cgroup_nothing_is_held(void)
{
	struct err e;

	CHECK(cell < 0 && guest_limits_hold(&e) == 0);
	guest_limits_let_go(false);
}

TEST_MAIN({ "nothing else lets them go on", nothing_else_lets_them_go_on },
	  { "others keep them still", others_keep_them_still },
	  { "a hold that fails holds nothing", a_hold_that_fails_holds_nothing },
	  { "without a cgroup nothing is held", without_a_cgroup_nothing_is_held })
