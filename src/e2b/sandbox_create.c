/* sandbox_create.c - a sandbox is a session with E2B's defaults and words. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter.h"
#include "reply.h"
#include "sandbox.h"
#include "sandbox_spec.h"

#define SANDBOX_JSON_MAX (64U << 10)

struct making {
	struct session *s; /* until it is told how it went */
	bool told;
	bool failed;
	struct err why; /* if so */
};

static void abandon(struct request *r, bool answered)
{
	struct making *m = r->state;
	struct err e;

	(void)answered;
	if (m->told || m->s == NULL)
		return;
	/* The client went away before it could learn the id: nobody would ever end it. One that is
	 * still queued has no id, and is forgotten with whoever waited for it. */
	(void)snprintf(r->session_id, sizeof(r->session_id), "%s", session_row(m->s)->id);
	if (r->session_id[0] != '\0')
		IGNORED(session_delete(r->core, r->tenant, r->session_id, &e),
			"its timeout will, then");
}

static void finish(struct request *r)
{
	struct making *m = r->state;
	struct json j;

	if (m->failed) {
		reply_error(r, &m->why);
		return;
	}
	(void)snprintf(r->session_id, sizeof(r->session_id), "%s", session_row(m->s)->id);
	json_init_heap(&j, SANDBOX_JSON_MAX);
	sandbox_shape(&j, NULL, adapter_of(r), session_row(m->s));
	reply_json(r, 201, &j);
}

static void made(struct wait *w, const struct err *e)
{
	struct request *r = w->arg;
	struct making *m = r->state;

	m->told = true;
	m->failed = e != NULL;
	if (e != NULL)
		m->why = *e;
	if (m->s != NULL) /* else session_create() has not returned yet */
		finish(r);
}

/* What it was asked for by, without its namespace and its tag. */
static void set_alias(struct sandbox *box, const char *name)
{
	const char *slash = strchr(name, '/');
	size_t n;

	name = slash == NULL ? name : slash + 1;
	n = strcspn(name, ":");
	if (n >= sizeof(box->template))
		return;
	for (size_t i = 0; i < n; i++)
		box->template[i] = (char)tolower((unsigned char)name[i]);
}

/* The template, and what only this interface needs to know of the session. */
static int complete(struct request *r, struct sandbox_spec *s, char **ret_client, struct err *e)
{
	struct sandbox box = { .secure = s->secure,
			       .auto_resume = s->auto_resume,
			       .public_traffic = s->network.public_traffic,
			       .timeout_ms = s->spec.timeout_ms };

	s->spec.template = sandbox_template(r->core, s->template);
	if (s->spec.template == NULL) {
		(void)err_set(e, ERR_NOT_FOUND, "template '%.100s' not found", s->template);
		err_sanitize(e);
		return -1;
	}
	set_alias(&box, s->template);
	(void)snprintf(box.mask_host, sizeof(box.mask_host), "%s", s->network.mask_host);
	*ret_client = sandbox_write(&box);
	if (*ret_client == NULL)
		return err_set(e, ERR_SYSTEM, "sandbox: memory is short");
	s->spec.client = *ret_client;
	return 0;
}

/* Refuses a request before there is a session. */
static void refuse(struct request *r, const struct err *e, unsigned retry_s)
{
	struct making *m = r->state;

	m->told = true;
	if (e->code == ERR_UNSUPPORTED)
		reply_code(r, 501, "unsupported", e->msg);
	else
		reply_refusal(r, e, retry_s);
}

static void create(struct request *r, const uint8_t *body, size_t len,
		   enum sandbox_spec_version version)
{
	struct making *m = request_state(r, sizeof(*m), abandon);
	struct session *s = NULL;
	struct sandbox_spec spec;
	struct err e = { 0 };
	unsigned retry_s = 0;
	char *client = NULL;
	int made_one = -1;

	if (m == NULL)
		return;
	r->wait.done = made;
	if (sandbox_spec_read(body, len, version, &spec, &e) == 0 &&
	    complete(r, &spec, &client, &e) == 0)
		made_one =
			session_create(r->core, r->tenant, &spec.spec, &r->wait, &s, &retry_s, &e);
	sandbox_spec_release(&spec);
	free(client);
	if (made_one < 0) {
		refuse(r, &e, retry_s);
		return;
	}
	m->s = s;
	if (m->told)
		finish(r);
}

static void create_v1(struct exchange *x, const uint8_t *body, size_t len)
{
	create(request_of(x), body, len, SANDBOX_SPEC_V1);
}

static void create_v2(struct exchange *x, const uint8_t *body, size_t len)
{
	create(request_of(x), body, len, SANDBOX_SPEC_V2);
}

void sandbox_create_v1(struct request *r)
{
	request_body(r, create_v1);
}

void sandbox_create_v2(struct request *r)
{
	request_body(r, create_v2);
}
