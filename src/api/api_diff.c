/* api_diff.c - lists the changes in the file system of a session since its start (changes.h). */
#include <stdio.h>

#include "api_handlers.h"
#include "changes.h"
#include "json.h"
#include "reply.h"
#include "request.h"

#define CHANGES_MAX 100000
#define DIFF_JSON_MAX (15U << 20)

struct diff {
	struct changes changes;
	struct json j;
	unsigned shown;
	bool truncated;
};

static void release(struct request *r, bool answered)
{
	struct diff *d = r->state;

	(void)answered;
	changes_release(&d->changes);
	json_release(&d->j);
}

static void on_change(struct changes *l, const struct diff_record *c)
{
	struct diff *d = l->r->state;
	char mode[16];

	if (c->kind == 'T' || d->shown >= CHANGES_MAX || d->j.len > DIFF_JSON_MAX) {
		d->truncated = true;
		return;
	}
	(void)snprintf(mode, sizeof(mode), "%04o", c->mode & 07777U);
	json_open(&d->j, NULL, '{');
	json_text(&d->j, "kind", diff_record_kind(c));
	json_text(&d->j, "path", c->path);
	json_text(&d->j, "mode", mode);
	json_uint(&d->j, "size", c->size);
	json_close(&d->j, '}');
	d->shown++;
}

static void on_end(struct changes *l, const struct err *e)
{
	struct request *r = l->r;
	struct diff *d = r->state;

	if (e != NULL) {
		reply_error(r, e);
		return;
	}
	json_close(&d->j, ']');
	json_bool(&d->j, "truncated", d->truncated);
	json_close(&d->j, '}');
	reply_json(r, 200, &d->j);
}

static void on_session(struct request *r, struct session *s)
{
	struct diff *d = r->state;

	changes_start(&d->changes, r, s);
}

void api_diff_get(struct request *r)
{
	struct diff *d = request_state(r, sizeof(*d), release);

	if (d == NULL)
		return;
	d->changes.on_change = on_change;
	d->changes.on_end = on_end;
	json_init_heap(&d->j, REPLY_JSON_MAX);
	json_open(&d->j, NULL, '{');
	json_open(&d->j, "changes", '[');
	if (!changes_read_kept(&d->changes, r))
		request_use(r, on_session);
}
