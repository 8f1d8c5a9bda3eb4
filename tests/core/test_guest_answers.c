/* Goal: a request to the guest of a session ends, whatever PID 1 of its cell does: it may be
 * silent, answer too late, or say that there is no guest any more. The session stays in a state
 * that its client can act on, and no guest stays stopped. */
#include "ends.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/cells/live_guest.h"
#include "daemon/session/session_suspend.h"
#include "daemon/store/store_layer.h"

#define SOON_MS 100

static struct completion pause_wait;

static void on_paused(struct completion *c, const struct err *e)
{
	note(e);
}

/* A session with a root image, as at level microvm. The bed's PID 1 is taken for cordon-shim. */
static void make(void)
{
	static const char root[1][STORE_ID_MAX] = { "lay_r" };
	struct store_layer row = { .id = "lay_r", .kind = "root" };
	struct err e;

	bed_make(30000);
	bed_session();
	bed.session->row.level = CELL_MICROVM;
	bed.session->row.limits.memory_bytes = 256ULL << 20;
	CHECK(store_layer_insert(bed.core->store, &row, &e) == 0);
	CHECK(store_layer_use(bed.core->store, STORE_LAYER_GUEST_OF_SESSION, bed.session->row.id,
			      root, 1, &e) == 0);
	pause_wait = (struct completion){ .on_done = on_paused };
	session_pause(bed.session, NULL, &pause_wait);
	CHECK(bed.session->row.state == SESSION_PAUSING);
}

static bool is_asked(void)
{
	return bed.ordered[AGENT_SNAPSHOT] > 0;
}

static bool is_let_run(void)
{
	return bed.ordered[AGENT_RESUME] > 0;
}

static int sealed(void)
{
	int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(fd >= 0 && fcntl(fd, F_ADD_SEALS,
			       F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
	return fd;
}

static void answer_with_an_image(void)
{
	const struct agent_event v = { 0 };
	int fds[LIVE_GUEST_IMAGE] = { sealed(), sealed() };

	bed_says_with(AGENT_SNAPSHOT_DONE, &v, fds, LIVE_GUEST_IMAGE);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

static void check_runs(uint32_t guest)
{
	CHECK(bed.session->row.state == SESSION_RUNNING && bed.session->row.cold == 0);
	CHECK(bed.session->cell->guest_state == guest);
}

/* The end of the session, too. */
static void end(void)
{
	bed.session->row.level = CELL_CONTAINER; /* no diff of a guest */
	bed_delete();
	check_once(1);
}

static void silence_ends_a_pause(void)
{
	live_guest_wait_ms = SOON_MS;
	make();
	bed_until(has_ended);
	CHECK(last.reason == REASON_TIMEOUT);
	check_runs(BOOT_GUEST_UNRESPONSIVE);
	/* One request at a time: the next one is refused. */
	pause_wait = (struct completion){ .on_done = on_paused };
	session_pause(bed.session, NULL, &pause_wait);
	bed_turn(20);
	CHECK(ends == 2 && last.code == ERR_CONFLICT);
	check_runs(BOOT_GUEST_UNRESPONSIVE);
	ends = 1;
	end();
}

static void a_late_answer_lets_the_guest_run(void)
{
	live_guest_wait_ms = SOON_MS;
	make();
	bed_until(has_ended);
	answer_with_an_image();
	bed_until(is_let_run);
	check_runs(BOOT_GUEST_ALIVE);
	end();
}

static void a_late_failure_needs_nothing(void)
{
	const struct agent_event v = { .sys = ENOSPC, .stage = BOOT_AT_SNAPSHOT };

	live_guest_wait_ms = SOON_MS;
	make();
	bed_until(has_ended);
	bed_says_with(AGENT_SNAPSHOT_DONE, &v, NULL, 0);
	bed_turn(20);
	CHECK(!is_let_run());
	check_runs(BOOT_GUEST_ALIVE);
	end();
}

static void a_failure_is_the_servers(void)
{
	const struct agent_event v = { .sys = ENOSPC, .stage = BOOT_AT_SNAPSHOT };

	make();
	bed_until(is_asked);
	bed_says_with(AGENT_SNAPSHOT_DONE, &v, NULL, 0);
	bed_until(has_ended);
	CHECK(last.code == ERR_SYSTEM && last.reason == REASON_NONE);
	check_runs(BOOT_GUEST_ALIVE);
	end();
}

static void an_end_is_told_as_gone(void)
{
	const struct agent_event v = { .sys = BOOT_SYS_ENDED, .stage = BOOT_AT_ENGINE };

	make();
	bed_until(is_asked);
	bed_says_with(AGENT_SNAPSHOT_DONE, &v, NULL, 0);
	bed_until(has_ended);
	CHECK(last.reason == REASON_LOST);
	end();
}

/* As any request for the session after it. */
static void a_death_is_told_as_gone(void)
{
	char id[STORE_ID_MAX];
	struct err e;

	make();
	bed_until(is_asked);
	memcpy(id, bed.session->row.id, sizeof(id));
	bed_pid1_dies();
	bed_until(has_ended);
	CHECK(last.reason == REASON_LOST);
	CHECK(session_live(bed.core, bed.tenant, id, &e) == NULL && e.reason == REASON_LOST);
	check_once(1);
}

TEST_MAIN(T(silence_ends_a_pause), T(a_late_answer_lets_the_guest_run),
	  T(a_late_failure_needs_nothing), T(a_failure_is_the_servers), T(an_end_is_told_as_gone),
	  T(a_death_is_told_as_gone))
