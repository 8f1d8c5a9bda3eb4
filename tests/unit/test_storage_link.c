/* Goal: every request to cordon-storage ends exactly once, whatever the program at the other end
 * does: answers, answers late or in another order, dies, hangs, or was never there.
 *
 * The test plays cordon-storage at the other end of a real channel; tests/storage has the program.
 */
#include "daemon/disk/storage_link.h"

#include <fcntl.h>
#include <sys/socket.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "support.h"

static struct loop *loop;
static struct storage_link link_;
static int peer = -1;
static unsigned hung, greeted;

struct caller {
	struct storage_job job;
	unsigned ends;
	struct err err;
};

static void on_done(struct completion *c, const struct err *e)
{
	struct caller *a = c->arg;

	a->ends++;
	a->err = e == NULL ? (struct err){ 0 } : *e;
}

static void begin(struct caller *a)
{
	*a = (struct caller){ .job = { .done = { .on_done = on_done, .arg = a }, .fd = -1 } };
}

static void on_hung(void *arg)
{
	hung++;
}

static void on_hello(void *arg, const struct err *e)
{
	greeted += e == NULL;
}

static void on_stop(struct loop_timer *t)
{
	loop_stop(t->arg);
}

/* Lets the loop run for so long. */
static void turn(uint64_t ms)
{
	struct loop_timer t = { .on_expire = on_stop, .arg = loop };
	struct err e;

	loop_timer_set(loop, &t, clock_now_ns() + ms * CLOCK_MS);
	CHECK(loop_run(loop, &e) == 0);
}

static void attach(void)
{
	struct err e;
	int ends[2];

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	if (peer >= 0)
		(void)close(peer);
	peer = ends[1];
	CHECK(fcntl(peer, F_SETFL, O_NONBLOCK) == 0);
	CHECK(storage_link_attach(&link_, ends[0], &e) == 0);
}

static void set_up(void)
{
	struct err e;

	loop = loop_new(&e);
	CHECK(loop != NULL);
	storage_link_init(&link_, loop);
	link_.on_hung = on_hung;
	link_.on_hello = on_hello;
}

static void answer(uint32_t op, uint64_t job, enum err_code code)
{
	struct storage_reply r = { .op = op,
				   .version = STORAGE_VERSION,
				   .job = job,
				   .err = { .code = code, .msg = "refused" },
				   .bytes = job * 10,
				   .disk_free = 77 };
	struct err e;

	CHECK(io_send(peer, &r, sizeof(r), NULL, 0, &e) == 0);
}

/* The next request; its descriptors are closed. False: there is none. */
static bool take(union storage_request *ret)
{
	int fds[IO_FDS_MAX];
	size_t nfds = 0;
	struct err e;
	ssize_t n = io_recv(peer, ret, sizeof(*ret), fds, IO_FDS_MAX, &nfds, &e);

	if (n <= 0)
		return false;
	CHECK(storage_msg_check(ret, (size_t)n, nfds, &e) == 0);
	io_close_all(fds, nfds);
	return true;
}

static void unpack(struct caller *a, const char *layer, uint32_t deadline_ms)
{
	struct storage_unpack r = { .head.deadline_ms = deadline_ms,
				    .bytes_max = 1,
				    .entries_max = 1 };

	begin(a);
	(void)snprintf(r.layer, sizeof(r.layer), "%s", layer);
	storage_link_unpack(&link_, &a->job, &r, open("/dev/null", O_RDONLY | O_CLOEXEC));
}

static void answers_come_in_any_order(void)
{
	union storage_request first, second;
	struct caller a, b;

	set_up();
	unpack(&a, "lay_a", 0); /* waits for the program */
	begin(&b);
	storage_link_remove(&link_, &b.job, "lay_b");
	turn(10);
	CHECK(a.ends == 0 && b.ends == 0);
	attach();
	turn(10);
	CHECK(!take(&first)); /* and for its HELLO */
	answer(STORAGE_HELLO, 0, ERR_NONE);
	turn(10);
	CHECK(greeted == 1 && storage_link_is_ready(&link_) && link_.disk_free == 77);
	CHECK(take(&first) && take(&second));
	CHECK(first.head.op == STORAGE_REMOVE && second.head.op == STORAGE_UNPACK);
	CHECK(first.head.job != second.head.job);
	answer(STORAGE_UNPACK, second.head.job, ERR_NONE);
	answer(STORAGE_REMOVE, first.head.job, ERR_DENIED);
	turn(10);
	CHECK(b.ends == 1 && b.err.code == ERR_DENIED);
	CHECK(a.ends == 1 && a.err.code == ERR_NONE && a.job.reply.bytes == second.head.job * 10);
	storage_link_release(&link_);
}

static void a_death_ends_what_was_sent(void)
{
	union storage_request r;
	struct caller a, b;

	set_up();
	attach();
	answer(STORAGE_HELLO, 0, ERR_NONE);
	unpack(&a, "lay_a", 0);
	turn(10);
	CHECK(take(&r));
	(void)close(peer);
	peer = -1;
	turn(10);
	CHECK(a.ends == 1 && a.err.reason == REASON_PEER_DIED && !storage_link_is_ready(&link_));
	begin(&b);
	storage_link_remove(&link_, &b.job, "lay_a");
	turn(10);
	CHECK(b.ends == 0); /* the next program gets it */
	attach();
	answer(STORAGE_HELLO, 0, ERR_NONE);
	turn(10);
	CHECK(take(&r) && r.head.op == STORAGE_REMOVE);
	answer(STORAGE_REMOVE, r.head.job, ERR_NONE);
	turn(10);
	CHECK(b.ends == 1 && b.err.code == ERR_NONE && hung == 0);
	storage_link_release(&link_);
}

static void a_cancelled_layer_is_removed(void)
{
	union storage_request r;
	struct caller a, b;

	set_up();
	attach();
	answer(STORAGE_HELLO, 0, ERR_NONE);
	unpack(&a, "lay_a", 0);
	turn(10);
	CHECK(take(&r));
	storage_link_cancel(&link_, &a.job);
	storage_link_cancel(&link_, &a.job); /* repeatable */
	answer(STORAGE_UNPACK, r.head.job, ERR_NONE);
	turn(10);
	CHECK(a.ends == 0);
	CHECK(take(&r) && r.head.op == STORAGE_REMOVE && strcmp(r.remove.layer, "lay_a") == 0);
	unpack(&b, "lay_b", 0);
	storage_link_cancel(&link_, &b.job); /* before it is sent */
	turn(10);
	CHECK(!take(&r) && b.ends == 0);
	storage_link_release(&link_);
}

/* Every kind of request that makes a layer. */
static void a_cancelled_layer_of_an_image_is_removed(void)
{
	static const char below[1][STORAGE_ID_MAX] = { "lay_below" };
	union storage_request r;
	struct caller a, b;

	set_up();
	attach();
	answer(STORAGE_HELLO, 0, ERR_NONE);
	begin(&a);
	storage_link_arrange(&link_, &a.job, "lay_a", below, 1, "host-1");
	turn(10);
	CHECK(take(&r) && r.head.op == STORAGE_ARRANGE);
	storage_link_cancel(&link_, &a.job);
	answer(STORAGE_ARRANGE, r.head.job, ERR_NONE);
	turn(10);
	CHECK(take(&r) && r.head.op == STORAGE_REMOVE && strcmp(r.remove.layer, "lay_a") == 0);
	answer(STORAGE_REMOVE, r.head.job, ERR_NONE);
	begin(&b);
	storage_link_fold(&link_, &b.job, "lay_b", below, 1);
	turn(10);
	CHECK(take(&r) && r.head.op == STORAGE_FOLD);
	storage_link_cancel(&link_, &b.job);
	answer(STORAGE_FOLD, r.head.job, ERR_NONE);
	turn(10);
	CHECK(take(&r) && r.head.op == STORAGE_REMOVE && strcmp(r.remove.layer, "lay_b") == 0);
	storage_link_release(&link_);
}

/* ---- shares */

static const char below_[1][STORAGE_ID_MAX] = { "lay_b" };

static void ask_remove(struct caller *a, const char *tenant)
{
	begin(a);
	a->job.tenant = tenant;
	storage_link_remove(&link_, &a->job, "lay_r");
}

static void ask_fold(struct caller *a, const char *tenant, bool for_session)
{
	begin(a);
	a->job.tenant = tenant;
	a->job.for_session = for_session;
	/* the layer has the tenant's name, by which the other side knows it */
	storage_link_fold(&link_, &a->job, tenant, below_, 1);
}

static void ask_image(struct caller *a, const char *tenant, bool from_registry)
{
	struct storage_unpack r = { .format = STORAGE_OCI_LAYER,
				    .flags = from_registry ? STORAGE_FROM_REGISTRY : 0,
				    .bytes_max = 1,
				    .entries_max = 1 };

	begin(a);
	a->job.tenant = tenant;
	(void)snprintf(r.layer, sizeof(r.layer), "%s", tenant);
	storage_link_unpack(&link_, &a->job, &r, open("/dev/null", O_RDONLY | O_CLOEXEC));
}

static void ask_files(struct caller *a, const char *tenant)
{
	struct storage_files r = { .head = { .op = STORAGE_FILES, .deadline_ms = 1000 },
				   .nlower = 1,
				   .limit = 1,
				   .lower = { "lay_b" } };
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	begin(a);
	a->job.tenant = tenant;
	storage_link_ask(&link_, &a->job, &r, sizeof(r), &fd, 1);
}

/* How many came; *last is the last of them. */
static unsigned take_all(union storage_request *last)
{
	unsigned n = 0, before;

	do { /* the socket has room for some at a time */
		turn(10);
		for (before = n; take(last); n++)
			;
	} while (n > before);
	return n;
}

static void start(void)
{
	set_up();
	attach();
	answer(STORAGE_HELLO, 0, ERR_NONE);
}

/* A tenant with many requests has a part of the room, whatever they are. */
static void one_tenant_does_not_have_all(void)
{
	static struct caller all[64], other[5];
	union storage_request r;

	start();
	for (unsigned i = 0; i < COUNT(all); i += 4) {
		ask_remove(&all[i], "ten_a");
		ask_fold(&all[i + 1], "ten_a", i % 8 == 0);
		ask_image(&all[i + 2], "ten_a", false);
		ask_files(&all[i + 3], "ten_a");
	}
	CHECK(take_all(&r) <= STORAGE_JOBS_MAX / 2);
	ask_remove(&other[0], "ten_b");
	ask_fold(&other[1], "ten_b", true);
	ask_fold(&other[2], "ten_b", false);
	ask_image(&other[3], "ten_b", false);
	ask_files(&other[4], "ten_b");
	CHECK(take_all(&r) == COUNT(other));
	storage_link_release(&link_);
}

/* A registry decides how long a pull takes: pulls are no images that are unpacked. */
static void pulls_hold_up_no_imports(void)
{
	static struct caller pulls[16], imports[2];
	static const char *const tenants[] = { "ten_a", "ten_b", "ten_c", "ten_d" };
	union storage_request r;

	start();
	for (unsigned i = 0; i < COUNT(pulls); i++)
		ask_image(&pulls[i], tenants[i / 4], true);
	CHECK(take_all(&r) == COUNT(pulls));
	for (unsigned i = 0; i < COUNT(imports); i++)
		ask_image(&imports[i], "ten_a", false);
	CHECK(take_all(&r) == COUNT(imports));
	storage_link_release(&link_);
}

/* Clients and registries of some tenants take as long as they like, and all the room that there is:
 * one that has no stream gets one. */
static void slow_tenants_leave_streams(void)
{
	static struct caller many[STORAGE_STREAMS_MAX], last[2];
	static const char *const tenants[] = { "ten_a", "ten_b", "ten_c" };
	union storage_request r;
	unsigned n;

	start();
	for (unsigned i = 0; i < COUNT(many); i++)
		ask_image(&many[i], tenants[i % COUNT(tenants)], true);
	n = take_all(&r);
	CHECK(n < STORAGE_STREAMS_MAX && n >= STORAGE_STREAMS_MAX / 2);
	for (unsigned i = 0; i < COUNT(last); i++)
		ask_image(&last[i], "ten_d", true);
	CHECK(take_all(&r) == 1 && strcmp(r.unpack.layer, "ten_d") == 0);
	storage_link_release(&link_);
}

/* A session that is to be paused does not wait for images, of however many tenants. */
static void sessions_come_before_images(void)
{
	static struct caller images[8], fold;
	static const char *const tenants[] = { "ten_a", "ten_b", "ten_c", "ten_d" };
	union storage_request r;

	start();
	for (unsigned i = 0; i < COUNT(images); i++)
		ask_image(&images[i], tenants[i / 2], false);
	CHECK(take_all(&r) < COUNT(images));
	ask_fold(&fold, "ten_e", true);
	CHECK(take_all(&r) == 1 && r.head.op == STORAGE_FOLD);
	storage_link_release(&link_);
}

/* Of those that wait for one place, tenants take turns; one with many old ones is not first. */
static void tenants_take_turns(void)
{
	static struct caller all[24], more[2], late[2];
	static const char *const tenants[] = { "ten_a", "ten_b" };
	union storage_request r;
	const uint64_t jobs[] = { 1, 2, COUNT(all) + 1 }; /* at work */
	unsigned n[2] = { 0 };

	start();
	for (unsigned i = 0; i < COUNT(all); i++)
		ask_image(&all[i], "ten_a", false);
	CHECK(take_all(&r) == 2);
	for (unsigned i = 0; i < COUNT(more); i++)
		ask_image(&more[i], "ten_c", false); /* the room of all is used up */
	CHECK(take_all(&r) == 2);
	for (unsigned i = 0; i < COUNT(late); i++)
		ask_image(&late[i], "ten_b", false);
	CHECK(take_all(&r) == 1 && strcmp(r.unpack.layer, "ten_b") == 0); /* it had none */
	n[1]++;
	for (unsigned i = 0; i < COUNT(jobs); i++) {
		answer(STORAGE_UNPACK, jobs[i], ERR_NONE);
		if (take_all(&r) == 1)
			for (unsigned k = 0; k < COUNT(tenants); k++)
				n[k] += strcmp(r.unpack.layer, tenants[k]) == 0;
	}
	CHECK(n[0] == 1 && n[1] == 2); /* both, before the rest of the first tenant */
	storage_link_release(&link_);
}

/* Two tenants have all the room of a class. A third gets a place, and only the first of its two;
 * tenants that have places get no more. The spare places have a bound, too. */
static void two_tenants_leave_room(void (*ask)(struct caller *, const char *), unsigned each)
{
	static struct caller full[2 * 12], others[32];
	static char names[16][STORAGE_ID_MAX];
	union storage_request r;
	unsigned n;

	start();
	for (unsigned i = 0; i < 2 * each; i++)
		ask(&full[i], i % 2 == 0 ? "ten_a" : "ten_b");
	n = take_all(&r);
	CHECK(n < 2 * each);
	ask(&others[0], "ten_c");
	ask(&others[1], "ten_c");
	CHECK(take_all(&r) == 1);
	for (unsigned i = 2; i < COUNT(others); i++) {
		(void)snprintf(names[i / 2], sizeof(names[0]), "ten_%u", i);
		ask(&others[i], names[i / 2]);
	}
	CHECK(n + 1 + take_all(&r) <= STORAGE_JOBS_MAX / 2);
	storage_link_release(&link_);
}

static void ask_import(struct caller *a, const char *tenant)
{
	ask_image(a, tenant, false);
}

static void ask_session_fold(struct caller *a, const char *tenant)
{
	ask_fold(a, tenant, true);
}

static void two_tenants_leave_room_to_others(void)
{
	two_tenants_leave_room(ask_import, 3);
	two_tenants_leave_room(ask_session_fold, 3);
	two_tenants_leave_room(ask_files, 2);
}

/* The same of quick requests, which three tenants fill. */
static void three_tenants_leave_room_for_quick_ones(void)
{
	static struct caller full[3 * 5], last;
	static const char *const tenants[] = { "ten_a", "ten_b", "ten_c" };
	union storage_request r;

	start();
	for (unsigned i = 0; i < COUNT(full); i++)
		ask_remove(&full[i], tenants[i % 3]);
	CHECK(take_all(&r) == 12);
	ask_remove(&last, "ten_d");
	CHECK(take_all(&r) == 1);
	storage_link_release(&link_);
}

static void ask_capture(struct caller *a, const char *tenant)
{
	struct storage_unpack r = { .format = STORAGE_CAPTURE, .bytes_max = 1, .entries_max = 1 };

	begin(a);
	a->job.tenant = tenant;
	(void)snprintf(r.layer, sizeof(r.layer), "%s", tenant);
	storage_link_unpack(&link_, &a->job, &r, open("/dev/null", O_RDONLY | O_CLOEXEC));
}

/* Captures may take minutes. They hold up no disk, of no tenant, and two tenants that have all
 * their room leave some to others. */
static void captures_hold_up_no_others(void)
{
	static struct caller captures[16], disks[2], last;
	static const char *const tenants[] = { "ten_a", "ten_b" };
	union storage_request r;

	start();
	for (unsigned i = 0; i < COUNT(captures); i++)
		ask_capture(&captures[i], tenants[i % 2]);
	CHECK(take_all(&r) == 6);
	for (unsigned i = 0; i < COUNT(tenants); i++) {
		ask_remove(&disks[i], tenants[i]);
		CHECK(take_all(&r) == 1 && r.head.op == STORAGE_REMOVE);
	}
	ask_capture(&last, "ten_c");
	CHECK(take_all(&r) == 1 && strcmp(r.unpack.layer, "ten_c") == 0);
	storage_link_release(&link_);
}

static struct caller *victim;

static void on_done_cancel(struct completion *c, const struct err *e)
{
	on_done(c, e);
	storage_link_cancel(&link_, &victim->job);
}

/* When cordon-storage dies, the end of one job may cancel another that was lost with it. */
static void the_end_of_one_may_cancel_another(void)
{
	static struct caller a, b;
	union storage_request r;

	start();
	ask_remove(&a, "ten_a");
	ask_remove(&b, "ten_a");
	a.job.done.on_done = on_done_cancel;
	victim = &b;
	CHECK(take_all(&r) == 2);
	(void)close(peer);
	peer = -1;
	turn(10);
	CHECK(a.ends == 1 && b.ends == 0);
	storage_link_release(&link_);
}

/* The session was deleted while its disk was being made; its removal has found nothing. */
static void a_cancelled_disk_is_removed(void)
{
	struct storage_disk d = { .head = { .op = STORAGE_DISK_MAKE, .deadline_ms = 1000 },
				  .bytes = 1 << 20,
				  .inodes = 1000,
				  .id = "ses_a" };
	union storage_request r;
	struct caller a;

	start();
	begin(&a);
	storage_link_ask(&link_, &a.job, &d, sizeof(d), NULL, 0);
	CHECK(take_all(&r) == 1);
	storage_link_cancel(&link_, &a.job);
	answer(STORAGE_DISK_MAKE, r.head.job, ERR_NONE);
	CHECK(take_all(&r) == 1 && r.head.op == STORAGE_DISK_REMOVE);
	CHECK_STR(r.disk.id, "ses_a");
	storage_link_release(&link_);
}

static void one_that_hangs_is_replaced(void)
{
	union storage_request r;
	struct caller a, b;

	set_up();
	link_.grace_ms = 30;
	attach();
	answer(STORAGE_HELLO, 0, ERR_NONE);
	unpack(&a, "lay_a", 20);
	turn(10);
	CHECK(take(&r) && a.ends == 0);
	turn(100);
	CHECK(a.ends == 1 && a.err.reason == REASON_PEER_DIED && hung == 1);
	CHECK(!storage_link_is_ready(&link_) && read(peer, &r, sizeof(r)) == 0);
	unpack(&b, "lay_b", 20); /* and no other one comes */
	turn(100);
	CHECK(b.ends == 1 && b.err.reason == REASON_TIMEOUT && hung == 1);
	storage_link_release(&link_);
}

static void what_is_not_asked_for_ends_it(void)
{
	union storage_request r;
	struct caller a;

	set_up();
	attach();
	answer(STORAGE_HELLO, 0, ERR_NONE);
	unpack(&a, "lay_a", 0);
	turn(10);
	CHECK(take(&r));
	answer(STORAGE_UNPACK, r.head.job + 5, ERR_NONE);
	turn(10);
	CHECK(a.ends == 1 && a.err.reason == REASON_PEER_DIED && hung == 1);
	attach();
	answer(STORAGE_HELLO, 0, ERR_NONE);
	turn(10);
	CHECK(io_send(peer, "short", 5, NULL, 0, &a.err) == 0);
	turn(10);
	CHECK(!storage_link_is_ready(&link_));
	storage_link_release(&link_);
}

TEST_MAIN({ "answers come in any order", answers_come_in_any_order },
	  { "a death ends what was sent", a_death_ends_what_was_sent },
	  { "a cancelled layer is removed", a_cancelled_layer_is_removed },
	  { "a cancelled layer of an image is removed", a_cancelled_layer_of_an_image_is_removed },
	  { "one tenant does not have all", one_tenant_does_not_have_all },
	  { "pulls hold up no imports", pulls_hold_up_no_imports },
	  { "slow tenants leave streams", slow_tenants_leave_streams },
	  { "sessions come before images", sessions_come_before_images },
	  { "tenants take turns", tenants_take_turns },
	  { "two tenants leave room to others", two_tenants_leave_room_to_others },
	  { "three tenants leave room for quick ones", three_tenants_leave_room_for_quick_ones },
	  { "captures hold up no others", captures_hold_up_no_others },
	  { "the end of one may cancel another", the_end_of_one_may_cancel_another },
	  { "a cancelled disk is removed", a_cancelled_disk_is_removed },
	  { "one that hangs is replaced", one_that_hangs_is_replaced },
	  { "what is not asked for ends it", what_is_not_asked_for_ends_it })
