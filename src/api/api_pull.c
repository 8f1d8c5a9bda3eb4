/* api_pull.c - POST /v1/templates/pull: an image of a registry becomes a template.
 *
 * What fails before the image is found is answered as any error. From then on the answer is a
 * stream of server-sent events: "image", "progress" and "layer" while it is pulled, then "template"
 * or "error". A client that is slow gets fewer "progress" events; one that disconnects ends the
 * pull. */
#include <stdio.h>
#include <string.h>

#include "api_handlers.h"
#include "auth.h"
#include "image_pull.h"
#include "json_members.h"
#include "reply.h"
#include "request.h"
#include "sse_stream.h"

#define TEXT_MAX 1024
#define EVENT_MAX 4096

struct layer_state {
	uint64_t bytes, told;
	bool is_done, shared, done_told;
};

struct pulling {
	struct sse_stream feed; /* first, see sse_stream.c */
	struct image_pull pull;
	bool begun; /* the stream of events */
	bool image_told;
	unsigned nlayers;
	uint64_t total;
	struct layer_state layers[OCI_LAYERS_MAX];
	bool ended;
	struct err failed; /* code ERR_NONE: it worked */
	/* What was made, as it was then: by the time a slow client takes it, it may be gone. */
	char name[STORE_NAME_MAX], id[STORE_ID_MAX];
	uint64_t version;
	bool current;
};

static void release(struct request *r, bool answered)
{
	struct pulling *s = r->state;

	(void)answered;
	image_pull_cancel(&s->pull);
	sse_stream_release(&s->feed);
}

static void send(struct pulling *s, const char *name, struct json *j)
{
	json_close(j, '}');
	sse_stream_event(&s->feed, name, NULL, j->text, j->len);
}

static void send_image(struct pulling *s, struct json *j)
{
	s->image_told = true;
	json_text(j, "digest", s->pull.digest);
	json_uint(j, "layers", s->nlayers);
	json_uint(j, "bytes", s->total);
	send(s, "image", j);
}

/* The next news about layers; false: there are none. */
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
		send(s, l->is_done ? "layer" : "progress", j);
		return true;
	}
	return false;
}

static void send_end(struct pulling *s, struct json *j)
{
	if (s->failed.code != ERR_NONE) {
		reply_error_member(j, &s->failed);
		send(s, "error", j);
	} else {
		json_text(j, "name", s->name);
		/* what new sessions have to name; null: the name alone is enough */
		json_text(j, "tag", s->current ? NULL : s->pull.tags[0]);
		json_text(j, "id", s->id);
		json_uint(j, "version", s->version);
		json_text(j, "digest", s->pull.digest);
		send(s, "template", j);
	}
	sse_stream_end(&s->feed);
}

static void pump(struct request *r)
{
	struct pulling *s = r->state;
	char text[EVENT_MAX];
	struct json j;

	while (!s->feed.ended && sse_stream_ready(&s->feed)) {
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
		if (!sse_stream_begin(&s->feed, r, pump))
			return;
	}
	pump(r);
}

static void keep_made(struct pulling *s)
{
	const struct store_template *t = template_row(s->pull.made);

	memcpy(s->name, t->name, sizeof(s->name));
	memcpy(s->id, t->id, sizeof(s->id));
	s->version = t->version;
	s->current = t->current;
}

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
		pump(r);
	else if (e != NULL)
		reply_error(r, e);
}

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

static void on_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct image_pull_spec spec = { 0 };
	struct err e = { 0 };
	json_t *root = json_members_parse(body, len, &e);
	struct pulling *s = root == NULL ? NULL : request_state(r, sizeof(*s), release);
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

void api_pull(struct request *r)
{
	if (auth_may_change_templates(r))
		request_body(r, on_body);
}
