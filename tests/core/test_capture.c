/* Goal: a session that is captured is thawed in every case, and what it costs is counted before it
 * starts: if the keeper or cordon-storage refuses, dies or is silent, if the session ends
 * meanwhile, and if the daemon that froze it was killed. A cold session is what its row says.
 *
 * cordon-storage is played by the test, on the other end of channel D. */
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bed.h"
#include "daemon/execution/execution_deadline.h"
#include "daemon/guest/root_images.h"
#include "daemon/session/session.h"
#include "daemon/session/session_states.h"
#include "daemon/node/core_private.h"
#include "daemon/node/core_run.h"
#include "lib/base/io.h"
#include "lib/base/str.h"
#include "daemon/session/session_capture.h"
#include "daemon/session/session_suspend.h"
#include "daemon/store/store_layer.h"
#include "daemon/template/template_stack.h"
#include "daemon/template/templates.h"
#include "daemon/template/templates_private.h"
#include "daemon/tenant/tenant.h"

static int storage = -1; /* the test's end of channel D */
static union storage_request asked;
static unsigned unpacks, removes, lists;
static char removed[STORE_ID_MAX]; /* the last */
static bool pending;		   /* an UNPACK that is not answered */
static struct session_capture capture;
static unsigned done;
static struct err outcome;

/* ---- cordon-storage */

static void answer(const struct err *why)
{
	struct storage_reply r = { .op = asked.head.op,
				   .version = STORAGE_VERSION,
				   .job = asked.head.job,
				   .bytes = 4096,
				   .entries = 3,
				   .disk_bytes = 1ULL << 40,
				   .disk_free = 1ULL << 39,
				   .disk_files_free = 1000000 };
	struct err e = { 0 };

	pending = false;
	if (why != NULL)
		r.err = *why;
	CHECK(io_send(storage, &r, sizeof(r), NULL, 0, &e) >= 0);
}

/* Reads requests until there is one of this kind; answers the others. */
static bool hear(uint32_t op)
{
	int fds[IO_FDS_MAX];
	size_t nfds = 0;
	struct err e = { 0 };

	while (io_recv(storage, &asked, sizeof(asked), fds, IO_FDS_MAX, &nfds, &e) > 0) {
		io_close_all(fds, nfds);
		unpacks += asked.head.op == STORAGE_UNPACK;
		removes += asked.head.op == STORAGE_REMOVE;
		lists += asked.head.op == STORAGE_LIST;
		if (asked.head.op == STORAGE_REMOVE)
			str_copy(removed, asked.remove.layer);
		if (asked.head.op == op)
			return true;
		answer(NULL);
	}
	return false;
}

static bool is_unpack_asked(void)
{
	pending = pending || hear(STORAGE_UNPACK); /* is looked at more than once */
	return pending;
}

static void connect_storage(void)
{
	int ends[2];
	struct err e;

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
	storage = ends[0];
	CHECK(core_set_storage(bed.core, ends[1], &e) == 0);
	asked = (union storage_request){ 0 };
	asked.head.op = STORAGE_HELLO;
	answer(NULL);
}

static void make(void)
{
	bed_make(2000);
	bed.core->o.has_storage = true;
	bed.core->layers.link = &bed.core->storage;
	bed.core->layers.state_fd = -1;
	connect_storage();
	bed_session();
}

/* The session has ended already. */
static void end_bed(void)
{
	CHECK(close(storage) == 0);
	bed_end();
}

static void end(void)
{
	bed_delete();
	end_bed();
}

/* ---- a capture */

static void on_done(struct completion *c, const struct err *e)
{
	done++;
	outcome = e == NULL ? (struct err){ 0 } : *e;
}

static bool is_told(void)
{
	return done > 0;
}

static bool is_done(void)
{
	(void)hear(STORAGE_OPS);
	return done > 0;
}

static bool is_thawed(void)
{
	(void)hear(STORAGE_OPS);
	return !bed.session->cell->frozen && bed.session->cell->call == NULL &&
	       bed.session->row.cold == COLD_NO;
}

static void begin(void)
{
	capture = (struct session_capture){ .done = { .on_done = on_done } };
	session_capture(bed.session, "test", false, &capture);
}

static unsigned rows(const char *id)
{
	struct store_layer row;
	struct err e;

	return store_layer_get(bed.core->store, id, &row, &e) == 0 ? 1 : 0;
}

static void succeeds(void)
{
	char id[STORE_ID_MAX];

	make();
	begin();
	CHECK(bed.session->row.cold == COLD_CAPTURING); /* before the cell is frozen */
	bed_until(is_unpack_asked);
	bed_turn(50);
	CHECK(bed.session->cell->frozen && bed.core->layers.writing != NULL);
	answer(NULL);
	bed_until(is_done);
	CHECK(outcome.code == ERR_NONE && capture.bytes == 4096);
	bed_until(is_thawed);
	memcpy(id, capture.layer, sizeof(id));
	CHECK(rows(id) == 1 && bed.core->layers.writing == NULL);
	session_capture_release(bed.core, &capture); /* nobody has used it */
	bed_until(is_thawed);
	while (rows(id) > 0)
		bed_turn(20), (void)hear(STORAGE_OPS);
	end();
}

/* The writer has ended: the cell runs on, although the layer is not on disk yet. */
static void writer_ends(void)
{
	CHECK(bed.list >= 0 && close(bed.list) == 0);
	bed.list = -1;
}

static bool is_thaw_asked(void)
{
	return bed.asked[KEEPER_FREEZE] == 2;
}

static bool is_told_to_kill(void)
{
	return bed.ordered[AGENT_KILL_TREE] > 0;
}

static bool is_stream_begun(void)
{
	return is_unpack_asked() && bed.list >= 0;
}

static void thawed_when_it_is_read(void)
{
	make();
	begin();
	bed_until(is_stream_begun);
	CHECK(bed.session->cell->frozen);
	writer_ends();
	bed_until(is_thawed);
	CHECK(done == 0 && bed.session->ops[SESSION_OP_CAPTURE] != NULL &&
	      bed.core->layers.writing != NULL);
	CHECK(bed.asked[KEEPER_FREEZE] == 2);
	answer(NULL);
	bed_until(is_done);
	CHECK(outcome.code == ERR_NONE && rows(capture.layer) == 1);
	bed_turn(20);
	CHECK(bed.asked[KEEPER_FREEZE] == 2 && bed.session->ops[SESSION_OP_CAPTURE] == NULL);
	end();
}

/* ---- the time in which the programs stand still */

static void on_ended(struct completion *c, const struct err *e)
{
	CHECK(e == NULL);
}

/* It counts for no timeout of an execution, neither here nor in PID 1, which is told before it runs
 * again: the keeper has not thawed the cell yet. */
static void its_time_counts_for_no_timeout(void)
{
	const struct execution_spec spec = {
		.argc = 1, .strings = "a", .strings_len = 2, .timeout_ms = 1000
	};
	struct completion over = { .on_done = on_ended };
	struct execution *x;
	struct err e;

	execution_slack_ms = execution_tick_ms = 50;
	make();
	x = execution_start(bed.session, &spec, &e);
	CHECK(x != NULL);
	execution_wait(x, &over);
	bed_turn(5);
	bed_started();
	begin();
	bed_until(is_stream_begun);
	bed_turn(1300);
	bed.way[KEEPER_FREEZE] = BED_HOLD;
	writer_ends();
	bed_until(is_thaw_asked);
	bed_pid1_reads();
	CHECK(bed.ordered[AGENT_PAUSED] == 1 && bed.paused_ms >= 1300 && bed.paused_ms < 60000);
	bed_keeper_answers(true);
	bed.way[KEEPER_FREEZE] = BED_ANSWER;
	answer(NULL);
	bed_until(is_done);
	CHECK(outcome.code == ERR_NONE && x->overdue == 0);
	CHECK(bed.ordered[AGENT_KILL_TREE] == 0 && bed.ordered[AGENT_PAUSED] == 1);
	bed_until(is_told_to_kill); /* its own time goes on */
	CHECK(x->overdue == 1);
	completion_cancel(&over);
	end();
}

/* The same, but the layer cannot be written: the session goes on, nothing is kept. */
static void thawed_and_refused(void)
{
	struct err why;

	make();
	begin();
	bed_until(is_stream_begun);
	writer_ends();
	bed_until(is_thawed);
	(void)err_set_reason(&why, REASON_STORAGE_FULL, "no room");
	answer(&why);
	bed_until(is_done);
	CHECK(outcome.reason == REASON_STORAGE_FULL && capture.layer[0] == '\0');
	CHECK(bed.asked[KEEPER_FREEZE] == 2 && bed.core->layers.writing == NULL);
	end();
}

/* cordon-storage refuses: thawed, nothing kept, nothing counted. */
static void storage_refuses(void)
{
	struct err why;

	make();
	begin();
	bed_until(is_unpack_asked);
	(void)err_set_reason(&why, REASON_STORAGE_FULL, "no room");
	answer(&why);
	bed_until(is_done);
	CHECK(outcome.reason == REASON_STORAGE_FULL);
	bed_until(is_thawed);
	CHECK(bed.core->layers.writing == NULL && capture.layer[0] == '\0');
	end();
}

static void storage_dies(void)
{
	make();
	begin();
	bed_until(is_unpack_asked);
	CHECK(shutdown(storage, SHUT_RDWR) == 0);
	bed_until(is_done);
	CHECK(outcome.code != ERR_NONE);
	bed_until(is_thawed);
	end();
}

static void freeze_is_refused(void)
{
	make();
	bed.way[KEEPER_FREEZE] = BED_REFUSE;
	begin();
	bed_turn(20);
	bed.way[KEEPER_FREEZE] = BED_ANSWER;
	bed_until(is_done);
	CHECK(outcome.code == ERR_LIMIT && unpacks == 0);
	end();
}

static void one_at_a_time(void)
{
	struct session_capture second = { .done = { .on_done = on_done } };

	make();
	begin();
	session_capture(bed.session, "test", false, &second);
	bed_until(is_told);
	CHECK(outcome.code == ERR_CONFLICT);
	done = 0;
	bed_until(is_unpack_asked);
	answer(NULL);
	bed_until(is_done);
	CHECK(outcome.code == ERR_NONE);
	end();
}

static void session_ends_meanwhile(void)
{
	make();
	begin();
	bed_until(is_unpack_asked);
	bed_begin_delete();
	bed_until(is_done);
	CHECK(outcome.reason == REASON_GONE);
	answer(NULL); /* the layer was made: it is removed */
	bed_turn(50);
	CHECK(bed.core->layers.writing == NULL);
	(void)hear(STORAGE_OPS);
	CHECK(removes > 0);
	end_bed();
}

static void cancelled(void)
{
	make();
	begin();
	bed_until(is_unpack_asked);
	session_capture_cancel(&capture);
	answer(NULL);
	bed_until(is_thawed);
	CHECK(done == 0 && bed.session->ops[SESSION_OP_CAPTURE] == NULL);
	end();
}

static unsigned held(void)
{
	char layers[1][STORE_ID_MAX];
	struct err e;
	int n = store_layer_used(bed.core->store, STORE_LAYER_HELD, capture.layer, layers, 1, &e);

	CHECK(n >= 0);
	return (unsigned)n;
}

/* The row of the layer is written, and the keeper has not answered the thaw yet. */
static void begin_and_write(void)
{
	begin();
	bed_until(is_unpack_asked);
	bed.way[KEEPER_FREEZE] = BED_HOLD;
	answer(NULL);
	bed_until(is_thaw_asked);
	CHECK(done == 0 && rows(capture.layer) == 1 && held() == 1);
}

/* No owner takes the layer any more: it is not held. */
static void cancelled_before_it_is_thawed(void)
{
	make();
	begin_and_write();
	session_capture_cancel(&capture);
	bed_keeper_answers(true);
	bed_until(is_thawed);
	CHECK(done == 0 && held() == 0);
	bed.way[KEEPER_FREEZE] = BED_ANSWER;
	end();
}

static void session_ends_before_it_is_thawed(void)
{
	char id[STORE_ID_MAX];

	make();
	begin_and_write();
	memcpy(id, capture.layer, sizeof(id));
	bed_begin_delete();
	bed_until(is_told);
	CHECK(outcome.reason == REASON_GONE && capture.layer[0] == '\0');
	memcpy(capture.layer, id, sizeof(id));
	CHECK(held() == 0);
	bed_keeper_answers(true);
	bed_turn(50);
	end_bed();
}

/* The end of one session does not call the owners of other captures, which may be the owners of
 * builds in the list that the caller walks. */
static void the_next_begins_from_the_loop(void)
{
	struct session_capture others[3];
	struct session *running[3];
	char id[STORE_ID_MAX];
	struct err e;

	make();
	bed.many = true;
	for (size_t i = 0; i < 3; i++) {
		running[i] = bed.session;
		bed_session();
	}
	bed.way[KEEPER_FREEZE] = BED_HOLD;
	for (size_t i = 0; i < 3; i++) {
		others[i] = (struct session_capture){ .done = { .on_done = on_done } };
		session_capture(running[i], "test", false, &others[i]);
	}
	memcpy(id, running[0]->row.id, sizeof(id));
	begin(); /* waits */
	bed_turn(20);
	CHECK(done == 0);
	for (size_t i = 0; i < 3; i++)
		session_capture_cancel(&others[i]);
	bed.tenant->row.max_stored = 1000; /* it is refused as soon as it begins */
	CHECK(session_delete(bed.core, bed.tenant, id, NULL, &e) == 0);
	CHECK(done == 0);
	bed_until(is_told);
	CHECK(outcome.reason == REASON_QUOTA_STORED);
	end_bed();
}

/* ---- three tenants */

static struct tenant *another(const char *name)
{
	const struct store_actor who = { 0 };
	struct store_tenant row = { 0 };
	struct err e;

	str_copy(row.name, name);
	CHECK(tenant_create(bed.core, &row, &who, &e) == 0);
	return tenant_find(bed.core, row.id);
}

#define EACH 5

/* Sessions of three tenants: those of each follow each other. No cell gets frozen. */
static struct session *of_tenants[3 * EACH];

static void make_tenants(void)
{
	make();
	bed.many = true;
	for (unsigned i = 0; i < COUNT(of_tenants); i++) {
		if (i > 0 && i % EACH == 0)
			bed.tenant = another(i == EACH ? "b" : "c");
		if (i > 0)
			bed_session();
		of_tenants[i] = bed.session;
	}
	bed.way[KEEPER_FREEZE] = BED_HOLD;
}

/* Begins a capture of the next session of that tenant. */
static struct session *capture_of(unsigned tenant)
{
	static struct session_capture many[COUNT(of_tenants)];
	static unsigned n[3];
	unsigned at = EACH * tenant + n[tenant]++;

	many[at] = (struct session_capture){ .done = { .on_done = on_done } };
	session_capture(of_tenants[at], "test", false, &many[at]);
	return of_tenants[at];
}

static bool runs(const struct session *s)
{
	return s->row.cold == COLD_CAPTURING;
}

static void two_tenants_leave_room_for_captures(void)
{
	make_tenants();
	for (unsigned i = 0; i < 4; i++) {
		CHECK(runs(capture_of(0)) == (i < 3));
		CHECK(runs(capture_of(1)) == (i < 3));
	}
	CHECK(runs(capture_of(2))); /* it has none */
	CHECK(!runs(capture_of(2)));
	CHECK(!runs(capture_of(0)));
	end_bed();
}

/* Those of a tenant that has more, and has waited longer, come later. */
static void tenants_take_turns_in_captures(void)
{
	struct session *older, *younger;
	struct err e;

	make_tenants();
	for (unsigned i = 0; i < 3; i++)
		CHECK(runs(capture_of(0)));
	CHECK(runs(capture_of(1)) && runs(capture_of(1)) && runs(capture_of(2)));
	older = capture_of(0);
	younger = capture_of(2);
	CHECK(!runs(older) && !runs(younger));
	CHECK(session_delete(bed.core, of_tenants[0]->tenant, of_tenants[0]->row.id, NULL, &e) ==
	      0);
	bed_turn(20);
	CHECK(runs(younger) && !runs(older));
	end_bed();
}

static void over_the_quota(void)
{
	make();
	bed.tenant->row.max_stored = 1000;
	begin();
	bed_until(is_done);
	CHECK(outcome.reason == REASON_QUOTA_STORED && bed.asked[KEEPER_FREEZE] == 0);
	end();
}

static bool are_both_done(void)
{
	(void)hear(STORAGE_OPS);
	return done == 2;
}

/* The quota has room for what both hold, not for what both disks may hold: the second waits. */
static void two_within_the_quota(void)
{
	struct session_capture other = { .done = { .on_done = on_done } };
	struct session *first;

	make();
	bed.many = true;
	first = bed.session;
	bed_session();
	bed.tenant->row.max_stored = bed.session->row.limits.disk_bytes;
	session_capture(first, "test", false, &other);
	bed_until(is_unpack_asked);
	begin();
	bed_turn(50);
	CHECK(done == 0 && capture.under_way != NULL);
	answer(NULL);
	bed_until(is_unpack_asked);
	CHECK(done == 1 && outcome.code == ERR_NONE);
	answer(NULL);
	bed_until(are_both_done);
	CHECK(outcome.code == ERR_NONE && rows(other.layer) == 1 && rows(capture.layer) == 1);
	end_bed();
}

static void disk_is_nearly_full(void)
{
	make();
	bed_turn(20);
	bed.core->storage.disk_bytes = 1000ULL << 20;
	bed.core->storage.disk_free = 50ULL << 20; /* the reserve */
	bed.core->layers.reserve_percent = 5;
	begin();
	bed_until(is_done);
	CHECK(outcome.reason == REASON_STORAGE_FULL && bed.asked[KEEPER_FREEZE] == 0);
	end();
}

/* ---- what one session or tenant can take from others */

static void set_room(uint64_t mib)
{
	bed_turn(20);
	bed.core->storage.disk_bytes = 1000ULL << 20;
	bed.core->storage.disk_free = (50 + mib) << 20;
	bed.core->layers.reserve_percent = 5;
}

static int admit_other(struct layer_writing *w, uint64_t bytes)
{
	struct err e;

	return layers_admit(&bed.core->layers, w, "another", 0, bytes, bytes, &e);
}

/* PID 1 is taken over, and says that its disk holds more than there is. */
static void a_lie_about_the_disk(void)
{
	struct layer_writing other = { 0 };

	make();
	set_room(400);
	CHECK(admit_other(&other, 1 << 20) == 0);
	bed.session->row.limits.disk_bytes = 64 << 20;
	bed.session->cell->disk_bytes = UINT64_MAX;
	begin();
	bed_until(is_unpack_asked);
	CHECK(asked.unpack.bytes_max <= 65 << 20);
	answer(NULL);
	bed_until(is_done);
	layers_settle(&bed.core->layers, &other, false);
	end();
}

static void a_large_disk_leaves_room_for_others(void)
{
	struct layer_writing other = { 0 };

	make();
	set_room(400);
	bed.session->row.limits.disk_bytes = 1ULL << 40;
	begin();
	bed_until(is_unpack_asked);
	CHECK(asked.unpack.bytes_max >= 100 << 20);
	CHECK(admit_other(&other, 100 << 20) == 0);
	answer(NULL);
	bed_until(is_done);
	layers_settle(&bed.core->layers, &other, false);
	end();
}

/* Files take no bytes, but file systems hold so many only. */
static void files_are_bounded(void)
{
	struct store_layer row = {
		.id = "lay_a", .kind = "test", .bytes = 4096, .entries = 100000
	};
	uint64_t bytes, n;
	struct err e;

	make();
	set_room(400);
	bed.core->storage.disk_files = 1000000;
	bed.core->storage.disk_files_free = 70000; /* the reserve, and 20,000 */
	bed.session->row.limits.inodes = 1000000;
	begin();
	bed_until(is_unpack_asked);
	CHECK(asked.unpack.entries_max <= 20000);
	answer(NULL);
	bed_until(is_done);
	bed_until(is_thawed);
	session_capture_release(bed.core, &capture);
	bed.core->storage.disk_files = 1000000;
	bed.core->storage.disk_files_free = 50000;
	done = 0;
	begin();
	bed_until(is_done);
	CHECK(outcome.reason == REASON_STORAGE_FULL);
	memcpy(row.tenant, bed.session->row.tenant, sizeof(row.tenant));
	CHECK(store_layer_insert(bed.core->store, &row, &e) == 0);
	CHECK(layers_used(&bed.core->layers, row.tenant, &bytes, &n, &e) == 0);
	CHECK(bytes >= 100000ULL * LAYERS_ENTRY_BYTES);
	end();
}

/* ---- cold sessions */

static bool is_cold(void)
{
	(void)hear(STORAGE_OPS);
	return done > 0 && bed.session->row.state == SESSION_PAUSED && bed.session->cell == NULL;
}

static bool is_running(void)
{
	(void)hear(STORAGE_OPS);
	return bed.session->row.state == SESSION_RUNNING && bed.session->cell->synced;
}

static void cold_and_back(void)
{
	struct completion w = { .on_done = on_done };

	make();
	session_cold_pause(bed.session, COLD_CAPTURE, NULL, &w);
	CHECK(bed.session->row.state == SESSION_PAUSING &&
	      bed.session->row.cold == COLD_TO_CAPTURE);
	bed_until(is_stream_begun);
	writer_ends();
	bed_turn(50);
	CHECK(bed.session->cell->frozen); /* what it would write now would be lost */
	answer(NULL);
	bed_until(is_cold);
	CHECK(outcome.code == ERR_NONE && bed.session->row.cold == COLD_YES);
	CHECK(bed.session->own != NULL && bed.session->own->nlayers == 1 && bed.core->live == 0);
	done = 0;
	session_resume(bed.session, NULL, &w);
	bed_until(is_running);
	CHECK(bed.session->row.cold == COLD_NO && bed.core->live == 1);
	CHECK(bed.created.nlayers > 1); /* the layer is below the new cell */
	end();
}

/* If it cannot be captured it goes on as before. */
static void stays_warm(void)
{
	struct completion w = { .on_done = on_done };
	struct err why;

	make();
	session_cold_pause(bed.session, COLD_CAPTURE, NULL, &w);
	bed_until(is_unpack_asked);
	(void)err_set_reason(&why, REASON_STORAGE_FULL, "no room");
	answer(&why);
	bed_until(is_running);
	bed_until(is_done);
	CHECK(outcome.reason == REASON_STORAGE_FULL && bed.session->row.cold == COLD_NO);
	bed_until(is_thawed);
	end();
}

static bool is_freeze_asked(void)
{
	return bed.asked[KEEPER_FREEZE] > 0;
}

static bool has_lost_its_cell(void)
{
	return bed.session->row.state == SESSION_PAUSED && bed.session->cell == NULL;
}

static bool is_cell_gone(void)
{
	(void)hear(STORAGE_OPS);
	return bed.session->ops[SESSION_OP_SUSPEND] == NULL;
}

/* A session that is kept loses its cell while the keeper is asked to freeze it: it becomes cold,
 * and the late answer only lets the end of the cell go on. */
static void cell_dies_before_it_is_frozen(bool paused, bool well)
{
	make();
	bed.session->row.keep_ms = 3600000;
	bed.way[KEEPER_FREEZE] = BED_HOLD;
	if (paused)
		session_pause(bed.session, NULL, NULL);
	else
		begin();
	bed_until(is_freeze_asked);
	bed_pid1_dies();
	bed_until(has_lost_its_cell);
	CHECK(bed.session->ops[SESSION_OP_SUSPEND] != NULL && bed.asked[KEEPER_DESTROY] == 0);
	bed_keeper_answers(well);
	bed_until(is_cell_gone);
	CHECK(has_lost_its_cell() && bed.session->row.cold == COLD_YES && unpacks == 0);
	/* The cell of a PID 1 that is not seen dead yet is removed once more when it is reaped. */
	CHECK(bed.asked[KEEPER_FREEZE] == 1);
	CHECK(bed.asked[KEEPER_DESTROY] == 1 || bed.asked[KEEPER_DESTROY] == 2);
	end();
}

static void cell_dies_before_a_capture(void)
{
	cell_dies_before_it_is_frozen(false, true);
	CHECK(done == 1 && outcome.reason == REASON_GONE);
}

static void cell_dies_before_a_refused_capture(void)
{
	cell_dies_before_it_is_frozen(false, false);
}

static void cell_dies_before_a_pause(void)
{
	cell_dies_before_it_is_frozen(true, true);
}

static void cell_dies_before_a_refused_pause(void)
{
	cell_dies_before_it_is_frozen(true, false);
}

/* ---- collections */

#define LISTED 200
#define NAME_BYTES 9 /* "lay_0001" and its NUL */
#define LOOKED_AT 64

static bool told_list, told_orphan; /* each is looked at more than once */

/* The list of directories: rows that are in use, and the last has none. */
static bool is_listed(void)
{
	int fds[IO_FDS_MAX];
	size_t nfds = 0;
	struct err e = { 0 };
	char name[16];

	while (!told_list &&
	       io_recv(storage, &asked, sizeof(asked), fds, IO_FDS_MAX, &nfds, &e) > 0) {
		bool list = asked.head.op == STORAGE_LIST;

		for (unsigned i = 0; list && i <= LISTED; i++) {
			CHECK(snprintf(name, sizeof(name), "lay_%04u", i) == NAME_BYTES - 1);
			CHECK(write(fds[0], name, NAME_BYTES) == NAME_BYTES);
		}
		io_close_all(fds, nfds);
		answer(NULL);
		told_list = list;
	}
	return told_list;
}

static bool is_read(void)
{
	return bed.core->layers.gc.at > 0;
}

static bool is_orphan_removed(void)
{
	told_orphan = told_orphan ||
		      (hear(STORAGE_REMOVE) && strcmp(asked.remove.layer, "lay_0200") == 0);
	return told_orphan;
}

static bool is_collected(void)
{
	(void)hear(STORAGE_OPS);
	return !bed.core->layers.gc.running;
}

static void a_long_list_is_looked_at_in_pieces(void)
{
	struct layers_gc *g;
	struct err e;

	make();
	g = &bed.core->layers.gc;
	for (unsigned i = 0; i < LISTED; i++) {
		struct store_layer row = { .kind = "test" };

		(void)snprintf(row.id, sizeof(row.id), "lay_%04u", i);
		CHECK(store_layer_insert_held(bed.core->store, &row, &e) == 0);
	}
	bed_until(is_collected);
	layers_collect(&bed.core->layers, true, NULL);
	bed_until(is_listed);
	bed_until(is_read);
	for (size_t before = g->at; g->names_len - g->at >= NAME_BYTES * 2;) {
		CHECK(g->at - before <= (size_t)LOOKED_AT * NAME_BYTES);
		before = g->at;
		loop_task_cancel(bed.loop, &g->go_on);
		g->go_on.on_run(&g->go_on);
	}
	bed_until(is_orphan_removed);
	answer(NULL);
	bed_until(is_collected);
	CHECK(g->last.orphans == 1 && g->last.removed == 0);
	end();
}

static bool is_removed(void)
{
	(void)hear(STORAGE_OPS);
	return removes > 0 && !bed.core->layers.gc.running;
}

/* A tenant lets captures fail, or cancels them, as often as it likes: each costs the removal of its
 * own layer, however many there are. */
static void a_layer_that_is_not_kept_goes_alone(void)
{
	struct err why, e;
	char id[STORE_ID_MAX];

	make();
	for (unsigned i = 0; i < 10 * LISTED; i++) {
		struct store_layer row = { .kind = "test" };

		(void)snprintf(row.id, sizeof(row.id), "lay_%04u", i);
		CHECK(store_layer_insert_held(bed.core->store, &row, &e) == 0);
	}
	bed_turn(1200); /* the search after the start, if it comes */
	bed_until(is_collected);
	lists = 0;
	(void)err_set_reason(&why, REASON_STORAGE_FULL, "no room");
	for (unsigned i = 0; i < 3; i++) {
		removes = done = 0;
		begin();
		bed_until(is_unpack_asked);
		str_copy(id, asked.unpack.layer);
		if (i == 1)
			session_capture_cancel(&capture);
		answer(i == 0 ? &why : NULL);
		if (i == 2) {
			bed_until(is_done);
			session_capture_release(bed.core, &capture);
		}
		bed_until(is_removed);
		CHECK_STR(removed, id);
		CHECK(lists == 0 && rows(id) == 0 && rows("lay_0001") == 1);
		bed_until(is_thawed);
	}
	end();
}

static bool is_searched(void)
{
	(void)hear(STORAGE_OPS);
	return lists > 0;
}

/* What cordon-storage was making when it died may be whole, and its removal was lost with it. */
static void another_storage_is_searched(void)
{
	make();
	bed_turn(1200);
	bed_until(is_collected);
	lists = 0;
	begin();
	bed_until(is_unpack_asked);
	session_capture_cancel(&capture);
	CHECK(close(storage) == 0);
	bed_turn(20);
	CHECK(lists == 0);
	connect_storage();
	bed_until(is_searched);
	bed_until(is_thawed);
	end();
}

/* ---- disks without a session */

static unsigned disks_listed, disks_removed;
static char disk_removed[STORE_ID_MAX];

/* The disk of the session, and one of a session that nobody knows. */
static bool is_swept(void)
{
	const char *const ids[] = { bed.session->row.id, "inobodyknows12345" };
	union storage_request r;
	int fds[IO_FDS_MAX];
	size_t nfds = 0;
	struct err e = { 0 };

	while (io_recv(storage, &r, sizeof(r), fds, IO_FDS_MAX, &nfds, &e) > 0) {
		for (size_t i = 0; r.head.op == STORAGE_DISK_LIST && i < COUNT(ids); i++) {
			const ssize_t n = (ssize_t)strlen(ids[i]) + 1;

			CHECK(write(fds[0], ids[i], (size_t)n) == n);
		}
		disks_listed += r.head.op == STORAGE_DISK_LIST;
		disks_removed += r.head.op == STORAGE_DISK_REMOVE;
		if (r.head.op == STORAGE_DISK_REMOVE)
			str_copy(disk_removed, r.disk.id);
		io_close_all(fds, nfds);
		asked = r;
		answer(NULL);
	}
	return disks_removed > 0;
}

/* They are searched for every ten minutes: here the clock of the chores is set. */
static void disks_without_a_session_are_swept(void)
{
	make();
	(void)is_swept(); /* what the start has asked for */
	bed_turn(50);
	(void)is_swept();
	disks_listed = disks_removed = 0;
	bed.core->chores_done = 597;
	while (bed.core->chores_done < 599) {
		bed_turn(50);
		(void)is_swept();
	}
	CHECK(disks_listed == 0);
	bed_until(is_swept);
	CHECK(disks_listed == 1 && disks_removed == 1);
	CHECK_STR(disk_removed, "inobodyknows12345");
	CHECK(bed.core->chores_done == 600);
	end();
}

#define MANY 150

/* Of one tenant; they become dying. */
static void add_dying(const char *tenant, unsigned n)
{
	static unsigned number;
	struct err e;

	for (unsigned i = 0; i < n; i++) {
		struct store_layer row = { .kind = "test" };

		(void)snprintf(row.id, sizeof(row.id), "lay_%s%04u", tenant, number++);
		(void)snprintf(row.tenant, sizeof(row.tenant), "%s", tenant);
		CHECK(store_layer_insert_held(bed.core->store, &row, &e) == 0);
		CHECK(store_layer_unuse(bed.core->store, STORE_LAYER_HELD, row.id, &e) == 0);
	}
}

static unsigned removed_before; /* of others, when that of the second tenant is removed */

static bool is_second_removed(void)
{
	while (!told_orphan && hear(STORAGE_REMOVE)) {
		told_orphan = strncmp(asked.remove.layer, "lay_b", 5) == 0;
		removed_before += !told_orphan;
		answer(NULL);
	}
	return told_orphan;
}

static bool is_all_removed(void)
{
	struct err e;
	uint64_t bytes, n = 1;

	(void)hear(STORAGE_OPS);
	return store_layer_sum(bed.core->store, "a", &bytes, &n, &e) == 0 && n == 0;
}

static void tenants_take_turns_in_removals(void)
{
	make();
	bed_until(is_collected);
	add_dying("a", MANY);
	add_dying("b", 1);
	layers_collect(&bed.core->layers, false, NULL);
	bed_until(is_second_removed);
	CHECK(removed_before <= LAYERS_GC_BATCH);
	bed_until(is_all_removed);
	end();
}

/* ---- root images */

static struct root_image *image;

static void on_image(struct completion *c, const struct err *e)
{
	done++;
	if (e != NULL)
		outcome = *e;
}

static bool is_image_asked(void)
{
	pending = pending || hear(STORAGE_ROOT_MAKE);
	return pending || done > 0;
}

/* One that another request made with another root directory is not taken for it. */
static void ask_for_image(const char *host)
{
	struct template_version *v = bed.session->template;
	const struct root_image_user u = { .version = v, .tenant = v->row.tenant, .session = "" };
	static struct completion w;
	struct template_stack stack = { .base = TEMPLATE_BASE_HOST };
	struct err no = { .code = ERR_LIMIT, .msg = "the test makes none" };

	done = 0;
	w = (struct completion){ .on_done = on_image };
	root_image_get(bed.core, &u, &stack, &w, &image);
	bed_until(is_image_asked);
	CHECK(done == 0 && asked.root.flags == STORAGE_FOLD_HOST);
	CHECK_STR(asked.root.base, host);
	answer(&no);
	bed_until(is_done);
}

/* Packages of the machine changed: images are of the new root directory from then on, have another
 * name than those of before, and may be as large as the new ones are. */
static void images_of_a_changed_machine(void)
{
	char digest[STORE_LAYER_DIGEST_MAX];
	struct root_image_user of = { .session = "" };
	struct template_stack stack = { .base = TEMPLATE_BASE_HOST };
	struct completion w = { .on_done = on_image };

	make();
	str_copy(bed.core->o.host.name, "host-1");
	ask_for_image("host-1");
	CHECK(asked.root.bytes_max <= bed.core->o.config->guest_root_max);
	/* Asked for just before the change: it does not count for those after it. */
	of.version = bed.session->template;
	of.tenant = of.version->row.tenant;
	done = 0;
	root_image_get(bed.core, &of, &stack, &w, &image);
	str_copy(digest, image->digest);
	bed_until(is_image_asked);
	CHECK_STR(asked.root.base, "host-1");
	pending = false;
	templates_host_changed(bed.core, "host-2", 1ULL << 35);
	completion_cancel(&w);
	ask_for_image("host-2");
	CHECK(asked.root.bytes_max > bed.core->o.config->guest_root_max);
	root_image_get(bed.core, &of, &stack, &w, &image);
	CHECK(strcmp(image->digest, digest) != 0);
	completion_cancel(&w);
	end();
}

TEST_MAIN({ "images of a changed machine", images_of_a_changed_machine }, { "succeeds", succeeds },
	  { "thawed when it is read", thawed_when_it_is_read },
	  { "its time counts for no timeout", its_time_counts_for_no_timeout },
	  { "thawed and refused", thawed_and_refused }, { "storage refuses", storage_refuses },
	  { "storage dies", storage_dies }, { "freeze is refused", freeze_is_refused },
	  { "one at a time", one_at_a_time }, { "session ends meanwhile", session_ends_meanwhile },
	  { "cancelled", cancelled },
	  { "cancelled before it is thawed", cancelled_before_it_is_thawed },
	  { "session ends before it is thawed", session_ends_before_it_is_thawed },
	  { "the next begins from the loop", the_next_begins_from_the_loop },
	  { "two tenants leave room for captures", two_tenants_leave_room_for_captures },
	  { "tenants take turns in captures", tenants_take_turns_in_captures },
	  { "over the quota", over_the_quota }, { "two within the quota", two_within_the_quota },
	  { "disk is nearly full", disk_is_nearly_full },
	  { "a lie about the disk", a_lie_about_the_disk },
	  { "a large disk leaves room for others", a_large_disk_leaves_room_for_others },
	  { "files are bounded", files_are_bounded }, { "cold and back", cold_and_back },
	  { "stays warm", stays_warm },
	  { "cell dies before a capture", cell_dies_before_a_capture },
	  { "cell dies before a refused capture", cell_dies_before_a_refused_capture },
	  { "cell dies before a pause", cell_dies_before_a_pause },
	  { "cell dies before a refused pause", cell_dies_before_a_refused_pause },
	  { "a long list is looked at in pieces", a_long_list_is_looked_at_in_pieces },
	  { "a layer that is not kept goes alone", a_layer_that_is_not_kept_goes_alone },
	  { "another storage is searched", another_storage_is_searched },
	  { "disks without a session are swept", disks_without_a_session_are_swept },
	  { "tenants take turns in removals", tenants_take_turns_in_removals })
