/* verb_volume.c - cordon volume: volumes are created, listed, shown and removed. */
#include "compose.h"
#include "member.h"
#include "resource_table.h"
#include "show_json.h"
#include "subverb.h"
#include "verbs.h"

struct fields {
	struct args_common common;
	uint64_t size;
	const char *expires_in;
};

#define FIELD(name) offsetof(struct fields, name)

/* clang-format off */
static const struct option options[] = {
	{ "size", "SIZE", OPTION_BYTES, FIELD(size), 1, UINT64_MAX / 2,
	  "create: how many bytes it may have, such as 2G (default: the server's)" },
	{ "expires-in", "TIME", OPTION_TEXT, FIELD(expires_in), 0, 0,
	  "create: it is removed after this time, once no session mounts it" },
	ARGS_COMMON(struct fields),
};
/* clang-format on */

static const char *const heads[] = {
	"NAME", "SIZE", "KIND", "SESSIONS", "CREATED", "EXPIRES", "ID"
};
static const char *const names[] = { "name",	   "size",	 "kind", "sessions",
				     "created_at", "expires_at", "id" };
static const struct resource_table volumes = { "/v1/volumes", "volumes", heads, names,
					       COUNT(heads) };

static int create(const void *fields, struct api_call *a, const char *name, struct err *e)
{
	const struct fields *f = fields;
	OWN_JSON *body = json_object();
	OWN_JSON *volume = NULL;
	struct target t;

	if (body == NULL || compose_text(body, "name", "the name", name, e) < 0 ||
	    compose_number(body, "size", f->size, e) < 0 ||
	    compose_time_text(body, "expires_in", "--expires-in", f->expires_in, e) < 0)
		return -1;
	target_init(&t, volumes.path);
	if (api_call_json(a, "POST", &t, body, &volume, e) < 0)
		return -1;
	resource_table_show(&f->common, volume, "name");
	return 0;
}

static int show_one(const void *fields, struct api_call *a, const char *name, struct err *e)
{
	OWN_JSON *volume = NULL;
	struct target t;

	(void)fields;
	target_init(&t, volumes.path);
	target_part(&t, name);
	if (api_call_json(a, "GET", &t, NULL, &volume, e) < 0)
		return -1;
	show_json(volume, true, stdout);
	return 0;
}

static int list(const void *fields, struct api_call *a, const char *unused, struct err *e)
{
	(void)unused;
	return resource_table_list(fields, a, &volumes, e);
}

static int remove_one(const void *fields, struct api_call *a, const char *name, struct err *e)
{
	(void)fields;
	return resource_table_remove(a, volumes.path, name, e);
}

static const struct subverb subverbs[] = {
	{ "ls", false, list },
	{ "create", true, create },
	{ "show", true, show_one },
	{ "rm", true, remove_one },
};

static int run(int argc, char **argv)
{
	static struct fields f;

	return subverb_run(&verb_volume, subverbs, COUNT(subverbs), argc, argv, &f);
}

const struct verb verb_volume = {
	.name = "volume",
	.usage = "ls | create NAME [options] | show NAME | rm NAME",
	.summary = "Lists, creates, shows and removes volumes.",
	.text = "A volume is a directory on the server's disk that outlives sessions. Sessions "
		"mount it\n"
		"with --volume NAME:/path[:ro] of cordon create, any number of them at once. rm is "
		"refused\n"
		"while a session mounts it. doc/storage.md describes volumes.\n",
	.options = options,
	.noptions = COUNT(options),
	.run = run,
};
