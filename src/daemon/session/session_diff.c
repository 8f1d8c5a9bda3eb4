/* session_diff.c - lists the changes in a cell (session.h), and keeps the list at a session's end
 * (session_diff.h).
 *
 * A reader process of the keeper writes the list to a pipe. In a virtual machine, a built-in of its
 * agent does (guest_reader.h). The request ends when two events have come, in either order: the end
 * of the pipe and the answer of the keeper. A keeper that refuses closes its end of the pipe first,
 * and a short list ends before the answer comes. A failure of either ends the request at once.
 */
#include "daemon/session/session_diff.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/cells/keeper_link.h"
#include "daemon/guest/guest_reader.h"
#include "daemon/node/core_private.h"
#include "daemon/output/log_removal.h"
#include "daemon/output/output_log.h"
#include "daemon/output/pipe_io.h"
#include "daemon/session/session.h"
#include "daemon/session/session_spec.h"
#include "daemon/tenant/event_log.h"
#include "daemon/tenant/record_quota.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/lanes.h"
#include "lib/base/log.h"
#include "lib/wire/diff_record.h"

#define BUFFER 16384	 /* of a turn: the consumers mask the paths in it */
#define SILENCE_MS 60000 /* without a byte */
#define GUEST_MS 120000	 /* for a whole list from a guest, which may never end it */

/* At a time. diff_reader.c has room for these. The second: lists of guests, beside the first. A
 * hostile guest keeps its place for GUEST_MS. A tenant has that many of both together. */
static const struct lanes_room lists_room = { 8, 4, 4 }, guests_room = { 4, 4, 4 };

/* Stop everything that could call back. Repeatable. */
static void diff_release(struct session_diff *d)
{
	if (d->core == NULL)
		return;
	if (d->call != NULL)
		keeper_link_cancel(d->call);
	d->call = NULL;
	loop_remove(d->core->loop, &d->fd);
	io_close_all(&d->pipe, 1);
	guest_reader_free(d->reader);
	d->reader = NULL;
	--*(d->reads_guest ? &d->core->guest_diffs : &d->core->diffs);
	d->tenant->diffs--;
	d->core = NULL;
}

static void session_diff_finish(struct session_diff *d, const struct err *e)
{
	diff_release(d);
	completion_end(&d->end, e);
}

/* Also called when the list has been silent for SILENCE_MS. */
static void on_end(struct completion *c, const struct err *e)
{
	struct session_diff *d = c->arg;

	diff_release(d);
	d->on_done(d, e);
}

static void on_readable(struct loop_fd *f, uint32_t events)
{
	struct session_diff *d = f->arg;
	uint8_t bytes[BUFFER];
	ssize_t n = pipe_io_read(d->pipe, bytes, sizeof(bytes)); /* the writer may be a guest */
	struct err e;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		if (d->reader == NULL)
			completion_set_deadline(&d->end, SILENCE_MS, "changes of the session");
		d->on_data(d, bytes, (size_t)n);
		return;
	}
	if (n < 0) {
		(void)err_sys(&e, "read changes");
		session_diff_finish(d, &e);
		return;
	}
	/* The last record says whether the list is complete. */
	loop_remove(d->core->loop, &d->fd);
	io_close_all(&d->pipe, 1);
	if (d->call == NULL)
		session_diff_finish(d, NULL);
}

/* The keeper has started the reader, or refused. */
static void on_reply(void *arg, const struct keeper_reply *reply, int fd, const struct err *e)
{
	struct session_diff *d = arg;
	OWN_FD unused = fd;
	struct err why;

	d->call = NULL;
	if (e != NULL) {
		why = *e;
		if (why.code == ERR_LIMIT) /* the keeper still counts a cancelled reader */
			why.reason = REASON_CAPACITY_DIFFS;
		session_diff_finish(d, &why);
	} else if (d->pipe < 0) {
		session_diff_finish(d, NULL);
	}
}

/* Each reader is a process and a pipe. A tenant may not occupy all of them. */
static int diff_admit(const struct session *s, struct err *e)
{
	bool guest = guest_reader_is_needed(s);
	const struct lanes_room *room = guest ? &guests_room : &lists_room;
	unsigned all = guest ? s->core->guest_diffs : s->core->diffs;

	if (s->tenant->diffs >= room->owner)
		return err_set_reason(e, REASON_QUOTA_DIFFS,
				      "the changes of %u sessions are being read already",
				      s->tenant->diffs);
	if (s->tenant->diffs >= lanes_most(room, all))
		return err_set_reason(e, REASON_CAPACITY_DIFFS,
				      "the changes of %u sessions are being read already", all);
	if (s->cell == NULL)
		return err_set(e, ERR_CONFLICT, "session %s has no cell", s->row.id);
	return session_level_check(s, CELL_CAN_DIFF, "diff", e);
}

void session_diff_request(const struct session *s, uint32_t op, const struct keeper_create *plan,
			  struct keeper_diff *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->named = (struct keeper_named){ .op = op, .pid = (uint32_t)s->cell->pid };
	memcpy(ret->named.id, s->row.id, sizeof(ret->named.id));
	ret->nlayers = plan->nlayers;
	memcpy(ret->layer_at, plan->layer_at, sizeof(ret->layer_at));
	memcpy(ret->layer_from, plan->layer_from, sizeof(ret->layer_from));
}

static void diff_ask(struct session *s, struct session_diff *d, const struct keeper_create *plan,
		     int to)
{
	struct keeper_diff r;

	session_diff_request(s, KEEPER_DIFF, plan, &r);
	d->call = keeper_link_ask(&s->core->cells.keeper, s->row.tenant, &r, sizeof(r), to,
				  KEEPER_URGENT, on_reply, d);
}

static void on_reader_ready(struct completion *c, const struct err *e)
{
	struct session_diff *d = c->arg;
	struct err why;

	if (e == NULL) {
		d->pipe = guest_reader_take(d->reader);
		if (loop_add(d->core->loop, &d->fd, d->pipe, EPOLLIN, &why) == 0)
			return;
		e = &why;
	}
	session_diff_finish(d, e);
}

static int diff_begin(struct session *s, struct session_diff *d, struct err *e)
{
	struct keeper_create plan;
	int ends[2];

	if (guest_reader_is_needed(s)) {
		d->ready = (struct completion){ .on_done = on_reader_ready, .arg = d };
		completion_set_deadline(&d->end, GUEST_MS, "changes of the session");
		d->reader = guest_reader_new(s, d->still ? "frozen-diff" : "diff", &d->ready);
		return 0;
	}

	if (session_spec_plan(s->core, s->template, &s->row, s->own, &plan, e) < 0)
		return -1;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	OWN_FD to = ends[1];

	d->pipe = ends[0];
	if (fcntl(d->pipe, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "pipe");
	if (loop_add(s->core->loop, &d->fd, d->pipe, EPOLLIN, e) < 0)
		return -1;
	diff_ask(s, d, &plan, TAKE_FD(to));
	return 0;
}

void session_diff(struct session *s, struct session_diff *d)
{
	struct err e;

	d->end = (struct completion){ .on_done = on_end, .arg = d };
	if (diff_admit(s, &e) < 0) {
		completion_end_soon(&d->end, s->core->loop, &e);
		return;
	}
	completion_begin(&d->end, s->core->loop, NULL);
	completion_set_deadline(&d->end, SILENCE_MS, "changes of the session");
	d->core = s->core;
	d->tenant = s->tenant;
	d->reads_guest = guest_reader_is_needed(s);
	++*(d->reads_guest ? &d->core->guest_diffs : &d->core->diffs);
	d->tenant->diffs++;
	d->pipe = -1;
	d->call = NULL;
	d->reader = NULL;
	d->fd = (struct loop_fd){ .fd = -1, .on_ready = on_readable, .arg = d };
	if (diff_begin(s, d, &e) < 0)
		session_diff_finish(d, &e);
}

void session_diff_cancel(struct session_diff *d)
{
	completion_cancel(&d->end);
	diff_release(d);
}

#define LIST_MAX ((size_t)4 << 20)
#define RECORD_MAX ((size_t)300 << 10)
#define TIME_MS 30000 /* for the whole list: a cell that cannot be read ends without its list */
#define AGAIN_MS 100  /* between tries, while no reader is free */
#define NAME_MAX_BYTES LOG_NAME_MAX
_Static_assert(LOG_NAME_MAX >= STORE_ID_MAX + sizeof(".diff.new"), "named after its session");

struct keeping {
	struct session_op op; /* first */
	struct session_diff diff;
	struct buf list;   /* whole records, as received */
	struct buf record; /* an incomplete one */
	bool truncated, malformed, whole;
	struct loop_timer timer; /* the next try, or the end of all */
	uint64_t until_ns;
};

const char *kept_diff_name(uint32_t state)
{
	static const char *const names[] = { NULL, "wanted", "kept", "failed" };

	_Static_assert(COUNT(names) == KEPT_DIFF_STATES, "one name for each state");
	return state < KEPT_DIFF_STATES ? names[state] : NULL;
}

static void name_file(const char *id, const char *ending, char ret[NAME_MAX_BYTES])
{
	(void)snprintf(ret, NAME_MAX_BYTES, "%s.diff%s", id, ending);
}

/* ---- the outcome */

/* The row and its event are written in one transaction, so a client never sees one without the
 * other. */
static void diff_save(struct session *s, enum kept_diff state, uint64_t bytes, const char *why)
{
	struct core *c = s->core;
	struct err e;

	s->row.keep_diff = state;
	s->row.diff_bytes = bytes;
	s->row.diff_why = why; /* always a constant */
	if (store_begin(c->store, &e) == 0 &&
	    store_session_update_diff(c->store, &s->row, &e) == 0 &&
	    event_log_append(c, NULL, s->row.tenant, s->row.id, "", "session.diff", &e,
			     "state\t%s\nbytes\t%llu\nwhy\t%s\n", kept_diff_name(state),
			     (unsigned long long)bytes, why) == 0 &&
	    store_commit(c->store, &e) == 0)
		return;
	store_rollback(c->store);
	log_error("the outcome of keeping a diff could not be written", "session_id=%s error=%s",
		  s->row.id, e.msg);
}

static void not_kept(struct session *s, const char *why)
{
	char name[NAME_MAX_BYTES];

	name_file(s->row.id, ".new", name);
	(void)unlinkat(s->core->output_fd, name, 0);
	log_info("diff not kept", "session_id=%s why=%s", s->row.id, why);
	diff_save(s, KEPT_DIFF_FAILED, 0, why);
}

/* Written under another name and renamed, so that a file with the final name is always whole. */
static int write_file(struct session *s, const char *text, size_t len, struct err *e)
{
	char name[NAME_MAX_BYTES], fresh[NAME_MAX_BYTES];

	name_file(s->row.id, "", name);
	name_file(s->row.id, ".new", fresh);
	OWN_FD fd = output_log_open(s->core->output_fd, fresh, O_WRONLY | O_CREAT | O_TRUNC);
	if (fd < 0)
		return err_sys(e, "open %s", fresh);
	if (io_write_all(fd, text, len, e) < 0)
		return -1;
	if (renameat(s->core->output_fd, fresh, s->core->output_fd, name) < 0)
		return err_sys(e, "rename %s", fresh);
	return 0;
}

static void diff_keep(struct session *s, const struct buf *list)
{
	struct err e;

	if (list->len > output_quota_room(s)) {
		not_kept(s, "there is no room in the stored output of the session or tenant");
		return;
	}
	if (write_file(s, (const char *)list->data, list->len, &e) < 0) {
		log_error("diff could not be written", "session_id=%s error=%s", s->row.id, e.msg);
		not_kept(s, "it could not be written");
		return;
	}
	output_quota_kept(s, list->len);
	diff_save(s, KEPT_DIFF_KEPT, list->len, "");
}

/* Find the file of an earlier daemon that died before it wrote the row. 0 if there is none. */
static uint64_t find_file(const struct session *s)
{
	char name[NAME_MAX_BYTES];
	struct stat st;

	name_file(s->row.id, "", name);
	if (fstatat(s->core->output_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return 0;
	return (uint64_t)st.st_size;
}

static struct keeping *keeping_find(const struct session *s)
{
	return (struct keeping *)session_op_find(s, SESSION_OP_KEPT_DIFF);
}

static void on_free(struct session_op *op, const struct err *why)
{
	struct keeping *k = (struct keeping *)op;

	loop_timer_cancel(op->session->core->loop, &k->timer);
	session_op_end(op);
	session_diff_cancel(&k->diff);
	buf_release(&k->list);
	buf_release(&k->record);
	free(k);
}

static const struct session_op_calls keeping_calls = { .kind = SESSION_OP_KEPT_DIFF,
						       .on_free = on_free };

/* NULL is allowed. */
static void keeping_release(struct keeping *k)
{
	if (k != NULL)
		on_free(&k->op, NULL);
}

/* The cell cannot be read any more. A whole file is the only possible success. */
void kept_diff_settle(struct session *s)
{
	uint64_t bytes;

	keeping_release(keeping_find(s));
	if (s->row.keep_diff != KEPT_DIFF_WANTED)
		return;
	bytes = find_file(s);
	if (bytes > 0) {
		output_quota_kept(s, bytes);
		diff_save(s, KEPT_DIFF_KEPT, bytes, "");
	} else {
		not_kept(s, "the cell ended before its changes could be read");
	}
}

/* ---- reading */

/* The outcome is settled, so the cell may end. */
static void diff_finish(struct session *s, const char *why)
{
	keeping_release(keeping_find(s));
	if (why != NULL)
		not_kept(s, why);
	if (s->cell != NULL)
		live_cell_end(s->cell);
}

/* The list outlives the session, so a path with a secret value is kept masked. */
static void put_record(struct keeping *k, size_t path)
{
	session_redact(k->op.session, (char *)k->record.data + path);
	buf_put(&k->list, buf_text(&k->record), k->record.len + 1);
}

/* Check and bound a record: the tree is the tenant's, and so is its reader in a guest. */
static void add_record(struct keeping *k)
{
	struct diff_record c;
	struct err e;

	if (diff_record_parse(buf_text(&k->record), &c, &e) < 0)
		k->malformed = true;
	else if ((k->whole = c.kind == 'E'))
		return; /* put_end() writes it */
	else if (c.kind == 'T' || k->list.len + k->record.len + 1 > LIST_MAX)
		k->truncated = true;
	else
		put_record(k, (size_t)(c.path - buf_text(&k->record)));
}

static void on_data(struct session_diff *d, const uint8_t *data, size_t len)
{
	struct keeping *k = d->arg;
	struct err e;

	while (len > 0 && !k->malformed) {
		const uint8_t *nul = memchr(data, '\0', len);
		size_t n = nul == NULL ? len : (size_t)(nul - data);

		if (buf_add(&k->record, data, n, &e) < 0)
			k->malformed = true;
		if (nul == NULL || k->malformed)
			return;
		add_record(k);
		buf_clear(&k->record);
		data += n + 1;
		len -= n + 1;
	}
}

/* Write the last records: whether the list is complete, and its end. */
static void put_end(struct keeping *k)
{
	static const char truncated[] = "T\t0\t0\t/", end[] = "E\t0\t0\t/"; /* with their NULs */

	if (k->truncated)
		buf_put(&k->list, truncated, sizeof(truncated));
	buf_put(&k->list, end, sizeof(end));
}

static void read_list(struct keeping *k);

static void on_timer(struct loop_timer *t)
{
	struct keeping *k = t->arg;

	if (clock_now_ns() >= k->until_ns)
		diff_finish(k->op.session, "its changes could not be read in 30 seconds");
	else
		read_list(k);
}

/* A reader that found no free place tries again until TIME_MS has passed. */
static void on_done(struct session_diff *d, const struct err *e)
{
	struct keeping *k = d->arg;
	struct session *s = k->op.session;

	if (e != NULL && (e->reason == REASON_QUOTA_DIFFS || e->reason == REASON_CAPACITY_DIFFS)) {
		loop_timer_set(s->core->loop, &k->timer, clock_now_ns() + AGAIN_MS * CLOCK_MS);
		return;
	}
	if (e != NULL || k->malformed || !k->whole) {
		log_warn("changes of a session could not be read", "session_id=%s error=%s",
			 s->row.id,
			 e != NULL	? e->msg
			 : k->malformed ? "the list is malformed"
					: "the list was cut short");
		diff_finish(s, "its changes could not be read");
		return;
	}
	put_end(k);
	diff_keep(s, &k->list);
	diff_finish(s, NULL);
}

static void read_list(struct keeping *k)
{
	struct session *s = k->op.session;

	buf_init(&k->list, 2 * LIST_MAX);
	buf_init(&k->record, RECORD_MAX);
	k->diff = (struct session_diff){
		.on_data = on_data, .on_done = on_done, .arg = k, .still = true
	};
	loop_timer_set(s->core->loop, &k->timer, k->until_ns);
	session_diff(s, &k->diff);
}

/* The cell would run on while its changes are read, although its session has ended. So an unfrozen
 * cell is not read. */
static void on_frozen(void *arg, const struct keeper_reply *reply, int fd, const struct err *e)
{
	struct live_cell *c = arg;
	struct session *s;

	c->call = NULL;
	s = c->owner; /* NULL: the cell was given up before the answer */
	if (s == NULL)
		return;
	if (live_cell_holds(c, e))
		c->frozen = true;
	if (keeping_find(s) == NULL || c->state == LIVE_ENDING)
		live_cell_end_now(c);
	else if (!c->frozen)
		diff_finish(s, "the cell could not be frozen");
	else
		read_list(keeping_find(s));
}

static void diff_freeze(struct session *s)
{
	struct keeper_named r = { .op = KEEPER_FREEZE, .pid = (uint32_t)s->cell->pid, .on = 1 };

	memcpy(r.id, s->row.id, sizeof(r.id));
	s->cell->call = keeper_link_ask(&s->core->cells.keeper, s->row.tenant, &r, sizeof(r), -1,
					KEEPER_URGENT, on_frozen, s->cell);
}

bool kept_diff_start(struct session *s)
{
	struct live_cell *c = s->cell;
	struct keeping *k;

	if (s->row.keep_diff != KEPT_DIFF_WANTED || keeping_find(s) != NULL)
		return keeping_find(s) != NULL;
	if (c == NULL || c->state != LIVE_UP || c->dead || c->broken)
		return false; /* kept_diff_settle() follows */
	if (c->call != NULL) {
		not_kept(s, "the session was being paused or resumed");
		return false;
	}
	if (!c->frozen && !guest_reader_is_needed(s) &&
	    s->core->cells.keeper.restrictions.freezer == 0) {
		not_kept(s, "this machine has no freezer for cells");
		return false;
	}
	k = calloc(1, sizeof(*k));
	assert(k != NULL);
	k->timer = (struct loop_timer){ .on_expire = on_timer, .arg = k };
	k->until_ns = clock_now_ns() + TIME_MS * CLOCK_MS;
	session_op_begin(&k->op, s, &keeping_calls);
	loop_timer_set(s->core->loop, &k->timer, k->until_ns);
	if (c->frozen || guest_reader_is_needed(s)) /* a guest's agent stops the programs */
		read_list(k);
	else
		diff_freeze(s);
	return true;
}

void kept_diff_cell_died(struct session *s)
{
	if (keeping_find(s) != NULL)
		diff_finish(s, "the cell ended before its changes could be read");
}

/* ---- requests for a kept list */

int kept_diff_open(struct core *c, const struct store_session *row, struct err *e)
{
	char name[NAME_MAX_BYTES];
	struct stat st;

	if (row->keep_diff == KEPT_DIFF_WANTED)
		return err_set(e, ERR_CONFLICT, "session %s is ending: its diff is not kept yet",
			       row->id);
	if (row->keep_diff != KEPT_DIFF_KEPT)
		return err_set_reason(e, REASON_GONE, "the diff of session %s was not kept: %s",
				      row->id, row->diff_why);
	name_file(row->id, "", name);
	OWN_FD fd = output_log_open(c->output_fd, name, O_RDONLY);
	if (fd < 0 || fstat(fd, &st) < 0 || (uint64_t)st.st_size != row->diff_bytes)
		return err_set_reason(e, REASON_GONE,
				      "the diff of session %s is not there any more", row->id);
	return TAKE_FD(fd);
}

void kept_diff_remove(struct core *c, struct tenant *t, const char *session_id)
{
	char name[NAME_MAX_BYTES];
	uint64_t bytes = 0;

	name_file(session_id, "", name);
	if (log_removal_add(&c->removed_logs, t == NULL ? NULL : &t->removal, name, LOG_IS_OLD,
			    &bytes) &&
	    t != NULL)
		output_quota_gone(t, bytes);
}
