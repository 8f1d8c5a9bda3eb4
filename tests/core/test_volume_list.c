/* Goal: an answer about the content of a volume is read in pieces of bounded size, so that clients
 * that list large directories take turns with all others; and nothing of it is lost. The pieces are
 * run by hand here. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "bed.h"
#include "daemon/node/core.h"
#include "daemon/session/session_volume.h"
#include "daemon/volumes/content_call.h"
#include "daemon/node/core_private.h"
#include "daemon/session/session_hooks.h"
#include "daemon/disk/storage_link.h"
#include "daemon/volumes/volume_state.h"

#define ENTRIES 5000
#define PIECE 32
#define PIPE_BYTES (1 << 20)

static struct volume_node node;
static struct content_call call;
static unsigned place, entries, ended;
static int end_of_answer = -1; /* where cordon-storage would write */

static int on_entry(struct content_call *c, const struct content_entry *entry, struct err *e)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "/d/%u", entries);
	CHECK(c == &call && strcmp(entry->path, path) == 0);
	entries++;
	return 0;
}

static void on_end(struct content_call *c, const struct err *e)
{
	CHECK(c == &call && e == NULL);
	ended++;
}

static const struct content_call_events events = { .on_entry = on_entry, .on_end = on_end };

static void make(void)
{
	const struct storage_content r = { .what = STORAGE_CONTENT_LIST, .depth = 1 };
	struct store_volume v = { .kind = VOLUME_DIRECTORY, .id = "v", .tenant = "t" };
	struct err e;

	bed_make(30000);
	while (bed.core->o.parts[place] != NULL)
		place++;
	bed.core->o.parts[place] = &volume_part;
	node = (struct volume_node){ .core = bed.core, .storage = core_storage(bed.core) };
	*session_parts_of_core(bed.core, &volume_part) = &node;
	CHECK(content_call_start(&call, bed.core, &v, &r, &events, &e) == 0);
	/* cordon-storage is not there: the request waits. */
	end_of_answer = fcntl(call.job.call->fds[0], F_DUPFD_CLOEXEC, 3);
	CHECK(end_of_answer >= 0 && fcntl(end_of_answer, F_SETPIPE_SZ, PIPE_BYTES) >= PIPE_BYTES);
	entries = ended = 0;
}

static void end(void)
{
	content_call_cancel(&call);
	CHECK(close(end_of_answer) == 0);
	bed.core->o.parts[place] = NULL;
	bed_end();
}

static void say(const struct content_record *r)
{
	uint8_t bytes[CONTENT_RECORD_MAX];
	size_t n = content_msg_write(r, bytes);

	CHECK(write(end_of_answer, bytes, n) == (ssize_t)n);
}

static void say_all(void)
{
	struct content_record r = { .kind = CONTENT_ENTRY, .entry.type = CONTENT_FILE };

	for (unsigned i = 0; i < ENTRIES; i++) {
		(void)snprintf(r.entry.path, sizeof(r.entry.path), "/d/%u", i);
		say(&r);
	}
	r.kind = CONTENT_END;
	say(&r);
}

static void a_long_list_is_read_in_pieces(void)
{
	unsigned before = 0, pieces = 0;

	make();
	say_all();
	for (; ended == 0; pieces++) {
		(void)call.step.on_piece(&call.step);
		CHECK(entries - before <= PIECE);
		before = entries;
		core_job_cancel(bed.core, &call.step);
	}
	CHECK(entries == ENTRIES && pieces >= ENTRIES / PIECE);
	end();
}

static bool is_ended(void)
{
	return ended > 0;
}

static void the_loop_reads_all_of_it(void)
{
	make();
	say_all();
	bed_until(is_ended);
	CHECK(entries == ENTRIES && ended == 1);
	end();
}

static void it_is_cancelled_between_pieces(void)
{
	make();
	say_all();
	(void)call.step.on_piece(&call.step); /* reads bytes */
	(void)call.step.on_piece(&call.step);
	content_call_cancel(&call);
	bed_turn(20);
	CHECK(entries > 0 && entries <= PIECE && ended == 0);
	end();
}

#define T(name)             \
	{                   \
#name, name \
	}

TEST_MAIN(T(a_long_list_is_read_in_pieces), T(the_loop_reads_all_of_it),
	  T(it_is_cancelled_between_pieces))
