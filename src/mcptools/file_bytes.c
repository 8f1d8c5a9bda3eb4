#include "file_bytes.h"

#include <stdio.h>
#include <string.h>

#include "auth.h"
#include "session.h"

#define AROUND ((size_t)8192) /* read on both sides, to find what lies across an end */

void file_bytes_release(struct file_bytes *f)
{
	file_call_release(&f->call);
	buf_release(&f->bytes);
}

static struct file_bytes *of(struct file_call *c)
{
	return (struct file_bytes *)c;
}

static int on_record(struct file_call *c, const struct file_msg *m, struct err *e)
{
	struct file_bytes *f = of(c);

	if (m->kind != FILE_MSG_ENTRY)
		return file_call_refuse(e);
	f->size = m->entry.size;
	f->type = m->entry.type;
	return 0;
}

static size_t on_raw(struct file_call *c, const uint8_t *data, size_t len)
{
	buf_put(&of(c)->bytes, data, len);
	return len;
}

/* Masks what was read, and keeps what was asked for. */
static int finish(struct file_bytes *f, struct err *e)
{
	struct request *r = f->call.r;
	const struct session *s = session_live(r->core, r->tenant, r->session_id, e);
	size_t before;

	if (s == NULL)
		return -1;
	if (!f->plain && session_mask(s) != NULL && f->bytes.len > 0)
		(void)mask_text(session_mask(s), NULL, f->bytes.data, f->bytes.len);
	before = (size_t)(f->offset - f->begin);
	buf_consume(&f->bytes, before < f->bytes.len ? before : f->bytes.len);
	f->more = f->bytes.len > f->max || f->offset + f->bytes.len < f->size;
	if (f->bytes.len > f->max)
		f->bytes.len = (size_t)f->max;
	return 0;
}

static void on_end(struct file_call *c, int status, const struct err *why)
{
	struct file_bytes *f = of(c);
	struct err e = { 0 };

	(void)status;
	if (why == NULL && finish(f, &e) < 0)
		why = &e;
	f->on_read(f, why);
}

int file_bytes_start(struct file_bytes *f, struct request *r, struct session *s, struct err *e)
{
	static const struct file_call_events events = { .on_record = on_record,
							.on_raw = on_raw,
							.on_end = on_end };
	const char *argv[] = { "read", f->path, f->offset_text, f->length_text };
	uint64_t around = session_mask(s) == NULL || f->plain ? 0 : AROUND;
	uint64_t length;

	if (f->offset > 0 && around > 0 && auth_only_reads(r))
		return err_set(e, ERR_DENIED,
			       "a key of scope read can only read files from their beginning in a "
			       "session that has secrets");
	f->begin = f->offset > around ? f->offset - around : 0;
	length = f->offset - f->begin + f->max + around;
	buf_init(&f->bytes, FILE_BYTES_MAX + 3 * AROUND);
	(void)snprintf(f->offset_text, sizeof(f->offset_text), "%llu",
		       (unsigned long long)f->begin);
	(void)snprintf(f->length_text, sizeof(f->length_text), "%llu", (unsigned long long)length);
	f->call.user = FILE_CALL_USER;
	return file_call_start(&f->call, r, s, argv, COUNT(argv), false, &events, e);
}
