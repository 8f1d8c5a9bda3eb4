/* api_archive.c - whole trees as tar, out of a cell and into it. */
#include <stdio.h>

#include "api_handlers.h"
#include "config.h"
#include "file_call.h"
#include "json.h"
#include "masked.h"
#include "reply.h"
#include "upload.h"

#define NUMBER_MAX 24
#define ENTRIES_MAX "1000000"

static int read_path(struct request *r, char ret[FILE_MSG_PATH_MAX], struct err *e)
{
	if (request_text(r, "path", ret, FILE_MSG_PATH_MAX, e) < 0)
		return -1;
	if (ret[0] == '\0')
		return err_set(e, ERR_INVALID, "parameter path: is missing");
	return 0;
}

/* ---- out */

struct packing {
	struct file_call call;
	char path[FILE_MSG_PATH_MAX], max[NUMBER_MAX];
	bool begun, ending;
	struct masked masked;
};

static void release_packing(struct request *r, bool answered)
{
	struct packing *p = r->state;

	(void)answered;
	file_call_release(&p->call);
	masked_release(&p->masked);
}

static int on_pack_record(struct file_call *c, const struct file_msg *m, struct err *e)
{
	if (m->kind != FILE_MSG_ENTRY)
		return file_call_refuse(e);
	file_call_raw(c);
	return 0;
}

static size_t on_pack_bytes(struct file_call *c, const uint8_t *data, size_t len)
{
	struct packing *p = c->r->state;

	if (!p->begun) {
		p->begun = true;
		exchange_begin(c->r->x, 200, "application/x-tar", EXCHANGE_CHUNKED);
	}
	return masked_write(&p->masked, c->r, data, len);
}

static void end_packing(struct request *r, struct packing *p)
{
	p->ending = true;
	if (masked_end(&p->masked, r))
		exchange_end(r->x);
}

static void on_writable(struct exchange *x)
{
	struct request *r = request_of(x);
	struct packing *p = r->state;

	if (p->ending)
		end_packing(r, p);
	else
		file_call_resume(&p->call);
}

static void on_packed(struct file_call *c, int status, const struct err *e)
{
	struct packing *p = c->r->state;

	(void)status; /* 2: entries that a tar cannot hold were left out, which is no error */
	if (e != NULL && !p->begun)
		reply_file_error(c->r, e);
	else if (e != NULL)
		exchange_abort(c->r->x);
	else if (p->begun)
		end_packing(c->r, p);
	else
		reply_code(c->r, 500, "internal", "the cell sent no archive");
}

static void on_session_to_pack(struct request *r, struct session *s)
{
	static const struct file_call_events events = { .on_record = on_pack_record,
							.on_raw = on_pack_bytes,
							.on_end = on_packed };
	struct packing *p = r->state;
	const char *argv[] = { "tar-out", p->path, p->max };
	struct err e = { 0 };

	(void)snprintf(p->max, sizeof(p->max), "%llu",
		       (unsigned long long)core_config(r->core)->disk_max);
	masked_begin(&p->masked, r, s);
	exchange_on_writable(r->x, on_writable);
	if (file_call_start(&p->call, r, s, argv, COUNT(argv), false, &events, &e) < 0)
		reply_file_error(r, &e);
}

void api_archive_get(struct request *r)
{
	struct packing *p = request_state(r, sizeof(*p), release_packing);
	struct err e = { 0 };

	if (p == NULL)
		return;
	if (read_path(r, p->path, &e) < 0)
		reply_error(r, &e);
	else
		request_use(r, on_session_to_pack);
}

/* ---- in */

struct unpacking {
	struct file_call call;
	struct upload upload; /* second, see upload.c */
	char path[FILE_MSG_PATH_MAX], max[NUMBER_MAX];
	struct file_msg_end end;
	bool ended;
};

static void release_unpacking(struct request *r, bool answered)
{
	struct unpacking *u = r->state;

	(void)answered;
	file_call_release(&u->call);
}

static int on_unpack_record(struct file_call *c, const struct file_msg *m, struct err *e)
{
	struct unpacking *u = c->r->state;

	if (m->kind != FILE_MSG_END)
		return file_call_refuse(e);
	u->end = m->end;
	u->ended = true;
	return 0;
}

static void on_unpack_room(struct file_call *c)
{
	struct unpacking *u = c->r->state;

	upload_room(&u->upload);
}

static void answer_unpacking(struct file_call *c)
{
	struct unpacking *u = c->r->state;
	struct json j;

	if (c->failed) {
		reply_file_error(c->r, &c->why);
		return;
	}
	if (!u->ended) {
		reply_code(c->r, 500, "internal", "the cell did not report what it unpacked");
		return;
	}
	json_init_heap(&j, 1024);
	json_open(&j, NULL, '{');
	json_uint(&j, "entries", u->end.count);
	json_uint(&j, "skipped", u->end.skipped);
	json_uint(&j, "bytes", u->end.bytes);
	json_close(&j, '}');
	reply_json(c->r, 200, &j);
}

static void on_unpacked(struct file_call *c, int status, const struct err *e)
{
	struct unpacking *u = c->r->state;

	(void)status;
	(void)e; /* the call keeps it */
	upload_finish(&u->upload, answer_unpacking);
}

static void on_session_to_unpack(struct request *r, struct session *s)
{
	static const struct file_call_events events = { .on_record = on_unpack_record,
							.on_room = on_unpack_room,
							.on_end = on_unpacked };
	struct unpacking *u = r->state;
	const char *argv[] = { "tar-in", u->path, u->max, ENTRIES_MAX };
	uint64_t max = core_config(r->core)->file_max;
	struct err e = { 0 };

	(void)snprintf(u->max, sizeof(u->max), "%llu", (unsigned long long)max);
	if (file_call_start(&u->call, r, s, argv, COUNT(argv), true, &events, &e) < 0)
		reply_file_error(r, &e);
	else
		upload_start(&u->upload, &u->call, max);
}

void api_archive_put(struct request *r)
{
	struct unpacking *u = request_state(r, sizeof(*u), release_unpacking);
	struct err e = { 0 };

	if (u == NULL)
		return;
	if (read_path(r, u->path, &e) < 0)
		reply_error(r, &e);
	else
		request_use(r, on_session_to_unpack);
}
