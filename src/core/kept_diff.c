/* kept_diff.c - see the header. */
#include "kept_diff.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "core_private.h"
#include "diff_record.h"
#include "event_log.h"
#include "guest_reader.h"
#include "io.h"
#include "keeper_link.h"
#include "log.h"
#include "log_removal.h"
#include "output_log.h"
#include "output_quota.h"

#define LIST_MAX ((size_t)4 << 20)
#define RECORD_MAX ((size_t)300 << 10)
#define TIME_MS 30000 /* for all of it: a cell that cannot be read ends without its list */
#define AGAIN_MS 100  /* while others are read */
#define NAME_MAX_BYTES LOG_NAME_MAX
_Static_assert(LOG_NAME_MAX >= STORE_ID_MAX + sizeof(".diff.new"), "named after its session");

struct keeping {
	struct session *session;
	struct session_diff diff;
	struct buf list;   /* whole records, as they came */
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

static void save(struct session *s, enum kept_diff state, uint64_t bytes, const char *why)
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
	save(s, KEPT_DIFF_FAILED, 0, why);
}

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

static void keep(struct session *s, const struct buf *list)
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
	save(s, KEPT_DIFF_KEPT, list->len, "");
}

/* Of an earlier daemon that died before it could say so: 0 if there is none. */
static uint64_t find_file(const struct session *s)
{
	char name[NAME_MAX_BYTES];
	struct stat st;

	name_file(s->row.id, "", name);
	if (fstatat(s->core->output_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return 0;
	return (uint64_t)st.st_size;
}

void kept_diff_settle(struct session *s)
{
	uint64_t bytes;

	kept_diff_cancel(s);
	if (s->row.keep_diff != KEPT_DIFF_WANTED)
		return;
	bytes = find_file(s);
	if (bytes > 0) {
		output_quota_kept(s, bytes);
		save(s, KEPT_DIFF_KEPT, bytes, "");
	} else {
		not_kept(s, "the cell ended before its changes could be read");
	}
}

/* ---- reading */

void kept_diff_cancel(struct session *s)
{
	struct keeping *k = s->keeping;

	if (k == NULL)
		return;
	s->keeping = NULL;
	loop_timer_cancel(s->core->loop, &k->timer);
	session_diff_cancel(&k->diff);
	buf_release(&k->list);
	buf_release(&k->record);
	free(k);
}

/* What was to be kept is kept or not: the cell may end. */
static void finish(struct session *s, const char *why)
{
	kept_diff_cancel(s);
	if (why != NULL)
		not_kept(s, why);
	if (s->cell != NULL)
		live_cell_end(s->cell);
}

/* The list outlives the session, so a path that holds a value of a secret is kept masked. */
static void put_record(struct keeping *k, size_t path)
{
	session_redact(k->session, (char *)k->record.data + path);
	buf_put(&k->list, buf_text(&k->record), k->record.len + 1);
}

/* The reader's tree is hostile; what it says is checked and bounded here. */
static void add_record(struct keeping *k)
{
	struct diff_record c;
	struct err e;

	if (diff_record_parse(buf_text(&k->record), &c, &e) < 0)
		k->malformed = true;
	else if ((k->whole = c.kind == 'E'))
		return; /* written at the end */
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

/* What its last records say. */
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
		finish(k->session, "its changes could not be read in 30 seconds");
	else
		read_list(k);
}

static void on_done(struct session_diff *d, const struct err *e)
{
	struct keeping *k = d->arg;
	struct session *s = k->session;

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
		finish(s, "its changes could not be read");
		return;
	}
	put_end(k);
	keep(s, &k->list);
	finish(s, NULL);
}

static void read_list(struct keeping *k)
{
	struct session *s = k->session;

	buf_init(&k->list, 2 * LIST_MAX);
	buf_init(&k->record, RECORD_MAX);
	k->diff = (struct session_diff){
		.on_data = on_data, .on_done = on_done, .arg = k, .still = true
	};
	loop_timer_set(s->core->loop, &k->timer, k->until_ns);
	session_diff(s, &k->diff);
}

/* A cell that is not frozen would run on for as long as its changes are read, though its session
 * has ended: then they are not read. */
static void on_frozen(void *arg, const struct keeper_reply *reply, int fd, const struct err *e)
{
	struct live_cell *c = arg;
	struct session *s;

	(void)reply;
	(void)fd;
	c->call = NULL;
	s = c->owner; /* NULL: the cell was given up meanwhile */
	if (s == NULL)
		return;
	c->frozen = c->frozen || e == NULL;
	if (s->keeping == NULL || c->state == LIVE_ENDING)
		live_cell_end_now(c);
	else if (!c->frozen)
		finish(s, "the cell could not be frozen");
	else
		read_list(s->keeping);
}

static void freeze(struct session *s)
{
	struct keeper_named r = { .op = KEEPER_FREEZE, .pid = (uint32_t)s->cell->pid, .on = 1 };

	memcpy(r.id, s->row.id, sizeof(r.id));
	s->cell->call = keeper_link_ask(&s->core->cells.keeper, &r, sizeof(r), -1, KEEPER_URGENT,
					on_frozen, s->cell);
}

bool kept_diff_start(struct session *s)
{
	struct live_cell *c = s->cell;
	struct keeping *k;

	if (s->row.keep_diff != KEPT_DIFF_WANTED || s->keeping != NULL)
		return s->keeping != NULL;
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
	k->session = s;
	k->timer = (struct loop_timer){ .on_expire = on_timer, .arg = k };
	k->until_ns = clock_now_ns() + TIME_MS * CLOCK_MS;
	s->keeping = k;
	loop_timer_set(s->core->loop, &k->timer, k->until_ns);
	if (c->frozen || guest_reader_is_needed(s)) /* the latter: its agent stops the programs */
		read_list(k);
	else
		freeze(s);
	return true;
}

void kept_diff_cell_died(struct session *s)
{
	if (s->keeping != NULL)
		finish(s, "the cell ended before its changes could be read");
}

/* ---- later */

int kept_diff_read(struct core *c, const struct store_session *row, struct buf *ret, struct err *e)
{
	char name[NAME_MAX_BYTES];
	uint8_t *to;

	if (row->keep_diff == KEPT_DIFF_WANTED)
		return err_set(e, ERR_CONFLICT, "session %s is ending: its diff is not kept yet",
			       row->id);
	if (row->keep_diff != KEPT_DIFF_KEPT)
		return err_set_reason(e, REASON_GONE, "the diff of session %s was not kept: %s",
				      row->id, row->diff_why);
	name_file(row->id, "", name);
	buf_init(ret, 2 * LIST_MAX);
	OWN_FD fd = output_log_open(c->output_fd, name, O_RDONLY);
	to = buf_reserve(ret, row->diff_bytes + 1, e);
	if (to == NULL)
		return -1;
	if (fd < 0 || pread(fd, to, row->diff_bytes + 1, 0) != (ssize_t)row->diff_bytes) {
		buf_release(ret);
		return err_set_reason(e, REASON_GONE,
				      "the diff of session %s is not there any more", row->id);
	}
	buf_commit(ret, row->diff_bytes);
	return 0;
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
