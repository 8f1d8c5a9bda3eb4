/* api_diff.c - lists the changes in the file system of a session since its start: read from its
 * cell while it lives, and from the file that was kept at its end (kept_diff.h) after that. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api_handlers.h"
#include "buf.h"
#include "diff_record.h"
#include "json.h"
#include "kept_diff.h"
#include "reply.h"
#include "request.h"

#define RECORD_MAX (300U << 10)
#define CHANGES_MAX 100000
#define DIFF_JSON_MAX (15U << 20)

struct diff {
	struct session_diff diff;
	struct json j;
	struct buf record; /* an incomplete record */
	unsigned shown;
	bool truncated, failed, whole;
	struct err why;
};

static void release(struct request *r, bool answered)
{
	struct diff *d = r->state;

	(void)answered;
	session_diff_cancel(&d->diff);
	json_release(&d->j);
	buf_release(&d->record);
}

static void show(struct diff *d, const char *text)
{
	struct diff_record c;
	char mode[16];

	if (diff_record_parse(text, &c, &d->why) < 0) {
		d->failed = true;
		return;
	}
	d->whole = c.kind == 'E'; /* until another record follows */
	if (d->whole)
		return;
	if (c.kind == 'T' || d->shown >= CHANGES_MAX || d->j.len > DIFF_JSON_MAX) {
		d->truncated = true;
		return;
	}
	(void)snprintf(mode, sizeof(mode), "%04o", c.mode & 07777U);
	json_open(&d->j, NULL, '{');
	json_text(&d->j, "kind", c.kind == 'A' ? "added" : c.kind == 'C' ? "changed" : "deleted");
	json_text(&d->j, "path", c.path);
	json_text(&d->j, "mode", mode);
	json_uint(&d->j, "size", c.size);
	json_close(&d->j, '}');
	d->shown++;
}

static void add(struct diff *d, const uint8_t *bytes, size_t len)
{
	while (len > 0 && !d->failed) {
		const uint8_t *nul = memchr(bytes, '\0', len);
		size_t n = nul == NULL ? len : (size_t)(nul - bytes);

		if (buf_add(&d->record, bytes, n, &d->why) < 0) {
			d->failed = true;
			return;
		}
		if (nul == NULL)
			return;
		show(d, buf_text(&d->record));
		buf_clear(&d->record);
		bytes += n + 1;
		len -= n + 1;
	}
}

static void on_data(struct session_diff *sd, const uint8_t *bytes, size_t len)
{
	struct request *r = sd->arg;

	add(r->state, bytes, len);
}

/* There is no list, or it is incomplete. The end of the session is the first reason to report. */
static void cut_short(struct request *r, const struct err *why)
{
	struct err e = { 0 };

	if (session_live(r->core, r->tenant, r->session_id, &e) != NULL)
		e = *why;
	reply_error(r, &e);
}

static void answer(struct request *r, struct diff *d)
{
	json_close(&d->j, ']');
	json_bool(&d->j, "truncated", d->truncated);
	json_close(&d->j, '}');
	reply_json(r, 200, &d->j);
}

static void begin(struct diff *d)
{
	json_init_heap(&d->j, REPLY_JSON_MAX);
	json_open(&d->j, NULL, '{');
	json_open(&d->j, "changes", '[');
	buf_init(&d->record, RECORD_MAX);
}

static void on_done(struct session_diff *sd, const struct err *e)
{
	struct request *r = sd->arg;
	struct diff *d = r->state;

	if (e != NULL) {
		cut_short(r, e);
		return;
	}
	if (d->failed) { /* the keeper's fault, not the client's */
		reply_code(r, 500, "internal", "the list of changes is malformed");
		return;
	}
	if (!d->whole) { /* the keeper died, and its reader with it */
		IGNORED(err_set_reason(&d->why, REASON_PEER_DIED,
				       "the list of changes was cut short"),
			"answered");
		cut_short(r, &d->why);
		return;
	}
	answer(r, d);
}

static void on_session(struct request *r, struct session *s)
{
	struct diff *d = r->state;

	begin(d);
	d->diff.on_data = on_data;
	d->diff.arg = r;
	d->diff.on_done = on_done;
	session_diff(s, &d->diff);
}

static void answer_kept(struct request *r, const struct store_session *row)
{
	struct diff *d = r->state;
	struct buf list = { 0 };
	struct err e = { 0 };

	if (kept_diff_read(r->core, row, &list, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	begin(d);
	add(d, list.data, list.len);
	buf_release(&list);
	if (d->failed || !d->whole)
		reply_code(r, 500, "internal", "the kept list of changes is malformed");
	else
		answer(r, d);
}

void api_diff_get(struct request *r)
{
	struct store_session row = { 0 };
	struct session *live = NULL;
	struct err e = { 0 };

	if (request_state(r, sizeof(struct diff), release) == NULL)
		return;
	if (session_get(r->core, r->tenant, r->session_id, &row, &e) == 0 &&
	    session_now(r->core, &row, &live)->keep_diff != KEPT_DIFF_NO && live == NULL)
		answer_kept(r, session_now(r->core, &row, &live));
	else
		request_use(r, on_session);
	store_session_release(&row);
}
