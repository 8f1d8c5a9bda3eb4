/* Goal: a program that goes on in the memory of another session is masked as it was there: also
 * before its cell is up, and also values that were replaced since it got them. Values that only one
 * execution got are in no child. And a memory is copied when its cell has room for the copy. */
#include "bed.h"
#include "daemon/execution/execution.h"
#include "daemon/session/session.h"
#include "daemon/session/session_queue.h"
#include "daemon/node/core_private.h"
#include "daemon/guest/guest_image.h"
#include "daemon/secrets/secret.h"
#include "daemon/session/session_suspend.h"
#include "daemon/session/session_fork.h"
#include "daemon/guest/session_memory.h"
#include "daemon/store/store_layer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define OLD "the-first-value"
#define NEW "the-second-value"
#define LINES "deep\tenv\tDEEP\t\t0\t\n"
#define HANDLE 5
#define MEMORY (128LL << 20)

static struct completion waits[2];
static unsigned made;
static struct session *child;
static struct guest_image *image;

static void on_made(struct completion *c, const struct err *e)
{
	made += e == NULL;
}

static bool is_made(void)
{
	return made > 0;
}

static bool is_booting(void)
{
	return bed.ordered[AGENT_BOOT] > 0;
}

static void set_secret(const char *value)
{
	const struct secret_fields w = { .value = value, .value_len = strlen(value) };
	struct store_secret row;
	struct err e;

	if (secret_update(bed.core, bed.tenant, "deep", &w, NULL, &row, &e) < 0)
		CHECK(secret_create(bed.core, bed.tenant, "deep", &w, NULL, &row, &e) == 0);
	store_secret_release(&row);
}

static struct session *create(const struct session_spec *spec, struct completion *w)
{
	struct session *s = NULL;
	unsigned retry_s;
	struct err e;

	*w = (struct completion){ .on_done = on_made };
	if (session_create(bed.core, bed.tenant, spec, w, &s, &retry_s, &e) < 0)
		fail_at(__FILE__, __LINE__, e.msg);
	return s;
}

/* A session that has the secret. Any level with a guest will do for the other one: gVisor needs no
 * images. */
static void make_source(void)
{
	const struct session_spec spec = { .profile = -1, .secrets = LINES };

	bed_make(30000);
	bed.core->o.levels[CELL_GVISOR].is_possible = 1;
	bed.core->o.level_files[SERVE_LEVEL_RUNSC] = memfd_create("runsc", MFD_CLOEXEC);
	set_secret(OLD);
	bed.session = create(&spec, &waits[0]);
	bed_until(is_made);
	image = guest_image_new(bed.session, "lay_r");
}

static void begin_child(void)
{
	const struct session_spec spec = {
		.profile = -1, .level = "gvisor", .secrets = LINES, .image = image
	};

	child = create(&spec, &waits[1]);
	guest_image_unuse(image);
}

/* A program of its guest is reported, and writes; the guest itself has not answered yet. */
static void write_early(const char *text)
{
	const struct agent_event v = { .handle = HANDLE, .pid = 7, .flags = AGENT_IS_HELD };
	int out[2], errs[2];

	bed_until(is_booting);
	CHECK(pipe2(out, O_CLOEXEC) == 0 && pipe2(errs, O_CLOEXEC) == 0);
	CHECK(write(out[1], text, strlen(text)) == (ssize_t)strlen(text));
	bed_says_with(AGENT_HELD, &v, (const int[]){ out[0], errs[0] }, 2);
	(void)close(out[0]);
	(void)close(errs[0]);
	(void)close(out[1]);
	(void)close(errs[1]);
}

static bool has_written(void)
{
	return child->executions != NULL && child->executions->log.size > 0;
}

/* Is the text in the child's log? */
static bool shows(const char *text)
{
	uint8_t bytes[4096];
	const struct output_log *l = &child->executions->log;
	OWN_FD fd = output_log_open(l->dir_fd, l->name, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, bytes, sizeof(bytes));

	CHECK(n > 0);
	return memmem(bytes, (size_t)n, text, strlen(text)) != NULL;
}

static void check_covered(void)
{
	bed_until(has_written);
	CHECK(!shows(OLD) && shows("***"));
	CHECK(close(bed.core->o.level_files[SERVE_LEVEL_RUNSC]) == 0);
	bed_end();
}

static void output_is_masked_before_the_cell_is_up(void)
{
	make_source();
	begin_child();
	write_early(OLD "\n");
	check_covered();
}

static void values_of_the_source_stay_masked(void)
{
	make_source();
	set_secret(NEW);
	begin_child();
	write_early(OLD "\n");
	check_covered();
}

/* Its memory is from before the change. */
static void values_stay_masked_while_it_waits_for_room(void)
{
	make_source();
	bed.tenant->row.max_sessions = 1;
	bed.tenant->row.queue_length = 1;
	begin_child();
	CHECK(child->row.id[0] == '\0');
	set_secret(NEW);
	bed.tenant->row.max_sessions = 2;
	session_queue_serve(bed.core);
	write_early(OLD "\n");
	check_covered();
}

static bool is_refused;

static void on_child(struct completion *c, const struct err *e)
{
	is_refused = e != NULL;
}

static bool child_is_refused(void)
{
	return is_refused;
}

static bool no_cell_ends(void)
{
	return bed.core->cells.ending == 0;
}

/* 0 is the handle of a program that is not known yet. One of it that was reported twice was put
 * into the list of its cell twice, which ended the server. */
static void a_program_without_a_handle_ends_its_cell_only(void)
{
	const struct agent_event v = { .pid = 7, .flags = AGENT_IS_HELD | AGENT_IS_STARTING };

	make_source();
	begin_child();
	waits[1].on_done = on_child;
	bed_until(is_booting);
	bed_says_with(AGENT_HELD, &v, NULL, 0);
	bed_says_with(AGENT_HELD, &v, NULL, 0);
	bed_until(child_is_refused);
	bed_until(no_cell_ends);
	CHECK(close(bed.core->o.level_files[SERVE_LEVEL_RUNSC]) == 0);
	bed_end();
}

static bool has_program(void)
{
	return child->executions != NULL;
}

/* The program was in the list of the cell, which lives a moment longer than the session: it was
 * freed there, and its record said that it runs, for ever. */
static void a_guest_fails_after_it_has_reported_a_program(void)
{
	const struct agent_event failed = { .sys = EIO, .stage = BOOT_AT_AGENT };
	struct store_execution row = { 0 };
	char id[STORE_ID_MAX];
	struct err e;

	make_source();
	begin_child();
	waits[1].on_done = on_child;
	write_early("text\n");
	bed_until(has_program);
	memcpy(id, child->executions->row.id, sizeof(id));
	CHECK(child->executions->program.link != NULL);
	bed_says_with(AGENT_BOOTED, &failed, NULL, 0);
	bed_until(child_is_refused);
	CHECK(store_execution_get(bed.core->store, id, &row, &e) == 0);
	CHECK(row.ended_ms != 0 && row.state == EXECUTION_KILLED);
	store_execution_release(&row);
	bed_until(no_cell_ends);
	CHECK(close(bed.core->o.level_files[SERVE_LEVEL_RUNSC]) == 0);
	bed_end();
}

/* The guest says that it is about to start, and never more. Its client would wait for ever. */
static void a_program_that_never_starts_has_a_time(void)
{
	const struct agent_event v = { .handle = HANDLE,
				       .pid = 7,
				       .flags = AGENT_IS_HELD | AGENT_IS_STARTING };

	make_source();
	begin_child();
	bed_until(is_booting);
	bed_says_with(AGENT_HELD, &v, NULL, 0);
	bed_until(has_program);
	CHECK(child->executions->late.place != 0);
	CHECK(close(bed.core->o.level_files[SERVE_LEVEL_RUNSC]) == 0);
	bed_end();
}

static struct err last;

static void on_forked(struct completion *c, const struct err *e)
{
	CHECK(e != NULL);
	last = *e;
}

static bool is_asked(void)
{
	return bed.ordered[AGENT_SNAPSHOT] > 0;
}

static bool is_forked(void)
{
	return last.code != ERR_NONE;
}

static int sealed(off_t size)
{
	int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(fd >= 0 && ftruncate(fd, size) == 0);
	CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ==
	      0);
	return fd;
}

/* A fork of a session with a root image, as at level microvm. The bed's PID 1 is taken for
 * cordon-shim. */
static void begin_fork(struct session_fork *f, bool lends)
{
	static const char root[1][STORE_ID_MAX] = { "lay_r" };
	struct store_layer row = { .id = "lay_r", .kind = "root" };
	struct err e;

	bed_make(30000);
	bed_session();
	bed.session->row.level = CELL_MICROVM;
	bed.session->row.limits.memory_bytes = MEMORY;
	bed.session->guest.shares_pages = lends;
	CHECK(store_layer_insert(bed.core->store, &row, &e) == 0);
	CHECK(store_layer_use(bed.core->store, STORE_LAYER_GUEST_OF_SESSION, bed.session->row.id,
			      root, 1, &e) == 0);
	*f = (struct session_fork){ .done.on_done = on_forked };
	session_fork(bed.session, 1, false, 0, false, NULL, f);
}

/* An execution gets a secret for itself after the fork was asked for, before the memory is taken.
 */
static void a_secret_that_comes_meanwhile_is_no_childs(void)
{
	const struct execution_spec spec = {
		.argc = 1, .strings = "a", .strings_len = 2, .secrets = LINES
	};
	const struct agent_event v = { 0 };
	struct session_fork f;
	int fds[] = { sealed(MEMORY), sealed(0) };
	struct err e;

	begin_fork(&f, false);
	set_secret(OLD);
	bed_until(is_asked);
	CHECK(execution_start(bed.session, &spec, &e) != NULL);
	bed_says_with(AGENT_SNAPSHOT_DONE, &v, fds, 2);
	bed_until(is_forked);
	CHECK(last.reason == REASON_SECRETS_IN_MEMORY);
	session_fork_release(&f);
	(void)close(fds[0]);
	(void)close(fds[1]);
	bed_end();
}

/* The cell of the source has room for one copy of its memory beside that of the guest. */
static void a_copy_waits_until_the_one_before_is_given_back(void)
{
	const struct agent_event v = { .sys = ENOSPC, .stage = BOOT_AT_SNAPSHOT };
	char lender[STORE_ID_MAX];
	struct session_fork f;

	begin_fork(&f, true);
	memcpy(lender, bed.session->row.id, sizeof(lender));
	bed_turn(50);
	CHECK(!is_asked() && !is_forked());
	session_memory_give_back(bed.core, lender);
	CHECK(!bed.session->guest.shares_pages && lender[0] == '\0');
	bed_until(is_asked);
	bed_says_with(AGENT_SNAPSHOT_DONE, &v, NULL, 0);
	bed_until(is_forked);
	CHECK(last.code == ERR_SYSTEM);
	session_fork_release(&f);
	bed_end();
}

static void a_copy_that_waits_ends_with_its_session(void)
{
	struct session_fork f;

	begin_fork(&f, true);
	bed_turn(20);
	bed_pid1_dies();
	bed_until(is_forked);
	session_fork_release(&f);
	bed_end();
}

/* It is of the cell that ends, not of the next one, which may have other files. */
static void a_copy_that_waits_ends_with_a_reset(void)
{
	struct completion w = { .on_done = on_made };
	struct session_fork f;

	begin_fork(&f, true);
	bed_turn(20);
	session_cold_reset(bed.session, NULL, &w);
	bed_until(is_forked);
	CHECK(last.reason == REASON_GONE && bed.session->ops[SESSION_OP_MEMORY] == NULL);
	session_fork_release(&f);
	completion_cancel(&w);
	bed_end();
}

static void a_copy_that_waits_can_be_given_up(void)
{
	char lender[STORE_ID_MAX];
	struct session_fork f;

	begin_fork(&f, true);
	memcpy(lender, bed.session->row.id, sizeof(lender));
	session_fork_release(&f);
	CHECK(bed.session->ops[SESSION_OP_MEMORY] == NULL);
	session_memory_give_back(bed.core, lender);
	bed_turn(50);
	CHECK(!is_asked() && !is_forked());
	bed_end();
}

#define T(name)             \
	{                   \
#name, name \
	}

TEST_MAIN(T(output_is_masked_before_the_cell_is_up), T(values_of_the_source_stay_masked),
	  T(values_stay_masked_while_it_waits_for_room),
	  T(a_program_without_a_handle_ends_its_cell_only),
	  T(a_program_that_never_starts_has_a_time),
	  T(a_guest_fails_after_it_has_reported_a_program),
	  T(a_secret_that_comes_meanwhile_is_no_childs),
	  T(a_copy_waits_until_the_one_before_is_given_back),
	  T(a_copy_that_waits_ends_with_its_session), T(a_copy_that_waits_ends_with_a_reset),
	  T(a_copy_that_waits_can_be_given_up))
