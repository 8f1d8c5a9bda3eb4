#include "build_receive.h"

#include "build.h"
#include "reply.h"

struct receiving {
	struct build_upload *upload;
	int status;
	bool failed;
	struct err why;
};

static void release(struct request *r, bool answered)
{
	struct receiving *v = r->state;

	(void)answered;
	build_upload_drop(v->upload);
}

/* What follows a failure is read and dropped, up to the bound of the body: clients do not read an
 * answer before they have sent everything. */
static size_t on_data(struct exchange *x, const uint8_t *data, size_t len)
{
	struct receiving *v = request_of(x)->state;

	if (!v->failed && build_upload_write(v->upload, data, len, &v->why) < 0)
		v->failed = true;
	return len;
}

static void on_end(struct exchange *x, bool ok)
{
	struct request *r = request_of(x);
	struct receiving *v = r->state;
	struct build_upload *u = v->upload;

	if (!ok)
		return; /* nothing is kept; the server answers if the client is still there */
	if (!v->failed) {
		v->upload = NULL;
		v->failed = build_upload_end(u, &v->why) < 0;
	}
	if (v->failed)
		reply_error(r, &v->why);
	else
		exchange_reply(r->x, v->status, NULL, "", 0);
}

void build_receive(struct request *r, const char *tenant, const char *template_id, const char *hash,
		   int status)
{
	struct receiving *v = request_state(r, sizeof(*v), release);
	struct err e = { 0 };

	if (v == NULL)
		return;
	v->status = status;
	v->upload = build_upload_begin(r->core, tenant, template_id, hash, &e);
	if (v->upload == NULL)
		reply_error(r, &e);
	else
		exchange_read_body(r->x, core_config(r->core)->upload_max, on_data, on_end);
}
