#include "build_receive.h"

#include <stdio.h>

#include "auth.h"
#include "body_feed.h"
#include "build.h"
#include "reply.h"

struct receiving {
	struct body_feed body; /* first */
	struct build_upload *upload;
	int status;
};

static void release(struct request *r, bool answered)
{
	struct receiving *v = r->state;

	(void)answered;
	build_upload_drop(v->upload);
}

static void answer(struct request *r, const struct err *e)
{
	const struct receiving *v = r->state;

	if (e != NULL)
		reply_error(r, e);
	else
		exchange_reply(r->x, v->status, NULL, "", 0);
}

static size_t put(struct request *r, const uint8_t *data, size_t len)
{
	const struct receiving *v = r->state;

	return build_upload_put(v->upload, data, len);
}

static bool end(struct request *r)
{
	const struct receiving *v = r->state;

	return build_upload_end(v->upload);
}

static void cut(struct request *r)
{
	struct receiving *v = r->state;

	completion_cancel(&r->wait);
	build_upload_drop(v->upload);
	v->upload = NULL;
}

static void receive(struct request *r, const char *tenant, const char *template_id,
		    const char *hash, int status)
{
	struct receiving *v = request_state(r, sizeof(*v), release);
	struct store_build_upload name = { 0 };
	struct err e = { 0 };

	if (v == NULL)
		return;
	(void)snprintf(name.tenant, sizeof(name.tenant), "%s", tenant);
	(void)snprintf(name.template_id, sizeof(name.template_id), "%s", template_id);
	(void)snprintf(name.hash, sizeof(name.hash), "%s", hash);
	v->status = status;
	v->body = (struct body_feed){ .put = put, .end = end, .cut = cut, .answer = answer };
	r->wait = (struct completion){ .on_done = body_feed_on_done, .arg = r };
	v->upload = build_upload_begin(r->core, &name, &r->wait, body_feed_on_room, r, &e);
	if (v->upload == NULL)
		reply_error(r, &e);
	else
		body_feed_start(&v->body, r, core_config(r->core)->upload_max);
}

void build_receive(struct request *r, const char *tenant, const char *template_id, const char *hash,
		   int status)
{
	if (auth_may_change_templates(r)) /* or it has answered */
		receive(r, tenant, template_id, hash, status);
}
