/* volume_content.c - entries of a volume: listed, made, looked up, changed, removed, by
 * /volumecontent/{volume}/dir and /path. The work is done by cordon-storage. */
#include "e2b_private.h"
#include "json_members.h"
#include "reply.h"
#include "volume_access.h"

#define DEPTH_MAX 10
#define ENTRIES_MAX 50000
#define ENTRY_JSON_MAX (64U << 10)

struct asking {
	struct content_call call;
	struct store_volume volume;
	struct storage_content r;
	struct json j;
	int status; /* of the answer, if it worked */
};

static void release(struct request *r, bool answered)
{
	struct asking *a = r->state;

	(void)answered;
	content_call_cancel(&a->call);
	json_release(&a->j);
}

static int on_entry(struct content_call *c, const struct content_entry *entry, struct err *e)
{
	const struct request *r = c->arg;
	struct asking *a = r->state;

	(void)e;
	volume_access_shape(&a->j, entry);
	return 0;
}

static void on_end(struct content_call *c, const struct err *e)
{
	struct request *r = c->arg;
	struct asking *a = r->state;

	if (e != NULL) {
		volume_access_fail(r, a->r.what, e);
		return;
	}
	if (a->r.what == STORAGE_CONTENT_LIST)
		json_close(&a->j, ']');
	if (a->status == 204)
		reply_empty(r, 204);
	else
		reply_json(r, a->status, &a->j);
}

static void ask(struct request *r)
{
	static const struct content_call_events events = { .on_entry = on_entry, .on_end = on_end };
	struct asking *a = r->state;
	struct err e = { 0 };

	if (content_call_start(&a->call, r->core, &a->volume, &a->r, &events, &e) < 0)
		reply_error(r, &e);
}

/* Checks the token and reads the parameters. NULL: the request was answered. */
static struct asking *begin(struct request *r, enum storage_content_what what, int status)
{
	struct store_volume v;
	struct asking *a;
	struct err e = { 0 };

	if (!volume_access(r, &v))
		return NULL;
	a = request_state(r, sizeof(*a), release);
	if (a == NULL)
		return NULL;
	a->volume = v;
	a->call.arg = r;
	a->status = status;
	json_init_heap(&a->j, what == STORAGE_CONTENT_LIST ? REPLY_JSON_MAX : ENTRY_JSON_MAX);
	a->r = (struct storage_content){ .what = what, .depth = 1, .entries_max = ENTRIES_MAX };
	if (volume_access_params(r, &a->r, &e) == 0)
		return a;
	reply_error(r, &e);
	return NULL;
}

void volume_content_list(struct request *r)
{
	struct asking *a = begin(r, STORAGE_CONTENT_LIST, 200);
	uint64_t depth = 1;
	struct err e = { 0 };

	if (a == NULL)
		return;
	if (request_number(r, "depth", 1, DEPTH_MAX, &depth, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	a->r.depth = (uint32_t)depth;
	json_open(&a->j, NULL, '[');
	ask(r);
}

void volume_content_make_dir(struct request *r)
{
	if (begin(r, STORAGE_CONTENT_MAKE, 201) != NULL)
		ask(r);
}

void volume_content_stat(struct request *r)
{
	if (begin(r, STORAGE_CONTENT_STAT, 200) != NULL)
		ask(r);
}

void volume_content_remove(struct request *r)
{
	if (begin(r, STORAGE_CONTENT_REMOVE, 204) != NULL)
		ask(r);
}

/* ---- change */

static int read_change(const uint8_t *body, size_t len, struct storage_content *ret, struct err *e)
{
	uint64_t uid = STORAGE_CONTENT_UNSET, gid = uid, mode = uid;
	json_t *root = json_members_parse(body, len, e);
	struct json_members m;
	int read;

	if (root == NULL)
		return -1;
	json_members_begin(&m, root, "", e);
	json_members_count(&m, "uid", 0, STORAGE_CONTENT_ID_MAX, &uid);
	json_members_count(&m, "gid", 0, STORAGE_CONTENT_ID_MAX, &gid);
	json_members_count(&m, "mode", 0, 07777, &mode);
	read = json_members_end_lenient(&m);
	json_decref(root);
	ret->uid = (uint32_t)uid;
	ret->gid = (uint32_t)gid;
	ret->mode = (uint32_t)mode;
	return read;
}

static void on_change_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct asking *a = r->state;
	struct err e = { 0 };

	if (read_change(body, len, &a->r, &e) < 0)
		reply_error(r, &e);
	else
		ask(r);
}

void volume_content_change(struct request *r)
{
	if (begin(r, STORAGE_CONTENT_CHANGE, 200) != NULL)
		request_body(r, on_change_body);
}
