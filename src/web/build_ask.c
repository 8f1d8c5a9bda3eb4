/* build_ask.c - see build_ask.h. */
#include "build_ask.h"

#include "reply.h"

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
