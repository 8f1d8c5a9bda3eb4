/* sandbox_create.c - a sandbox is a session with E2B's defaults and words. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "e2b_private.h"
#include "session_request.h"
#include "reply.h"
#include "sandbox.h"
#include "sandbox_spec.h"
#include "template_find.h"
#include "volume_mounts.h"

static void on_created(struct request *r, struct session *s)
{
	sandbox_reply(r, 201, s);
}

/* The requested template, without its namespace and its tag. */
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
	struct template_version *v = template_find(r->core, r->tenant, s->template);

	if (v == NULL) {
		(void)err_set(e, ERR_NOT_FOUND, "template '%.100s' not found", s->template);
		err_sanitize(e);
		return -1;
	}
	s->spec.version = template_row(v)->id;
	set_alias(&box, s->template);
	(void)snprintf(box.mask_host, sizeof(box.mask_host), "%s", s->network.mask_host);
	*ret_client = sandbox_write(&box);
	if (*ret_client == NULL)
		return err_set(e, ERR_SYSTEM, "sandbox: out of memory");
	s->spec.client = *ret_client;
	return 0;
}

static void create(struct request *r, const uint8_t *body, size_t len,
		   enum sandbox_spec_version version)
{
	struct volume_mounts mounts = { .problems = "" };
	struct sandbox_spec spec;
	struct err e = { 0 };
	unsigned retry_s = 0;
	char *client = NULL, *policy = NULL;
	int making = -1;

	if (sandbox_spec_read(body, len, version, &spec, &e) == 0 &&
	    complete(r, &spec, &client, &e) == 0 &&
	    volume_mounts_read(r, spec.volumes, &spec.spec, &mounts) == 0 &&
	    sandbox_network_policy(r, spec.network.text, &policy, &e) == 0) {
		spec.spec.policy = policy;
		making = session_request_start(r, &spec.spec, on_created, &retry_s, &e);
	}
	sandbox_spec_release(&spec);
	free(client);
	free(policy);
	if (making < 0 && mounts.problems[0] != '\0')
		reply_code(r, 400, "invalid", mounts.problems);
	else if (making < 0 && e.code == ERR_UNSUPPORTED)
		reply_code(r, 501, "unsupported", e.msg);
	else if (making < 0)
		reply_refusal(r, &e, retry_s);
}

static void on_body_v1(struct exchange *x, const uint8_t *body, size_t len)
{
	create(request_of(x), body, len, SANDBOX_SPEC_V1);
}

static void on_body_v2(struct exchange *x, const uint8_t *body, size_t len)
{
	create(request_of(x), body, len, SANDBOX_SPEC_V2);
}

void sandbox_create_v1(struct request *r)
{
	request_long_body(r, on_body_v1);
}

void sandbox_create_v2(struct request *r)
{
	request_long_body(r, on_body_v2);
}
