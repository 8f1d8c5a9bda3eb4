/* verb_admin.c - API keys and tenants. */
#include <string.h>

#include "compose.h"
#include "member.h"
#include "resource_table.h"
#include "verbs.h"

struct fields {
	struct args_common common;
	const char *name, *tenant, *expires_in, *queue_timeout;
	struct option_list scopes;
	uint64_t max_sessions, create_rate, burst, queue_length;
};

#define FIELD(name) offsetof(struct fields, name)

/* clang-format off */
static const struct option key_options[] = {
	{ "name", "TEXT", OPTION_TEXT, FIELD(name), 0, 0, "create: what to call the key" },
	{ "scope", "NAME", OPTION_LIST, FIELD(scopes), 0, 0,
	  "create: read, sessions or admin; may be given again (default: sessions)" },
	{ "expires-in", "TIME", OPTION_TEXT, FIELD(expires_in), 0, 0,
	  "create: how long it is good, such as 30d (default: for ever)" },
	{ "tenant", "ID", OPTION_TEXT, FIELD(tenant), 0, 0,
	  "create: a key for this tenant; for the operator" },
	ARGS_COMMON(struct fields),
};

static const struct option tenant_options[] = {
	{ "name", "TEXT", OPTION_TEXT, FIELD(name), 0, 0, "set: another name" },
	{ "max-sessions", "COUNT", OPTION_COUNT, FIELD(max_sessions), 1, INT32_MAX,
	  "sessions at a time" },
	{ "create-rate", "COUNT", OPTION_COUNT, FIELD(create_rate), 1, INT32_MAX,
	  "sessions made in a second, in the long run" },
	{ "burst", "COUNT", OPTION_COUNT, FIELD(burst), 1, INT32_MAX,
	  "sessions made at once" },
	{ "queue-length", "COUNT", OPTION_COUNT, FIELD(queue_length), 1, INT32_MAX,
	  "requests that may wait for room" },
	{ "queue-timeout", "TIME", OPTION_TEXT, FIELD(queue_timeout), 0, 0,
	  "how long each may wait" },
	ARGS_COMMON(struct fields),
};
/* clang-format on */

static int create_key(const struct fields *f, struct api_call *a, struct err *e)
{
	static const char *const usual[] = { "sessions" };
	OWN_JSON *body = json_object();
	OWN_JSON *key = NULL;
	struct target t;

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

static int run_key(int argc, char **argv)
{
	static const char *const heads[] = { "ID",	"NAME",	   "KEY",      "SCOPES",
					     "CREATED", "EXPIRES", "LAST USED" };
	static const char *const names[] = { "id",	   "name",	 "prefix",	"scopes",
					     "created_at", "expires_at", "last_used_at" };
	static const struct resource_table keys = { "/v1/keys", "keys", heads, names,
						    COUNT(heads) };
	static struct fields f;
	static struct args_words words;
	OWN_ASK a = { 0 };
	struct err e = { 0 };
	int code = args_read(&verb_key, argc, argv, &f, &words, 1, 2), result;
	const char *what = words.at[0];

	if (code != ARGS_GO)
		return code;
	if (api_call_open(&a, &f.common, API_CALL_PATIENCE_MS, &e) < 0)
		return args_fail(&e);
	if (strcmp(what, "ls") == 0 && words.n == 1)
		result = resource_table_list(&f.common, &a, &keys, &e);
	else if (strcmp(what, "create") == 0 && words.n == 1)
		result = create_key(&f, &a, &e);
	else if (strcmp(what, "rm") == 0 && words.n == 2)
		result = resource_table_remove(&a, "/v1/keys", words.at[1], &e);
	else
		return args_wrong(&verb_key, "it is cordon key ls, create or rm ID");
	return result < 0 ? args_fail(&e) : ARGS_OK;
}

const struct verb verb_key = {
	.name = "key",
	.usage = "ls | create [options] | rm ID",
	.summary = "Lists, makes and revokes API keys of the own tenant.",
	.text = "A new key is printed once and never shown again.\n",
	.options = key_options,
	.noptions = COUNT(key_options),
	.run = run_key,
};

static int change_tenant(const struct fields *f, struct api_call *a, const char *name,
			 const char *id, struct err *e)
{
	OWN_JSON *body = json_object();
	OWN_JSON *tenant = NULL;
	struct target t;

	if (compose_text(body, "name", "the name", name, e) < 0 ||
	    compose_number(body, "max_sessions", f->max_sessions, e) < 0 ||
	    compose_number(body, "create_rate", f->create_rate, e) < 0 ||
	    compose_number(body, "burst", f->burst, e) < 0 ||
	    compose_number(body, "queue_length", f->queue_length, e) < 0 ||
	    compose_time_text(body, "queue_timeout", "--queue-timeout", f->queue_timeout, e) < 0)
		return -1;
	target_init(&t, "/v1/tenants");
	if (id != NULL)
		target_part(&t, id);
	if (api_call_json(a, id == NULL ? "POST" : "PATCH", &t, body, &tenant, e) < 0)
		return -1;
	resource_table_show(&f->common, tenant, "id");
	return 0;
}

static int run_tenant(int argc, char **argv)
{
	static const char *const heads[] = { "ID",    "NAME",  "SESSIONS AT MOST", "RATE/1000",
					     "BURST", "QUEUE", "CREATED" };
	static const char *const names[] = { "id",	     "name",
					     "max_sessions", "create_rate_millis",
					     "burst",	     "queue_length",
					     "created_at" };
	static const struct resource_table tenants = { "/v1/tenants", "tenants", heads, names,
						       COUNT(heads) };
	static struct fields f;
	static struct args_words words;
	OWN_ASK a = { 0 };
	struct err e = { 0 };
	int code = args_read(&verb_tenant, argc, argv, &f, &words, 1, 2), result;
	const char *what = words.at[0];

	if (code != ARGS_GO)
		return code;
	if (api_call_open(&a, &f.common, API_CALL_PATIENCE_MS, &e) < 0)
		return args_fail(&e);
	if (strcmp(what, "ls") == 0 && words.n == 1)
		result = resource_table_list(&f.common, &a, &tenants, &e);
	else if (strcmp(what, "create") == 0 && words.n == 2)
		result = change_tenant(&f, &a, words.at[1], NULL, &e);
	else if (strcmp(what, "set") == 0 && words.n == 2)
		result = change_tenant(&f, &a, f.name, words.at[1], &e);
	else if (strcmp(what, "rm") == 0 && words.n == 2)
		result = resource_table_remove(&a, "/v1/tenants", words.at[1], &e);
	else
		return args_wrong(&verb_tenant,
				  "it is cordon tenant ls, create NAME, set ID or rm ID");
	return result < 0 ? args_fail(&e) : ARGS_OK;
}

const struct verb verb_tenant = {
	.name = "tenant",
	.usage = "ls | create NAME [options] | set ID [options] | rm ID",
	.summary = "Lists, makes, changes and removes tenants; for the operator.",
	.text = "rm also ends the tenant's sessions and disables its keys. cordon key create\n"
		"--tenant ID makes a key for it.\n",
	.options = tenant_options,
	.noptions = COUNT(tenant_options),
	.run = run_tenant,
};
