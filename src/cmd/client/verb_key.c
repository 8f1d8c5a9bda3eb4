/* verb_key.c - cordon key: API keys of the own tenant, or (for the operator) of another. */
#include "cmd/client/compose.h"
#include "cmd/client/member.h"
#include "cmd/client/resource_table.h"
#include "cmd/client/verbs.h"

struct key_fields {
	struct args_common common;
	const char *name, *tenant, *expires_in, *allow;
	struct option_list scopes;
};

/* One row for each option. Rows with a member are put into the body by compose_options(). */
#define FIELD(name) offsetof(struct key_fields, name)

/* clang-format off */
static const struct option options[] = {
	{ "name", "TEXT", OPTION_TEXT, FIELD(name), 0, 0, "create: name of the key", .member = "name" },
	{ "scope", "NAME", OPTION_LIST, FIELD(scopes), 0, 0,
	  "create: read, sessions, admin or audit; may be repeated (default: sessions)", .member = "scopes", .values = "read sessions admin audit" },
	{ "expires-in", "TIME", OPTION_SPAN, FIELD(expires_in), 0, 0,
	  "create: how long it is valid, such as 30d (default: no limit)", .member = "expires_in" },
	{ "allow", "FILE", OPTION_JSON, FIELD(allow), 0, 0,
	  "create: what its sessions may have at most, JSON: {\"memory\": \"512M\"}",
	  .member = "allow" },
	{ "tenant", "ID", OPTION_TEXT, FIELD(tenant), 0, 0,
	  "create: a key for this tenant; for the operator" },
	ARGS_COMMON(struct key_fields),
};
/* clang-format on */

static const char *const heads[] = { "ID",	"NAME",	   "KEY",      "SCOPES",
				     "CREATED", "EXPIRES", "LAST USED" };
static const char *const names[] = { "id",	   "name",	 "prefix",	"scopes",
				     "created_at", "expires_at", "last_used_at" };
static const struct resource_table keys = { "/v1/keys", "keys", heads, names, COUNT(heads) };

/* Defaults first, then options: a member that is given replaces its default. The key itself is
 * in this answer only. */
static int key_create(const void *fields, struct api_call *a, const char *unused, struct err *e)
{
	const struct key_fields *f = fields;
	OWN_JSON *body = json_pack("{s:s, s:[s]}", "name", "cli", "scopes", "sessions");
	OWN_JSON *key = NULL;
	struct target t;

	if (body == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	if (compose_options(body, options, COUNT(options), f, e) < 0)
		return -1;
	target_init(&t, f->tenant == NULL ? "/v1/keys" : "/v1/tenants");
	if (f->tenant != NULL) {
		target_part(&t, f->tenant);
		target_part(&t, "keys");
	}
	if (api_call_json(a, "POST", &t, body, &key, e) < 0)
		return -1;
	resource_table_show(&f->common, key, "key");
	return 0;
}

static const struct subverb subverbs[] = {
	{ "ls", .list = &keys },
	{ "create", false, key_create },
	{ "rm", true, .method = "DELETE", .path = "/v1/keys" },
};

static int key_run(int argc, char **argv)
{
	static struct key_fields f;

	return subverb_run(&verb_key, subverbs, COUNT(subverbs), argc, argv, &f);
}

const struct verb verb_key = {
	.name = "key",
	.usage = "ls | create [options] | rm ID",
	.summary = "Lists, creates and revokes API keys of the tenant.",
	.text = "A new key is printed once and never shown again. It can have only scopes of the "
		"key\n"
		"that creates it, and expires with that key at the latest. doc/tenants.md lists "
		"the members of --allow.\n",
	.examples = "cordon key create --name agent --scope sessions --expires-in 30d\n"
		    "echo '{\"memory\": \"512M\", \"sessions\": 3}' | cordon key create --allow -\n"
		    "cordon key ls\n",
	.options = options,
	.noptions = COUNT(options),
	.run = key_run,
};
