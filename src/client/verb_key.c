/* verb_key.c - cordon key: API keys of the own tenant, or (for the operator) of another. */
#include "compose.h"
#include "member.h"
#include "resource_table.h"
#include "subverb.h"
#include "verbs.h"

struct fields {
	struct args_common common;
	const char *name, *tenant, *expires_in;
	struct option_list scopes;
};

#define FIELD(name) offsetof(struct fields, name)

/* clang-format off */
static const struct option options[] = {
	{ "name", "TEXT", OPTION_TEXT, FIELD(name), 0, 0, "create: name of the key" },
	{ "scope", "NAME", OPTION_LIST, FIELD(scopes), 0, 0,
	  "create: read, sessions or admin; may be repeated (default: sessions)" },
	{ "expires-in", "TIME", OPTION_TEXT, FIELD(expires_in), 0, 0,
	  "create: how long it is valid, such as 30d (default: no limit)" },
	{ "tenant", "ID", OPTION_TEXT, FIELD(tenant), 0, 0,
	  "create: a key for this tenant; for the operator" },
	ARGS_COMMON(struct fields),
};
/* clang-format on */

static const char *const heads[] = { "ID",	"NAME",	   "KEY",      "SCOPES",
				     "CREATED", "EXPIRES", "LAST USED" };
static const char *const names[] = { "id",	   "name",	 "prefix",	"scopes",
				     "created_at", "expires_at", "last_used_at" };
static const struct resource_table keys = { "/v1/keys", "keys", heads, names, COUNT(heads) };

static int list(const void *fields, struct api_call *a, const char *unused, struct err *e)
{
	(void)unused;
	return resource_table_list(fields, a, &keys, e);
}

static int create(const void *fields, struct api_call *a, const char *unused, struct err *e)
{
	const struct fields *f = fields;
	static const char *const usual[] = { "sessions" };
	OWN_JSON *body = json_object();
	OWN_JSON *key = NULL;
	struct target t;

	(void)unused;
	if (compose_text(body, "name", "--name", f->name == NULL ? "cli" : f->name, e) < 0 ||
	    compose_list(body, "scopes", "--scope", f->scopes.n > 0 ? f->scopes.items : usual,
			 f->scopes.n > 0 ? f->scopes.n : 1, e) < 0 ||
	    compose_time_text(body, "expires_in", "--expires-in", f->expires_in, e) < 0)
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

static int remove_one(const void *fields, struct api_call *a, const char *id, struct err *e)
{
	(void)fields;
	return resource_table_remove(a, keys.path, id, e);
}

static const struct subverb subverbs[] = {
	{ "ls", false, list },
	{ "create", false, create },
	{ "rm", true, remove_one },
};

static int run(int argc, char **argv)
{
	static struct fields f;

	return subverb_run(&verb_key, subverbs, COUNT(subverbs), argc, argv, &f);
}

const struct verb verb_key = {
	.name = "key",
	.usage = "ls | create [options] | rm ID",
	.summary = "Lists, creates and revokes API keys of the tenant.",
	.text = "A new key is printed once and never shown again. It can have only scopes of the "
		"key\n"
		"that creates it, and expires with that key at the latest.\n",
	.options = options,
	.noptions = COUNT(options),
	.run = run,
};
