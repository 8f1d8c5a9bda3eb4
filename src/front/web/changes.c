#include "front/web/changes.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/session/session_diff.h"
#include "front/web/routes.h"
#include "lib/base/own.h"

/* Bytes of one record. */
#define RECORD_MAX (300U << 10)
#define KEPT_PIECE (8U << 10) /* of a kept list, read in one piece of work */

/* The reading of a kept list. */
struct changes_kept {
	struct job job;
	int fd;
};

void changes_release(struct changes *l)
{
	if (l->kept != NULL) {
		core_job_cancel(l->r->core, &l->kept->job);
		fd_close(l->kept->fd);
		free(l->kept);
		l->kept = NULL;
	}
	session_diff_cancel(&l->diff);
	buf_release(&l->record);
}

/* A whole record. The last one of a list is of kind E. */
static void changes_show(struct changes *l, const char *text)
{
	struct diff_record c;

	if (diff_record_parse(text, &c, &l->why) < 0) {
		l->failed = true;
		return;
	}
	l->whole = c.kind == 'E'; /* until another record follows */
	if (!l->whole)
		l->on_change(l, &c);
}

/* Records end in a NUL. The beginning of one waits for its rest. */
static void changes_add(struct changes *l, const uint8_t *bytes, size_t len)
{
	while (len > 0 && !l->failed) {
		const uint8_t *nul = memchr(bytes, '\0', len);
		size_t n = nul == NULL ? len : (size_t)(nul - bytes);

		if (buf_add(&l->record, bytes, n, &l->why) < 0) {
			l->failed = true;
			return;
		}
		if (nul == NULL)
			return;
		changes_show(l, buf_text(&l->record));
		buf_clear(&l->record);
		bytes += n + 1;
		len -= n + 1;
	}
}

static void on_data(struct session_diff *sd, const uint8_t *bytes, size_t len)
{
	changes_add(sd->arg, bytes, len);
}

/* There is no list, or it is incomplete. The end of the session is the first reason to report. */
static void cut_short(struct changes *l, const struct err *why)
{
	struct request *r = l->r;
	struct err e = { 0 };

	if (session_live(r->core, r->tenant, r->session_id, &e) != NULL)
		e = *why;
	l->on_end(l, &e);
}

/* The reader in the cell has ended, well or not. */
static void on_done(struct session_diff *sd, const struct err *e)
{
	struct changes *l = sd->arg;
	struct err why = { 0 };

	if (e != NULL) {
		cut_short(l, e);
	} else if (l->failed) { /* the keeper's fault, not the client's */
		IGNORED(err_set(&why, ERR_SYSTEM, "the list of changes is malformed"), "reported");
		l->on_end(l, &why);
	} else if (!l->whole) { /* the keeper died, and its reader with it */
		IGNORED(err_set_reason(&why, REASON_PEER_DIED, "the list of changes was cut short"),
			"reported");
		cut_short(l, &why);
	} else {
		l->on_end(l, NULL);
	}
}

void changes_start(struct changes *l, struct request *r, struct session *s)
{
	l->r = r;
	buf_init(&l->record, RECORD_MAX);
	l->diff.on_data = on_data;
	l->diff.on_done = on_done;
	l->diff.arg = l;
	session_diff(s, &l->diff);
}

/* on_end() may free the list. */
static void kept_end(struct changes *l, const struct err *e)
{
	struct err why = { 0 };

	if (e == NULL && (l->failed || !l->whole)) {
		IGNORED(err_set(&why, ERR_SYSTEM, "the kept list of changes is malformed"),
			"reported");
		e = &why;
	}
	l->on_end(l, e);
}

/* The last piece frees the job. */
static bool on_kept_piece(struct job *job)
{
	struct changes *l = job->arg;
	uint8_t bytes[KEPT_PIECE];
	struct err e = { 0 };
	ssize_t n;

	loop_note(core_loop(l->r->core), l->r->route->pattern);
	n = read(l->kept->fd, bytes, sizeof(bytes));
	if (n < 0) {
		(void)err_sys(&e, "read the kept list of changes");
		kept_end(l, &e);
		return false;
	}
	changes_add(l, bytes, (size_t)n);
	if (n > 0 && !l->failed)
		return true;
	kept_end(l, NULL);
	return false;
}

/* A list that cannot be opened is reported at once. */
static void read_kept(struct changes *l, const struct store_session *row)
{
	struct err e = { 0 };
	OWN_FD fd = kept_diff_open(l->r->core, row, &e);
	struct changes_kept *k = fd < 0 ? NULL : malloc(sizeof(*k));

	if (k == NULL) {
		if (fd >= 0)
			(void)err_sys(&e, "read the kept list of changes");
		l->on_end(l, &e);
		return;
	}
	*k = (struct changes_kept){ .job = { .on_piece = on_kept_piece, .arg = l },
				    .fd = TAKE_FD(fd) };
	l->kept = k;
	buf_init(&l->record, RECORD_MAX);
	core_job_add(l->r->core, l->r->tenant, &k->job);
}

/* A live session is read from its cell, even if it will keep a list. */
bool changes_read_kept(struct changes *l, struct request *r)
{
	struct store_session row = { 0 };
	struct session *live = NULL;
	struct err e = { 0 };
	bool kept = session_get(r->core, r->tenant, r->session_id, &row, &e) == 0 &&
		    session_now(r->core, &row, &live)->keep_diff != KEPT_DIFF_NO && live == NULL;

	l->r = r;
	if (kept)
		read_kept(l, session_now(r->core, &row, &live));
	store_session_release(&row);
	return kept;
}
