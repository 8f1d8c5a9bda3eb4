/* verb_volume.c - cordon volume: volumes are created, listed, shown and removed. */
#include "cmd/client/resource_table.h"
#include "cmd/client/verbs.h"

/* The fields of create. Volumes are rows of data only: see the table of sub-verbs. */
struct volume_fields {
	struct args_common common;
	uint64_t size;
	const char *expires_in;
};

#define PATH "/v1/volumes"
#define FIELD(name) offsetof(struct volume_fields, name)

/* clang-format off */
static const struct option options[] = {
	{ "size", "SIZE", OPTION_BYTES, FIELD(size), 1, UINT64_MAX / 2,
	  "create: how many bytes it may have, such as 2G (default: the server's)", .member = "size" },
	{ "expires-in", "TIME", OPTION_SPAN, FIELD(expires_in), 0, 0,
	  "create: it is removed after this time, once no session mounts it", .member = "expires_in" },
	ARGS_COMMON(struct volume_fields),
};
/* clang-format on */

static const char *const heads[] = {
	"NAME", "SIZE", "KIND", "SESSIONS", "CREATED", "EXPIRES", "ID"
};
static const char *const names[] = { "name",	   "size",	 "kind", "sessions",
				     "created_at", "expires_at", "id" };
static const struct resource_table volumes = { PATH, "volumes", heads, names, COUNT(heads) };

/* Each row is one request (resource_table.h), and `ls` a table. */
static const struct subverb subverbs[] = {
	{ "ls", .list = &volumes },
	{ "create", true, .method = "POST", .path = PATH, .named = "name", .shown = "name" },
	{ "show", true, .method = "GET", .path = PATH, .shown = "" },
	{ "rm", true, .method = "DELETE", .path = PATH },
};

static int volume_run(int argc, char **argv)
{
	static struct volume_fields f;

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
	.examples = "cordon volume create data --size 10G\n"
		    "cordon create --volume data:/data\n"
		    "cordon volume ls\n",
	.options = options,
	.noptions = COUNT(options),
	.run = volume_run,
};
