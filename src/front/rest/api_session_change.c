/* api_session_change.c - PATCH /v1/sessions/{session}: members of a session that can change while
 * it lives. The others are refused by name, with the way to change them.
 *
 * All members are read before anything changes, and session_change() applies all of them or
 * none. */
#include <jansson.h>
#include <stdlib.h>

#include "daemon/session/session.h"
#include "front/rest/api_handlers.h"
#include "front/web/json_members.h"
#include "front/web/reply.h"
#include "front/web/request.h"
#include "front/web/spec_session.h"
#include "lib/base/str.h"

/* Members that POST /v1/sessions has and PATCH has not. why NULL: nothing changes them. */
static const struct {
	const char *name, *why;
} fixed[] = {
	{ "network", "is changed by PUT /v1/sessions/{session}/network" },
	{ "ports", "are changed by POST /v1/sessions/{session}/ports" },
	{ "limits", "cannot be changed in a session that exists: take a snapshot or fork it" },
	{ "template", NULL },
	{ "level", NULL },
	{ "profile", NULL },
	{ "env", NULL },
	{ "mounts", NULL },
	{ "volumes", NULL },
	{ "secrets", NULL },
	{ "rules", NULL },
	{ "storage", NULL },
	{ "root", NULL },
	{ "persist", NULL },
	{ "keep", NULL },
	{ "keep_diff", NULL },
	{ "mcp", NULL },
};

/* Only the first one is named. */
static void refuse_fixed(struct json_members *m)
{
	for (size_t i = 0; i < COUNT(fixed); i++)
		if (json_members_take(m, fixed[i].name) != NULL && !m->failed)
			(void)json_members_fail(m, fixed[i].name,
						fixed[i].why != NULL
							? fixed[i].why
							: "cannot be changed in a session that "
							  "exists");
}

/* -1: the member is absent and nothing changes. Otherwise its place in actions. */
static void read_action(struct json_members *m, const char *name, int *ret)
{
	static const char *const actions[] = { "kill", "pause", "pause_files" };
	bool given = json_object_get(m->object, name) != NULL;
	unsigned action = 0;

	json_members_choice(m, name, actions, COUNT(actions), &action);
	*ret = given ? (int)action : -1;
}

/* *ret_metadata is the caller's to free, also on failure. */
static int read_change(json_t *root, struct session_change *ret, char **ret_metadata, struct err *e)
{
	struct json_members m;
	bool any;

	json_members_begin(&m, root, "", e);
	any = json_object_size(root) > 0;
	if (json_object_get(root, "metadata") != NULL)
		json_members_string_map(&m, "metadata", SPEC_METADATA_MAX, SPEC_METADATA_TEXT_MAX,
					ret_metadata);
	json_members_time(&m, "timeout", "timeout_ms", &ret->timeout_ms, &ret->timeout_given);
	json_members_time(&m, "idle_timeout", "idle_timeout_ms", &ret->idle_ms, &ret->idle_given);
	read_action(&m, "on_timeout", &ret->on_timeout);
	read_action(&m, "on_idle", &ret->on_idle);
	refuse_fixed(&m);
	ret->metadata = *ret_metadata;
	if (!any && !m.failed)
		(void)json_members_fail(&m, "metadata", "or another member is needed");
	return json_members_end(&m);
}

/* An ended session is refused before the body is parsed. */
static void on_body(struct exchange *x, const uint8_t *body, size_t len)
{
	struct request *r = request_of(x);
	struct session_change change = { 0 };
	OWN_MEM char *metadata = NULL;
	struct err e = { 0 };
	struct session *s = session_live(r->core, r->tenant, r->session_id, &e);
	json_t *root = s == NULL ? NULL : json_members_parse(body, len, &e);

	if (root == NULL || read_change(root, &change, &metadata, &e) < 0 ||
	    session_change(s, &change, request_actor(r), &e) < 0)
		reply_error(r, &e);
	else
		api_sessions_reply(r, 200, s, false);
	json_decref(root);
}

void api_sessions_patch(struct request *r)
{
	request_body(r, on_body);
}
