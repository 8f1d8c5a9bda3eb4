#include "changes.h"

#include <string.h>

#include "kept_diff.h"

#define RECORD_MAX (300U << 10)

void changes_release(struct changes *l)
{
	session_diff_cancel(&l->diff);
	buf_release(&l->record);
}

static void show(struct changes *l, const char *text)
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

static void add(struct changes *l, const uint8_t *bytes, size_t len)
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
		show(l, buf_text(&l->record));
		buf_clear(&l->record);
		bytes += n + 1;
		len -= n + 1;
	}
}

static void on_data(struct session_diff *sd, const uint8_t *bytes, size_t len)
{
	add(sd->arg, bytes, len);
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

static void read_kept(struct changes *l, const struct store_session *row)
{
	struct buf list = { 0 };
	struct err e = { 0 };

	if (kept_diff_read(l->r->core, row, &list, &e) < 0) {
		l->on_end(l, &e);
		return;
	}
	buf_init(&l->record, RECORD_MAX);
	add(l, list.data, list.len);
	buf_release(&list);
	if (l->failed || !l->whole) {
		IGNORED(err_set(&e, ERR_SYSTEM, "the kept list of changes is malformed"),
			"reported");
		l->on_end(l, &e);
	} else {
		l->on_end(l, NULL);
	}
}

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
