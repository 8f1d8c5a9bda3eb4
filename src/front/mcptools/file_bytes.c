#include "front/mcptools/file_bytes.h"

#include <stdio.h>
#include <string.h>

#include "daemon/session/session.h"
#include "front/mcptools/tool.h"
#include "front/web/auth.h"
#include "front/web/routes.h"

#define AROUND ((size_t)8192) /* read on both sides at least, to find what lies across an end */
#define PIECE ((size_t)16 << 10)

void file_bytes_release(struct file_bytes *f)
{
	file_call_release(&f->call);
	if (f->job.link != NULL)
		core_job_cancel(f->call.r->core, &f->job);
	mask_work_release(&f->work);
	buf_release(&f->bytes);
}

/* The call is the first member. */
static struct file_bytes *file_bytes_of(struct file_call *c)
{
	return (struct file_bytes *)c;
}

/* The entry comes before the bytes. */
static int on_record(struct file_call *c, const struct file_msg *m, struct err *e)
{
	struct file_bytes *f = file_bytes_of(c);

	if (m->kind != FILE_MSG_ENTRY)
		return file_call_refuse(e);
	f->size = m->entry.size;
	f->type = m->entry.type;
	return 0;
}

/* Bytes without room are dropped, and on_end() reports it. */
static size_t on_raw(struct file_call *c, const uint8_t *data, size_t len)
{
	struct file_bytes *f = file_bytes_of(c);

	f->no_room = f->no_room || !exchange_reserve(c->r->x, len);
	if (!f->no_room) {
		tool_of(c->r)->held += len;
		buf_put(&f->bytes, data, len);
	}
	return len;
}

/* Keep the requested bytes. */
static void file_bytes_cut(struct file_bytes *f)
{
	size_t before = (size_t)(f->offset - f->begin);

	buf_consume(&f->bytes, before < f->bytes.len ? before : f->bytes.len);
	f->more = f->bytes.len > f->max || f->offset + f->bytes.len < f->size;
	if (f->bytes.len > f->max)
		f->bytes.len = (size_t)f->max;
}

/* Mask some of the bytes. True: call again. */
static bool on_piece(struct job *j)
{
	struct file_bytes *f = j->arg;
	struct request *r = f->call.r;
	struct err e = { 0 };
	const struct session *s = session_live(r->core, r->tenant, r->session_id, &e);
	const struct mask *m = s == NULL || f->plain ? NULL : session_mask(s);
	size_t n = m == NULL || mask_turn(m) > PIECE ? PIECE : mask_turn(m);

	loop_note(core_loop(r->core), r->route->pattern);
	if (m != NULL && f->bytes.len > 0 &&
	    !mask_work_step(m, &f->work, f->bytes.data, f->bytes.len, n))
		return true;
	if (s != NULL)
		file_bytes_cut(f);
	f->on_read(f, s == NULL ? &e : NULL);
	return false;
}

/* on_read follows once, now or after the last piece. */
static void on_end(struct file_call *c, int status, const struct err *why)
{
	struct file_bytes *f = file_bytes_of(c);
	struct err e = { 0 };

	if (why == NULL && f->no_room) {
		IGNORED(err_set_reason(&e, REASON_CAPACITY_INPUT,
				       "the files and bodies of this tenant's requests have no "
				       "more room in memory (tenant_bodies_max): read fewer at a "
				       "time"),
			"passed on");
		why = &e;
	}
	if (why != NULL) {
		f->on_read(f, why);
		return;
	}
	f->job = (struct job){ .on_piece = on_piece, .arg = f };
	if (f->bytes.len > PIECE)
		core_job_add(c->r->core, c->r->tenant, &f->job);
	else
		while (on_piece(&f->job))
			;
}

/* The longest form of a value, with some line breaks in it. */
static uint64_t reach_of(const struct mask *m)
{
	size_t reach = m == NULL ? 0 : mask_reach(m) + mask_reach(m) / 16;

	return m == NULL || reach > AROUND ? reach : AROUND;
}

/* The offset is moved back by the margin. file_bytes_cut() takes the margin off again. */
int file_bytes_start(struct file_bytes *f, struct request *r, struct session *s, struct err *e)
{
	static const struct file_call_events events = { .on_record = on_record,
							.on_raw = on_raw,
							.on_end = on_end };
	const char *argv[] = { "read", f->path, f->offset_text, f->length_text };
	uint64_t around = f->plain ? 0 : reach_of(session_mask(s));
	uint64_t length;

	if (f->offset > 0 && around > 0 && auth_only_reads(r))
		return err_set(e, ERR_DENIED,
			       "a key of scope read can only read files from their beginning in a "
			       "session that has secrets");
	f->begin = f->offset > around ? f->offset - around : 0;
	length = f->offset - f->begin + f->max + around;
	buf_init(&f->bytes, (size_t)length + 1);
	(void)snprintf(f->offset_text, sizeof(f->offset_text), "%llu",
		       (unsigned long long)f->begin);
	(void)snprintf(f->length_text, sizeof(f->length_text), "%llu", (unsigned long long)length);
	f->call.user = FILE_CALL_USER;
	return file_call_start(&f->call, r, s, argv, COUNT(argv), false, &events, e);
}
