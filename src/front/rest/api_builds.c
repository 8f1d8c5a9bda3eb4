/* api_builds.c - builds of templates (build.h): asked for, given archives, started with a recipe,
 * followed, cancelled. The recipe is that of E2B's clients (front/web/spec_recipe.h).
 *
 * A build has four requests: ask for it, upload an archive for each COPY, start it with the recipe,
 * and read its log until its status is final. Only the start does work. A pull is one request: its
 * progress is the answer. */
#include <stdio.h>
#include <string.h>

#include "daemon/images/build.h"
#include "daemon/images/image_pull.h"
#include "daemon/tenant/tenant.h"
#include "front/rest/api_handlers.h"
#include "front/rest/list_page.h"
#include "front/web/auth.h"
#include "front/web/build_request.h"
#include "front/web/json_members.h"
#include "front/web/json_view.h"
#include "front/web/reply.h"
#include "front/web/request.h"
#include "front/web/spec_recipe.h"
#include "front/web/sse_out.h"

/* ---- pulls
 *
 * POST /v1/templates/pull: an image of a registry becomes a template.
 *
 * A failure before the image is found is answered as any error. From then on the answer is a stream
 * of server-sent events: "image", "progress" and "layer" while it is pulled, then "template" or
 * "error". A slow client gets fewer "progress" events. A client that disconnects ends the pull. */

/* Bytes of a reference, a name, a user in the body. */
#define TEXT_MAX 1024
/* Bytes of one event as JSON. */
#define EVENT_MAX 4096

/* A layer of the image. told and done_told are the state that the client has seen: pull_pump()
 * sends the difference, so a slow client skips steps but misses no end. */
struct layer_state {
	uint64_t bytes, told;
	bool is_done, shared, done_told;
};

/* The state of a pull's request. on_progress() and on_done() write it, pull_pump() turns it into
 * events at the client's pace. */
struct pulling {
	struct sse_out feed; /* first, see paced_stream.h */
	struct image_pull pull;
	bool begun; /* the stream of events */
	bool image_told;
	unsigned nlayers;
	uint64_t total;
	struct layer_state layers[OCI_LAYERS_MAX];
	bool ended;
	struct err failed; /* code ERR_NONE: it worked */
	/* A copy of the new template: it may be gone by the time a slow client takes it. */
	char name[STORE_NAME_MAX], id[STORE_ID_MAX];
	uint64_t version;
	bool current;
};

/* The client left, or the stream has ended. A pull that still runs is cancelled. */
static void pull_release(struct request *r, bool answered)
{
	struct pulling *s = r->state;

	image_pull_cancel(&s->pull);
	sse_out_release(&s->feed);
}

/* Close the object and send it. j is on the stack of pull_pump() and needs no release. */
static void pull_send(struct pulling *s, const char *name, struct json *j)
{
	json_close(j, '}');
	sse_out_event(&s->feed, name, NULL, j->text, j->len);
}

/* The first event: the image was found. Its sizes come from the manifest. */
static void send_image(struct pulling *s, struct json *j)
{
	s->image_told = true;
	json_text(j, "digest", s->pull.digest);
	json_uint(j, "layers", s->nlayers);
	json_uint(j, "bytes", s->total);
	pull_send(s, "image", j);
}

/* The next news about layers. False: none. */
static bool send_layer(struct pulling *s, struct json *j)
{
	for (unsigned i = 0; i < s->nlayers; i++) {
		struct layer_state *l = &s->layers[i];

		if (l->done_told || (!l->is_done && l->bytes == l->told))
			continue;
		json_uint(j, "layer", i + 1);
		json_uint(j, "size", s->pull.sizes[i]);
		l->told = l->bytes;
		l->done_told = l->is_done;
		if (l->is_done)
			json_bool(j, "shared", l->shared);
		else
			json_uint(j, "bytes", l->bytes);
		pull_send(s, l->is_done ? "layer" : "progress", j);
		return true;
	}
	return false;
}

/* The last event. Nothing follows. */
static void send_end(struct pulling *s, struct json *j)
{
	if (s->failed.code != ERR_NONE) {
		reply_error_member(j, &s->failed);
		pull_send(s, "error", j);
	} else {
		json_text(j, "name", s->name);
		/* the tag for new sessions. null: the name alone is enough */
		json_text(j, "tag", s->current ? NULL : s->pull.tags[0]);
		json_text(j, "id", s->id);
		json_uint(j, "version", s->version);
		json_text(j, "digest", s->pull.digest);
		pull_send(s, "template", j);
	}
	sse_out_end(&s->feed);
}

/* Called for each change and whenever the client has taken enough. Sends until the client is slow
 * or nothing is new. */
static void pull_pump(struct request *r)
{
	struct pulling *s = r->state;
	char text[EVENT_MAX];
	struct json j;

	while (!s->feed.paced.ended && sse_out_ready(&s->feed)) {
		json_init(&j, text, sizeof(text));
		json_open(&j, NULL, '{');
		if (!s->image_told) {
			send_image(s, &j);
		} else if (!send_layer(s, &j)) {
			if (s->ended)
				send_end(s, &j);
			return;
		}
	}
}

/* The first call begins the answer. A failure from then on becomes an event. */
static void on_progress(struct image_pull *p, const struct image_pull_progress *now)
{
	struct request *r = p->arg;
	struct pulling *s = r->state;
	struct layer_state *l = &s->layers[now->layer];

	s->nlayers = now->nlayers;
	if (now->event == IMAGE_PULL_RESOLVED)
		s->total = now->total;
	if (now->event == IMAGE_PULL_BYTES)
		l->bytes = now->bytes;
	if (now->event == IMAGE_PULL_LAYER) {
		l->is_done = true;
		l->shared = now->shared;
	}
	if (!s->begun) {
		s->begun = true;
		if (!sse_out_begin(&s->feed, r, pull_pump))
			return;
	}
	pull_pump(r);
}

/* s->pull.made is valid here: the pull has just ended. */
static void keep_made(struct pulling *s)
{
	const struct store_template *t = template_row(s->pull.made);

	memcpy(s->name, t->name, sizeof(s->name));
	memcpy(s->id, t->id, sizeof(s->id));
	s->version = t->version;
	s->current = t->current;
}

/* The pull ends here once. Before the stream has begun, an error is an ordinary answer. */
static void on_done(struct completion *c, const struct err *e)
{
	struct request *r = c->arg;
	struct pulling *s = r->state;

	s->ended = true;
	if (e != NULL)
		s->failed = *e;
	else
		keep_made(s);
	if (s->begun)
		pull_pump(r);
	else if (e != NULL)
		reply_error(r, e);
}

/* The texts are borrowed from root. A secret's name and a user with a password exclude each other.
 */
static int read_spec(json_t *root, struct image_pull_spec *spec, struct err *e)
{
	struct json_members m;
	json_t *tags, *value;
	size_t i;

	json_members_begin(&m, root, "", e);
	json_members_text(&m, "reference", TEXT_MAX, &spec->reference);
	json_members_text(&m, "name", TEXT_MAX, &spec->name);
	json_members_text(&m, "secret", TEXT_MAX, &spec->secret);
	json_members_text(&m, "username", TEXT_MAX, &spec->user);
	json_members_text(&m, "password", PULL_PASSWORD_MAX - 1, &spec->password);
	tags = json_members_array(&m, "tags", IMAGE_TAGS_MAX);
	json_array_foreach(tags, i, value)
	{
		if (json_is_string(value))
			spec->tags[spec->ntags++] = json_string_value(value);
		else
			(void)json_members_fail(&m, "tags", "must be an array of texts");
	}
	if (spec->reference == NULL && !m.failed)
		(void)json_members_fail(&m, "reference", "is missing");
	if (spec->secret != NULL && spec->user != NULL && !m.failed)
		(void)json_members_fail(&m, "secret", "is given beside username");
	return json_members_end(&m);
}

/* A pull that did not start is answered here. Otherwise on_done() follows once. */
static void on_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct image_pull_spec spec = { 0 };
	struct err e = { 0 };
	json_t *root = json_members_parse(body, len, &e);
	struct pulling *s = root == NULL ? NULL : request_state(r, sizeof(*s), pull_release);
	int started = -1;

	if (root != NULL && s == NULL) {
		json_decref(root);
		return;
	}
	if (s != NULL) {
		s->pull.core = r->core;
		s->pull.tenant = r->tenant;
		s->pull.actor = *request_actor(r);
		s->pull.on_progress = on_progress;
		s->pull.arg = r;
		s->pull.done.on_done = on_done;
		s->pull.done.arg = r;
		if (read_spec(root, &spec, &e) == 0 && request_stream(r, &e) == 0)
			started = image_pull_start(&s->pull, &spec, &e);
	}
	json_decref(root);
	if (started < 0)
		reply_error(r, &e);
}

/* Only keys that may change templates. The pull counts as an open stream of the tenant. */
void api_pull(struct request *r)
{
	if (auth_may_change_templates(r))
		request_body(r, on_body);
}

/* ---- builds
 *
 * Handlers of one build first find the build in the path as the tenant's own. An id of another
 * tenant's build is answered as a missing one. */

/* Bounds of a build's JSON, of log entries read at once, and of the name in a request. */
#define JSON_MAX (8U << 20)
#define ENTRIES_MAX 1000
#define LOG_JSON_MAX (JSON_MAX / 2) /* of the entries. A client asks for the rest with `after` */
#define NAME_TEXT_MAX 256
#define MIB (1U << 20)

/* ---- shown
 *
 * A build looks alike in every answer: builds_show() writes it. */

/* Called by build_tags_each() for one tag. arg is the writer, inside an open array. */
static void add_tag(const char *tag, void *arg)
{
	json_text(arg, NULL, tag);
}

/* The members of a build, in the object that the caller has opened. */
static void builds_show(struct json *j, const struct store_build *row)
{
	json_text(j, "id", row->id);
	json_text(j, "template_id", row->template_id);
	json_text(j, "name", row->name);
	json_open(j, "tags", '[');
	build_tags_each(row->tags, add_tag, j);
	json_close(j, ']');
	json_text(j, "status", build_status_name(row->status));
	json_text(j, "step", row->step[0] == '\0' ? NULL : row->step);
	json_text(j, "reason", row->reason[0] == '\0' ? NULL : row->reason);
	json_text(j, "version", row->version[0] == '\0' ? NULL : row->version);
	json_view_time(j, "created_at", row->created_ms);
	json_view_time(j, "finished_at", row->finished_ms);
}

/* 1 stops the list: the answer is long enough, and the client continues with `after`. */
static int on_entry(const struct store_build_entry *row, void *cookie)
{
	struct json *j = cookie;

	json_open(j, NULL, '{');
	json_uint(j, "seq", row->seq);
	json_view_time(j, "time", row->time_ms);
	json_text(j, "level", build_level_name(row->level));
	json_text(j, "step", row->step);
	json_text(j, "message", row->message);
	json_close(j, '}');
	return j->len > LOG_JSON_MAX;
}

static void reply_build(struct request *r, int status, const struct store_build *row)
{
	struct json j;

	json_init_heap(&j, JSON_MAX);
	json_open(&j, NULL, '{');
	builds_show(&j, row);
	json_close(&j, '}');
	reply_json(r, status, &j);
}

/* The tenant's build in the path. False: answered. */
static bool builds_find(struct request *r, struct store_build *ret)
{
	struct err e = { 0 };

	if (store_build_get(core_store(r->core), r->id, ret, &e) == 0) {
		if (strcmp(ret->tenant, tenant_row(r->tenant)->id) == 0)
			return true;
		store_build_release(ret);
	} else if (e.code != ERR_NOT_FOUND) {
		reply_error(r, &e);
		return false;
	}
	reply_missing(r, "build", r->id);
	return false;
}

/* ---- POST /v1/builds */

/* build_ask_body() calls this with the parsed body. */
static int read_ask(json_t *root, struct build_ask *ask, struct err *e)
{
	struct json_members m;
	uint64_t memory = 0;

	json_members_begin(&m, root, "", e);
	json_members_text(&m, "name", NAME_TEXT_MAX, &ask->name);
	json_members_count(&m, "cpus", 1, 1024, &ask->cpus);
	json_members_bytes(&m, "memory", "memory_bytes", &memory, NULL);
	ask->memory_mb = (memory + MIB - 1) / MIB; /* not 0, the default */
	build_ask_tags(&m, ask);
	if (ask->name == NULL && !m.failed)
		(void)json_members_fail(&m, "name", "is missing");
	return json_members_end(&m);
}

static void reply_requested(struct request *r, const struct store_build *row)
{
	reply_location(r, "/v1/builds/", row->id);
	reply_build(r, 201, row);
}

static void on_request(struct exchange *x, const uint8_t *body, size_t len)
{
	build_ask_body(request_of(x), body, len, read_ask, reply_requested);
}

/* The build waits for its files and its recipe. Nothing runs yet. */
void api_builds_request(struct request *r)
{
	if (auth_may_change_templates(r))
		request_body(r, on_request);
}

/* ---- PUT .../files/{hash} */

/* build_receive() replaces the request's state and answers when all of the body is kept. */
void api_builds_upload(struct request *r)
{
	struct store_build row;

	if (!builds_find(r, &row))
		return;
	build_receive(r, row.tenant, row.template_id, r->part, 204);
	store_build_release(&row);
}

/* ---- POST .../start
 *
 * The recipe is read strictly before the build changes its state. */

/* The answer shows the row as it is after the start. The build itself continues without this
 * request. */
static void on_start(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct store_build row;
	struct recipe recipe;
	struct err e = { 0 };
	int rc;

	if (!builds_find(r, &row))
		return;
	if (spec_recipe_read(body, len, &recipe, &e) < 0) {
		recipe_release(&recipe);
		rc = -1;
	} else {
		rc = build_start(r->core, r->tenant, row.template_id, r->id, &recipe,
				 request_actor(r), &e);
	}
	store_build_release(&row);
	if (rc < 0) {
		reply_error(r, &e);
		return;
	}
	if (builds_find(r, &row)) {
		reply_location(r, "/v1/builds/", row.id);
		reply_build(r, 202, &row);
		store_build_release(&row);
	}
}

void api_builds_start(struct request *r)
{
	if (auth_may_change_templates(r))
		request_long_body(r, on_start);
}

/* ---- GET, DELETE */

/* With the entries of its log from the number `after` on. The log stops at LOG_JSON_MAX, so the
 * whole answer stays below JSON_MAX. */
void api_builds_get(struct request *r)
{
	struct store_build_part part = { .step = "", .limit = ENTRIES_MAX };
	struct store_build row;
	uint64_t after = 0;
	struct err e = { 0 };
	struct json j;
	int rc;

	if (!builds_find(r, &row))
		return;
	if (request_number(r, "after", 0, INT32_MAX, &after, &e) < 0) {
		store_build_release(&row);
		reply_error(r, &e);
		return;
	}
	json_init_heap(&j, JSON_MAX);
	json_open(&j, NULL, '{');
	builds_show(&j, &row);
	part.skip = after;
	json_open(&j, "log", '[');
	rc = store_build_log_list(core_store(r->core), row.id, &part, on_entry, &j, &e);
	json_close(&j, ']');
	json_close(&j, '}');
	store_build_release(&row);
	if (rc < 0) {
		json_release(&j);
		reply_error(r, &e);
	} else {
		reply_json(r, 200, &j);
	}
}

/* The row ends the page if the page is full. 1: no further row is wanted. */
static int on_listed(const struct store_build *row, void *cookie)
{
	struct list_part *p = cookie;

	if (!list_part_admits(p, 0, row->name))
		return 1;
	json_open(&p->j, NULL, '{');
	builds_show(&p->j, row);
	json_close(&p->j, '}');
	return 0;
}

/* The newest build of each template, by name. */
void api_builds_list(struct request *r)
{
	struct list_part part;
	struct err e = { 0 };

	if (list_part_begin(&part, r, "builds", false, &e) < 0) {
		reply_error(r, &e);
	} else if (store_build_templates(core_store(r->core), tenant_row(r->tenant)->id, part.last,
					 list_part_rows(&part), on_listed, &part, &e) < 0) {
		json_release(&part.j);
		reply_error(r, &e);
	} else {
		list_part_reply(&part, r);
	}
}

/* A build that cannot be cancelled any more is an error of build_cancel(). */
void api_builds_cancel(struct request *r)
{
	struct store_build row;
	struct err e = { 0 };
	int rc;

	if (!auth_may_change_templates(r) || !builds_find(r, &row))
		return;
	rc = build_cancel(r->core, r->tenant, row.template_id, r->id, &e);
	store_build_release(&row);
	if (rc < 0)
		reply_error(r, &e);
	else
		reply_empty(r, 204);
}

/* ---- DELETE /v1/builds/cache */

/* Only this tenant's results of steps are forgotten. */
void api_builds_clear_cache(struct request *r)
{
	struct err e = { 0 };

	if (!auth_may_change_templates(r))
		return;
	if (build_cache_clear(r->core, r->tenant, &e) < 0)
		reply_error(r, &e);
	else
		reply_empty(r, 204);
}
