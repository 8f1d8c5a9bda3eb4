/* api_template_import.c - POST /v1/templates with an archive as body: the template is made when the
 * whole archive has arrived, and answered when it is there. */
#include <string.h>

#include "api_handlers.h"
#include "auth.h"
#include "body_feed.h"
#include "import.h"
#include "reply.h"
#include "templates.h"

struct importing {
	struct body_feed body; /* first */
	struct import *import; /* owned */
};

bool api_template_is_archive(const struct request *r)
{
	static const char *const types[] = { "application/x-tar", "application/octet-stream",
					     "application/gzip", "application/zstd" };
	const struct http1_request *q = exchange_request(r->x);
	struct http1_span type;

	if (http1_find(q->headers, q->headers_n, "content-type", &type) == 0)
		return false;
	type = http1_media_type(type);
	for (size_t i = 0; i < COUNT(types); i++)
		if (http1_span_is_nocase(type, types[i]))
			return true;
	return false;
}

static void release(struct request *r, bool answered)
{
	struct importing *v = r->state;

	(void)answered;
	import_free(v->import);
}

static void answer(struct request *r, const struct err *e)
{
	const struct importing *v = r->state;

	if (e != NULL)
		reply_error(r, e);
	else
		api_template_reply(r, 201, import_made(v->import));
}

static size_t put(struct request *r, const uint8_t *data, size_t len)
{
	const struct importing *v = r->state;

	return import_put(v->import, data, len);
}

static bool end(struct request *r)
{
	const struct importing *v = r->state;

	return import_end(v->import);
}

static void cut(struct request *r)
{
	struct importing *v = r->state;

	completion_cancel(&r->wait);
	import_free(v->import);
	v->import = NULL;
}

void api_template_import(struct request *r)
{
	char name[STORE_NAME_MAX + STORE_TAG_MAX], tag[STORE_TAG_MAX], user[OCI_USER_MAX];
	char workdir[OCI_WORKDIR_MAX];
	struct import_spec spec = { .name = name, .tag = tag, .user = user, .workdir = workdir };
	struct importing *v;
	struct err e = { 0 };

	if (auth_check_unlimited(r, &e) < 0 ||
	    request_text(r, "name", name, sizeof(name), &e) < 0 ||
	    request_text(r, "tag", tag, sizeof(tag), &e) < 0 ||
	    request_text(r, "user", user, sizeof(user), &e) < 0 ||
	    request_text(r, "workdir", workdir, sizeof(workdir), &e) < 0 ||
	    request_bool(r, "public", &spec.public, &e) < 0) {
		reply_error(r, &e);
		return;
	}
	v = request_state(r, sizeof(*v), release);
	if (v == NULL)
		return;
	v->body = (struct body_feed){ .put = put, .end = end, .cut = cut, .answer = answer };
	r->wait = (struct completion){ .on_done = body_feed_on_done, .arg = r };
	v->import = import_begin(r->core, r->tenant, &spec, request_actor(r), &r->wait,
				 body_feed_on_room, r, &e);
	if (v->import == NULL)
		reply_error(r, &e);
	else
		body_feed_start(&v->body, r, IMPORT_BYTES_MAX);
}
