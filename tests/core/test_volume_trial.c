/* Goal: only the trial at the start makes volumes directories, which have no limit of their size.
 * The failure of a volume is its own, whatever the keeper or cordon-storage answer, and what the
 * machine is short of for a moment decides nothing.
 *
 * cordon-storage is played by the test, on the other end of channel D. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bed.h"
#include "daemon/node/core.h"
#include "daemon/node/core_private.h"
#include "daemon/node/core_run.h"
#include "daemon/session/session_hooks.h"
#include "daemon/session/session_volume.h"
#include "daemon/store/store_volume.h"
#include "daemon/volumes/volume_state.h"
#include "lib/base/io.h"

#define ASKED_MAX 16

static int storage = -1; /* the test's end of channel D */
static struct storage_volume made[ASKED_MAX];
static unsigned nmade, nremoved, ended;
static struct err outcome;
static struct err refusal; /* of cordon-storage; code ERR_NONE: it makes volumes */
static struct volume_making making;

static void answer(const struct storage_head *to)
{
	struct storage_reply r = { .op = to->op,
				   .version = STORAGE_VERSION,
				   .job = to->job,
				   .disk_bytes = 1ULL << 40,
				   .disk_free = 1ULL << 39,
				   .disk_files_free = 1000000 };
	struct err e = { 0 };

	if (to->op == STORAGE_VOLUME_MAKE)
		r.err = refusal;
	CHECK(io_send(storage, &r, sizeof(r), NULL, 0, &e) >= 0);
}

static void hear(void)
{
	union storage_request asked;
	int fds[IO_FDS_MAX];
	size_t nfds = 0;
	struct err e = { 0 };

	while (io_recv(storage, &asked, sizeof(asked), fds, IO_FDS_MAX, &nfds, &e) > 0) {
		io_close_all(fds, nfds);
		nremoved += asked.head.op == STORAGE_VOLUME_REMOVE;
		if (asked.head.op == STORAGE_VOLUME_MAKE && nmade < ASKED_MAX)
			made[nmade++] = asked.volume;
		answer(&asked.head);
	}
}

/* Some turns of both. */
static void go_on(void)
{
	for (unsigned i = 0; i < 10; i++) {
		bed_turn(5);
		hear();
	}
}

static struct volume_node *node(void)
{
	return *session_parts_of_core(bed.core, &volume_part);
}

static void make(void)
{
	const struct storage_head hello = { .op = STORAGE_HELLO };
	unsigned place = 0;
	int ends[2];
	struct err e;

	bed_make(30000);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
	storage = ends[0];
	bed.core->o.has_storage = bed.core->o.has_volumes = true;
	bed.core->layers.link = &bed.core->storage;
	bed.core->layers.state_fd = -1;
	CHECK(core_set_storage(bed.core, ends[1], &e) == 0);
	answer(&hello);
	while (bed.core->o.parts[place] != NULL)
		place++;
	bed.core->o.parts[place] = &volume_part;
	CHECK(volume_part.setup(bed.core, &e) == 0);
	bed.way[KEEPER_VOLUME] = BED_ANSWER;
	bed.refusal = refusal = (struct err){ 0 };
	nmade = nremoved = 0;
	go_on();
}

static void end(void)
{
	CHECK(close(storage) == 0);
	bed_end();
}

static void refuse(int sys)
{
	bed.way[KEEPER_VOLUME] = BED_REFUSE;
	(void)err_set(&bed.refusal, ERR_UNSUPPORTED, "loop device");
	bed.refusal.sys = sys;
}

static void try(void)
{
	volume_part.on_second(bed.core);
	go_on();
}

static void on_done(struct completion *c, const struct err *e)
{
	ended++;
	outcome = e == NULL ? (struct err){ 0 } : *e;
}

static void begin(const char *name)
{
	const struct volume_spec spec = { .name = name };
	struct err e;

	making = (struct volume_making){ .done = { .on_done = on_done } };
	ended = 0;
	CHECK(volume_create(bed.core, bed.tenant, &spec, NULL, &making, &e) == 0);
}

/* Is the last one that cordon-storage was asked for an image? */
static bool is_image(void)
{
	CHECK(nmade > 0);
	return made[nmade - 1].image != 0;
}

static bool makes(const char *name)
{
	begin(name);
	go_on();
	CHECK(ended == 1);
	return outcome.code == ERR_NONE;
}

static void the_trial_decides(void)
{
	make();
	refuse(ENXIO);
	try();
	CHECK(nmade == 1 && is_image() && nremoved == 1);
	CHECK(makes("one") && nmade == 2 && !is_image());
	CHECK(makes("two") && nmade == 3 && !is_image());
	end();
}

static void a_program_that_is_missing_decides_too(void)
{
	make();
	(void)err_set(&refusal, ERR_UNSUPPORTED, "mkfs.ext4 cannot be started");
	try();
	refusal = (struct err){ 0 };
	CHECK(makes("one") && nmade == 2 && !is_image());
	end();
}

/* EMFILE decides nothing. A success decides, and then nothing else does: neither the keeper nor
 * cordon-storage, of however many volumes. */
static void a_failure_is_the_volumes_own(void)
{
	make();
	refuse(EMFILE);
	try();
	CHECK(nmade == 1 && !node()->trial.decided && !node()->no_images);
	CHECK(!makes("short") && nmade == 3 && is_image()); /* a trial of its own, and the volume */
	bed.way[KEEPER_VOLUME] = BED_HOLD;
	begin("none");
	go_on();
	CHECK(node()->trial.running && ended == 0);
	bed_keeper_answers(false);
	refuse(ENXIO);
	go_on();
	CHECK(ended == 1 && outcome.code == ERR_UNSUPPORTED && nmade == 5 && is_image());
	CHECK(!node()->trial.decided && !node()->no_images);
	bed.way[KEEPER_VOLUME] = BED_ANSWER;
	CHECK(makes("one") && nmade == 7 && is_image() && node()->trial.decided);
	refuse(ENXIO);
	CHECK(!makes("two") && outcome.code == ERR_UNSUPPORTED && is_image());
	CHECK(!makes("three") && is_image());
	bed.way[KEEPER_VOLUME] = BED_ANSWER;
	(void)err_set(&refusal, ERR_UNSUPPORTED, "mkfs.ext4 cannot be started");
	CHECK(!makes("four") && is_image());
	refusal = (struct err){ 0 };
	nmade = 0;
	CHECK(makes("five") && nmade == 1 && is_image());
	end();
}

/* A later server has it from the store. */
static void a_success_is_kept(void)
{
	struct err e;

	make();
	try();
	CHECK(nmade == 1 && nremoved == 1 && node()->trial.decided);
	volume_part.release(bed.core);
	CHECK(volume_part.setup(bed.core, &e) == 0);
	refuse(ENXIO);
	try();
	CHECK(nmade == 1 && node()->trial.decided);
	CHECK(!makes("one") && nmade == 2 && is_image());
	end();
}

/* Volumes that are asked for before it has ended wait for it. */
static void volumes_wait_for_it(void)
{
	make();
	bed.way[KEEPER_VOLUME] = BED_HOLD;
	begin("one");
	go_on();
	CHECK(ended == 0 && nmade == 1 && node()->trial.running);
	refuse(ENXIO);
	bed_keeper_answers(false);
	go_on();
	CHECK(ended == 1 && outcome.code == ERR_NONE && nmade == 2 && !is_image());
	CHECK(making.row.kind == VOLUME_DIRECTORY);
	end();
}

/* The server ends while some wait. */
static void it_ends_with_the_server(void)
{
	make();
	bed.way[KEEPER_VOLUME] = BED_HOLD;
	try();
	CHECK(node()->trial.running);
	end();
}

TEST_MAIN({ "the trial decides", the_trial_decides },
	  { "a program that is missing decides, too", a_program_that_is_missing_decides_too },
	  { "a failure is the volume's own", a_failure_is_the_volumes_own },
	  { "a success is kept", a_success_is_kept },
	  { "volumes wait for it", volumes_wait_for_it },
	  { "it ends with the server", it_ends_with_the_server })
