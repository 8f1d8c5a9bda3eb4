/* files_post.c - POST /files: files into a sandbox, as they arrive.
 *
 * The body is one file, or a form with any number of them. Either way it is a row of: begin a file,
 * its bytes, its end. Each is one built-in, `write`, that puts it in place when its last byte has
 * come. The body waits for each. Files written before a failure stay, as with E2B. After a failure
 * the rest of the body is dropped before it is answered: many clients cannot receive one before
 * they have sent everything. */
#include <stdio.h>
#include <string.h>

#include "front/e2b/base/e2b_private.h"
#include "front/e2b/envd/cell_file.h"
#include "front/e2b/envd/entry_info.h"
#include "front/e2b/envd/files_head.h"
#include "front/e2b/envd/multipart.h"
#include "front/web/file_call.h"
#include "front/web/json_members.h"
#include "front/web/reply.h"
#include "front/web/request.h"
#include "lib/base/fnv.h"
#include "lib/base/str.h"
#include "lib/config/config.h"
#include "lib/json/json.h"
#include "lib/wire/file_msg.h"

/* ---- the answer
 *
 * The files that one request has written: the answer, and the check that no path
 * is written twice. */

#define UPLOAD_RESULT_MAX 10000

struct upload_result {
	struct json j;	  /* owned: the answer's array */
	uint64_t *hashes; /* owned: of the places, as requested and as resolved */
	size_t n, cap;
	unsigned files;
	bool twice;
};

/* Two places with the same hash are taken for one: of 20,000 that happens by chance in one
 * of 10^11 requests, and a client that does it on purpose only has its own upload refused. */
static uint64_t upload_result_hash(const char *text)
{
	return fnv_add(FNV_START, text, strlen(text));
}

static bool upload_result_contains(const struct upload_result *w, uint64_t h)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->hashes[i] == h)
			return true;
	return false;
}

/* Was a file with this requested or resolved place written before? */
static bool upload_result_has(const struct upload_result *w, const char *place)
{
	return upload_result_contains(w, upload_result_hash(place));
}

/* Has one overwritten another? */
static bool upload_result_is_twice(const struct upload_result *w)
{
	return w->twice;
}

/* ERR_LIMIT: there is no room for another file. */
static int upload_result_check(const struct upload_result *w, struct err *e)
{
	return w->files < UPLOAD_RESULT_MAX
		       ? 0
		       : err_set(e, ERR_LIMIT, "more than %d files in one request",
				 UPLOAD_RESULT_MAX);
}

/* A file was written, for which there was room. target: as requested. */
static int upload_result_add(struct upload_result *w, const char *target,
			     const struct file_msg_entry *entry, struct err *e)
{
	uint64_t asked = upload_result_hash(target),
		 place = upload_result_hash(entry_info_path(entry));

	if (w->n + 2 > w->cap) {
		size_t cap = w->cap == 0 ? 16 : 2 * w->cap;
		uint64_t *more = reallocarray(w->hashes, cap, sizeof(*more));

		if (more == NULL)
			return err_sys(e, "allocate");
		w->hashes = more;
		w->cap = cap;
	}
	if (w->files == 0) {
		json_init_heap(&w->j, REPLY_JSON_MAX);
		json_open(&w->j, NULL, '[');
	}
	w->twice = w->twice || upload_result_contains(w, place);
	w->hashes[w->n++] = asked;
	if (place != asked)
		w->hashes[w->n++] = place;
	w->files++;
	entry_info_shape_written(&w->j, NULL, entry);
	if (!json_ok(&w->j))
		return err_set(e, ERR_LIMIT, "the paths of the files are too long for one answer");
	return 0;
}

/* [{"path","name","type"}, ...] */
static void upload_result_reply(struct upload_result *w, struct request *r)
{
	if (w->files == 0) {
		json_init_heap(&w->j, REPLY_JSON_MAX);
		json_open(&w->j, NULL, '[');
	}
	json_close(&w->j, ']');
	reply_json(r, 200, &w->j);
}

static void upload_result_release(struct upload_result *w)
{
	json_release(&w->j);
	free(w->hashes);
	w->hashes = NULL;
}

/* ---- compose
 *
 * POST /files/compose: several files of a sandbox become one. */

#define SOURCES_MAX 100
#define STRINGS_MAX (48U << 10) /* bytes of all paths: they are arguments of one order to PID 1 */
#define ENTRY_JSON_MAX (64U << 10)

/* The state of a composition. file has the paths as arguments, borrowed from root. */
struct composing {
	struct file_call call;
	struct cell_file file;
	json_t *root; /* owned: the arguments point into it */
	const char *destination;
	struct json j;
	bool begun;
};

static void files_compose_release(struct request *r, bool answered)
{
	struct composing *c = r->state;

	file_call_release(&c->call);
	json_release(&c->j);
	json_decref(c->root);
}

/* One entry, of the new file. */
static int files_compose_on_record(struct file_call *call, const struct file_msg *m, struct err *e)
{
	struct composing *c = call->r->state;

	if (m->kind != FILE_MSG_ENTRY || c->begun)
		return file_call_refuse(e);
	c->begun = true;
	json_init_heap(&c->j, ENTRY_JSON_MAX);
	entry_info_shape_written(&c->j, NULL, &m->entry);
	return 0;
}

/* The one end of the built-in. */
static void files_compose_on_end(struct file_call *call, int status, const struct err *e)
{
	struct composing *c = call->r->state;

	if (e != NULL)
		cell_file_fail_http(call->r, &c->file, c->destination, e);
	else if (!c->begun)
		reply_code(call->r, 500, "internal", "the cell did not report a result");
	else
		reply_json(call->r, 200, &c->j);
}

static void files_compose_on_session(struct request *r, struct session *s)
{
	static const struct file_call_events events = { .on_record = files_compose_on_record,
							.on_end = files_compose_on_end };
	struct composing *c = r->state;
	struct err e = { 0 };

	if (cell_file_start(&c->file, &c->call, r, s, true, &events, &e) < 0)
		cell_file_fail_http(r, &c->file, c->destination, &e);
}

/* All paths together must fit into one order. */
static int read_sources(struct composing *c, const json_t *sources, struct err *e)
{
	size_t i, sum = strlen(c->destination);
	const json_t *one;

	if (json_array_size(sources) == 0 || json_array_size(sources) > SOURCES_MAX)
		return err_set(e, ERR_INVALID, "source_paths: 1 to %d paths", SOURCES_MAX);
	json_array_foreach(sources, i, one)
	{
		const char *path = json_string_value(one);

		if (path == NULL || path[0] == '\0' || strlen(path) >= FILE_MSG_PATH_MAX)
			return err_set(e, ERR_INVALID, "source_paths: must be paths");
		sum += strlen(path) + 1;
		cell_file_add(&c->file, path);
	}
	if (sum > STRINGS_MAX)
		return err_set(e, ERR_INVALID, "source_paths: too long in all");
	return 0;
}

/* The user is in the body, or in the query as with other routes. */
static int read_body(struct request *r, struct composing *c, const uint8_t *body, size_t len,
		     struct err *e)
{
	const char *user = NULL;
	json_t *sources;
	struct json_members m;

	c->root = json_members_parse(body, len, e);
	if (c->root == NULL)
		return -1;
	json_members_begin(&m, c->root, "", e);
	json_members_text(&m, "destination", FILE_MSG_PATH_MAX - 1, &c->destination);
	json_members_text(&m, "username", ENVD_USER_MAX - 1, &user);
	sources = json_members_array(&m, "source_paths", SOURCES_MAX);
	if (json_members_end(&m) < 0 ||
	    (user == NULL && envd_user_of_files(r, c->file.user, e) < 0))
		return -1;
	if (user != NULL)
		str_copy(c->file.user, user);
	if (c->destination == NULL || c->destination[0] == '\0')
		return err_set(e, ERR_INVALID, "destination: is missing");
	cell_file_init(&c->file, "join");
	cell_file_add(&c->file, c->destination);
	return read_sources(c, sources, e);
}

static void on_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct composing *c = request_state(r, sizeof(*c), files_compose_release);
	struct err e = { 0 };

	if (c == NULL)
		return;
	if (read_body(r, c, body, len, &e) < 0)
		reply_code(r, 400, "invalid", e.msg);
	else
		request_use(r, files_compose_on_session);
}

void files_compose(struct request *r)
{
	request_long_body(r, on_body);
}

/* ---- upload */

#define NUMBER_MAX 24
#define SKIPPED_MAX (1U << 20) /* bytes of a form outside files */

enum files_post_step {
	BETWEEN,  /* between two files */
	SKIPPING, /* a part other than a file */
	WRITING,
	FINISHING, /* all its bytes have been taken, the built-in has not answered */
	FAILED	   /* with this status */
};

/* The state of an upload. step tells where in the body it is. */
struct posting {
	struct file_call call;
	struct cell_file file;
	struct chunk_writer out;
	enum files_post_step step;
	bool reading, answered;
	struct post_head head;
	struct multipart form;
	uint64_t skipped, dropped;
	char path[FILE_MSG_PATH_MAX];	/* of the query. "": none */
	char target[FILE_MSG_PATH_MAX]; /* of this file */
	char max[NUMBER_MAX];
	struct upload_result done;
	/* why it failed: of the built-in, or of the request */
	bool of_file;
	int status;
	struct err why;
};

static void files_post_release(struct request *r, bool answered)
{
	struct posting *p = r->state;

	file_call_release(&p->call);
	upload_result_release(&p->done);
}

/* ---- the end
 *
 * A failure is kept, and answered when the body has been read. */

/* The first call answers. */
static void files_post_answer(struct request *r)
{
	struct posting *p = r->state;

	if (p->answered)
		return;
	p->answered = true;
	if (p->step == FAILED && p->of_file)
		cell_file_fail_http(r, &p->file, p->target, &p->why);
	else if (p->step == FAILED)
		reply_code(r, p->status, "invalid", p->why.msg);
	else
		upload_result_reply(&p->done, r);
}

/* why has the text already. */
static void files_post_fail(struct request *r, int status)
{
	struct posting *p = r->state;

	p->step = FAILED;
	p->of_file = false;
	p->status = status;
	if (!p->reading)
		files_post_answer(r);
}

static void fail_text(struct request *r, int status, const char *text)
{
	struct posting *p = r->state;

	IGNORED(err_set(&p->why, ERR_INVALID, "%s", text), "answered");
	files_post_fail(r, status);
}

/* The answer has the words for files. */
static void fail_file(struct request *r, const struct err *e)
{
	struct posting *p = r->state;

	p->step = FAILED;
	p->of_file = true;
	p->why = *e;
	if (!p->reading)
		files_post_answer(r);
}

/* ---- one file
 *
 * begin_file() starts the built-in. Its end is on_end(), after end_file() has sent the last chunk.
 */

/* The entry of a file in place. */
static int on_record(struct file_call *c, const struct file_msg *m, struct err *e)
{
	struct posting *p = c->r->state;

	if (m->kind != FILE_MSG_ENTRY)
		return file_call_refuse(e);
	if (upload_result_add(&p->done, p->target, &m->entry, e) < 0)
		return -1;
	return reply_count(c->r, p->done.j.len, e);
}

static void on_room(struct file_call *c)
{
	struct posting *p = c->r->state;

	if (chunk_writer_room(&p->out) && p->reading)
		exchange_resume_body(c->r->x);
}

/* A built-in that ends before its file's last byte has failed. */
static void on_end(struct file_call *c, int status, const struct err *e)
{
	struct posting *p = c->r->state;
	struct err early;

	if (p->step == FAILED)
		return;
	if (e == NULL && p->step == WRITING) {
		IGNORED(err_set(&early, ERR_SYSTEM, "the cell did not take the whole file"),
			"reported by e");
		e = &early;
	}
	if (e != NULL) {
		fail_file(c->r, e);
	} else if (upload_result_is_twice(&p->done)) {
		(void)snprintf(p->why.msg, sizeof(p->why.msg),
			       "you cannot upload multiple files to the same path '%.150s'",
			       p->target);
		files_post_fail(c->r, 400);
	} else {
		p->step = BETWEEN;
		if (!p->reading)
			files_post_answer(c->r);
	}
	if (p->reading)
		exchange_resume_body(c->r->x);
}

/* Start to write to the target. */
static void begin_file(struct request *r, struct session *s, uint64_t known)
{
	static const struct file_call_events events = { .on_record = on_record,
							.on_room = on_room,
							.on_end = on_end };
	struct posting *p = r->state;
	struct err e = { 0 };

	file_call_release(&p->call);
	p->call = (struct file_call){ 0 };
	cell_file_init(&p->file, "write");
	cell_file_add(&p->file, p->target);
	cell_file_add(&p->file, "-");
	cell_file_add(&p->file, "-");
	cell_file_add(&p->file, p->head.gzip ? "pz" : "p");
	cell_file_add(&p->file, p->max);
	cell_file_add(&p->file, p->head.meta);
	if (cell_file_start(&p->file, &p->call, r, s, true, &events, &e) < 0) {
		fail_file(r, &e);
		return;
	}
	chunk_writer_init(&p->out, &p->call, known);
	p->step = WRITING;
}

/* Nothing more of the body is taken until on_end(). */
static void end_file(struct posting *p)
{
	p->step = FINISHING;
	chunk_writer_end(&p->out);
}

/* ---- forms
 *
 * take_form() reads the form as far as files take their bytes. */

/* Parts with other names than "file" are skipped. */
static void begin_part(struct request *r)
{
	struct posting *p = r->state;
	const struct part_head *m = &p->form.part;
	struct err e = { 0 };
	struct session *s;

	p->step = SKIPPING;
	if (strcmp(m->name, "file") != 0)
		return;
	str_copy(p->target, p->path[0] != '\0' ? p->path : m->filename);
	if (p->target[0] == '\0') {
		fail_text(r, 400, "a part of the form has no filename, and there is no path");
		return;
	}
	if (upload_result_has(&p->done, p->target)) {
		(void)snprintf(p->why.msg, sizeof(p->why.msg),
			       "you cannot upload multiple files to the same path '%.150s', only "
			       "the first one was uploaded",
			       p->target);
		files_post_fail(r, 400);
		return;
	}
	if (upload_result_check(&p->done, &e) < 0 ||
	    (s = session_live(r->core, r->tenant, r->session_id, &e)) == NULL)
		fail_file(r, &e);
	else
		begin_file(r, s, 0);
}

/* Bytes of a part. Return how many were taken. */
static size_t take_part(struct request *r, const uint8_t *data, size_t len)
{
	struct posting *p = r->state;

	if (p->step == WRITING)
		return chunk_writer_put(&p->out, data, len);
	p->skipped += len;
	if (p->step == SKIPPING && p->skipped > SKIPPED_MAX)
		fail_text(r, 413, "the parts of the form that are not files are too large");
	return len;
}

/* Return how many of the bytes were taken: fewer, if the file in progress has no room, or must be
 * finished first. */
static size_t take_form(struct request *r, const uint8_t *data, size_t len)
{
	struct posting *p = r->state;
	size_t done = 0;

	while (p->step != FAILED && p->step != FINISHING) {
		struct http1_span part;
		size_t used, n;
		enum multipart_result what = multipart_read(&p->form, (const char *)data + done,
							    len - done, &used, &part);

		done += used;
		switch (what) {
		case MULTIPART_PART:
			begin_part(r);
			break;
		case MULTIPART_DATA:
			n = take_part(r, (const uint8_t *)part.p, part.n);
			done += multipart_took(&p->form, n);
			if (n < part.n && p->step != FAILED)
				return done;
			break;
		case MULTIPART_PART_END:
			if (p->step == WRITING)
				end_file(p);
			else
				p->step = BETWEEN;
			break;
		case MULTIPART_BAD:
			fail_text(r, 400, p->form.why);
			break;
		case MULTIPART_MORE:
			return done;
		case MULTIPART_END:
			return len; /* bytes after the form are ignored */
		}
	}
	return done;
}

/* ---- the body
 *
 * on_data() until the body's end, on_body_end() once. */

static size_t on_data(struct exchange *x, const uint8_t *data, size_t len)
{
	struct request *r = request_of(x);
	struct posting *p = r->state;
	size_t done = 0;

	if (p->step != FAILED && p->head.is_form)
		done = take_form(r, data, len);
	else if (p->step == WRITING)
		done = chunk_writer_put(&p->out, data, len);
	if (p->step != FAILED)
		return done;
	p->dropped += len - done;
	if (p->dropped > UPLOAD_DROP_MAX)
		files_post_answer(r);
	return len;
}

static void on_body_end(struct exchange *x, bool ok)
{
	struct request *r = request_of(x);
	struct posting *p = r->state;

	p->reading = false;
	if (!ok) { /* the server answers. Without its last chunk the open file stays unchanged */
		file_call_release(&p->call);
		p->answered = true;
		return;
	}
	if (p->step == WRITING && !p->head.is_form)
		end_file(p);
	else if (p->step != FAILED && p->head.is_form && !multipart_ended(&p->form))
		fail_text(r, 400, "the form ends too early");
	else if (p->step != FINISHING)
		files_post_answer(r);
}

/* A length that is known saves chunks. */
static void on_session(struct request *r, struct session *s)
{
	struct posting *p = r->state;
	const struct http1_request *q = exchange_request(r->x);

	p->reading = true;
	request_hold(r, s);
	if (!p->head.is_form) {
		str_copy(p->target, p->path);
		begin_file(r, s, q->framing == HTTP1_LENGTH ? q->content_length : 0);
	}
	exchange_read_body(r->x, UINT64_MAX, on_data, on_body_end);
}

/* ---- the request */

void files_post(struct request *r)
{
	const struct http1_request *q = exchange_request(r->x);
	uint64_t max = core_config(r->core)->file_max;
	struct posting *p = request_state(r, sizeof(*p), files_post_release);
	struct err e = { 0 };

	if (p == NULL)
		return;
	(void)snprintf(p->max, sizeof(p->max), "%llu", (unsigned long long)max);
	if (request_text(r, "path", p->path, sizeof(p->path), &e) < 0 ||
	    envd_user_of_files(r, p->file.user, &e) < 0 || post_head_read(q, &p->head, &e) < 0 ||
	    (p->head.is_form && multipart_init(&p->form, p->head.type, &e) < 0))
		reply_code(r, 400, "invalid", e.msg);
	else if (!p->head.is_form && p->path[0] == '\0')
		reply_code(r, 400, "invalid", "parameter path: is missing");
	else if (!p->head.is_form && q->framing == HTTP1_LENGTH && q->content_length > max)
		reply_code(r, 413, "too_large", "the file is larger than this server accepts");
	else
		request_use(r, on_session);
}
