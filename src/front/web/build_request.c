#include "front/web/build_request.h"

#include "daemon/images/build.h"
#include "front/web/auth.h"
#include "front/web/body_feed.h"
#include "front/web/reply.h"
#include "lib/base/str.h"

/* ---- archives of a build
 *
 * body_feed passes the body to build_upload_put(). Each function below hands one of its calls on.
 */

/* upload NULL: dropped, or never begun. */
struct receiving {
	struct body_feed body; /* first */
	struct build_upload *upload;
	int status;
};

static void build_receive_release(struct request *r, bool answered)
{
	struct receiving *v = r->state;

	build_upload_drop(v->upload);
}

static void build_receive_answer(struct request *r, const struct err *e)
{
	const struct receiving *v = r->state;

	if (e != NULL)
		reply_error(r, e);
	else
		exchange_reply(r->x, v->status, NULL, "", 0);
}

static size_t build_receive_put(struct request *r, const uint8_t *data, size_t len)
{
	const struct receiving *v = r->state;

	return build_upload_put(v->upload, data, len);
}

static bool build_receive_end(struct request *r)
{
	const struct receiving *v = r->state;

	return build_upload_end(v->upload);
}

/* An archive that was cut is not kept. */
static void build_receive_cut(struct request *r)
{
	struct receiving *v = r->state;

	completion_cancel(&r->wait);
	build_upload_drop(v->upload);
	v->upload = NULL;
}

/* Each failure is answered here or by body_feed. */
static void build_receive_begin(struct request *r, const char *tenant, const char *template_id,
				const char *hash, int status)
{
	struct receiving *v = request_state(r, sizeof(*v), build_receive_release);
	struct store_build_upload name = { 0 };
	struct err e = { 0 };

	if (v == NULL)
		return;
	str_copy(name.tenant, tenant);
	str_copy(name.template_id, template_id);
	str_copy(name.hash, hash);
	v->status = status;
	v->body = (struct body_feed){ .put = build_receive_put,
				      .end = build_receive_end,
				      .cut = build_receive_cut,
				      .answer = build_receive_answer };
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
		build_receive_begin(r, tenant, template_id, hash, status);
}

/* ---- requests for a build
 *
 * Both interfaces read the body by their own function and share the rest. */

void build_ask_tags(struct json_members *m, struct build_ask *ask)
{
	const json_t *tags = json_members_array(m, "tags", BUILD_TAGS_MAX), *value;
	size_t i;

	json_array_foreach(tags, i, value)
	{
		if (json_is_string(value))
			ask->tags[ask->ntags++] = json_string_value(value);
		else
			(void)json_members_fail(m, "tags", "must be an array of texts");
	}
}

void build_ask_body(struct request *r, const uint8_t *body, size_t len,
		    int (*read)(json_t *root, struct build_ask *ask, struct err *e),
		    void (*answer)(struct request *r, const struct store_build *row))
{
	struct build_ask ask = { 0 };
	struct store_build row;
	struct err e = { 0 };
	json_t *root = json_members_parse(body, len, &e);
	int rc = root == NULL ? -1 : read(root, &ask, &e);

	if (rc == 0)
		rc = build_request(r->core, r->tenant, &ask, request_actor(r), &row, &e);
	json_decref(root);
	if (rc < 0) {
		reply_error(r, &e);
		return;
	}
	answer(r, &row);
	store_build_release(&row);
}
