/* verb_tenant.c - cordon tenant: lists and changes tenants and their quotas, for the operator. */
#include <stdio.h>

#include "cmd/client/columns.h"
#include "cmd/client/member.h"
#include "cmd/client/resource_table.h"
#include "cmd/client/show.h"
#include "cmd/client/show_json.h"
#include "cmd/client/verbs.h"

/* Quotas of 0 are not given, and the server's setting holds for them. */
struct tenant_fields {
	struct args_common common;
	const char *name, *queue_timeout, *captured_secrets, *allow;
	uint64_t max_sessions, create_rate, burst, queue_length;
	struct option_list redact;
};

#define ROWS_MAX 10000
#define FIELD(name) offsetof(struct tenant_fields, name)

/* clang-format off */
static const struct option options[] = {
	{ "name", "TEXT", OPTION_TEXT, FIELD(name), 0, 0, "set: another name", .member = "name" },
	{ "max-sessions", "COUNT", OPTION_COUNT, FIELD(max_sessions), 1, INT32_MAX,
	  "sessions at a time", .member = "max_sessions" },
	{ "create-rate", "COUNT", OPTION_COUNT, FIELD(create_rate), 1, INT32_MAX,
	  "sessions created per second, on average", .member = "create_rate" },
	{ "burst", "COUNT", OPTION_COUNT, FIELD(burst), 1, INT32_MAX,
	  "sessions created at once", .member = "burst" },
	{ "queue-length", "COUNT", OPTION_COUNT, FIELD(queue_length), 1, INT32_MAX,
	  "requests that may wait until a session can be created", .member = "queue_length" },
	{ "queue-timeout", "TIME", OPTION_SPAN, FIELD(queue_timeout), 0, 0,
	  "how long such a request may wait", .member = "queue_timeout" },
	{ "captured-secrets", "WHAT", OPTION_TEXT, FIELD(captured_secrets), 0, 0,
	  "copies of its files with values of secrets: refuse, name, allow, or default",
	  .member = "captured_secrets",
	  .values = "default refuse name allow" },
	{ "allow", "FILE", OPTION_JSON, FIELD(allow), 0, 0,
	  "what its sessions may have at most, JSON: {\"memory\": \"2G\"}; {}: everything", .member = "allow" },
	{ "redact", "NAME", OPTION_LIST, FIELD(redact), 0, 0,
	  "covers in its sessions: email, phone, card, iban, ip, token, pattern:X (doc/secrets.md)",
	  .member = "redact" },
	ARGS_COMMON(struct tenant_fields),
};
/* clang-format on */

#define PATH "/v1/tenants"

/* 0: the server's setting holds. Rates are kept in thousandths. */
static void add_quota(struct columns *t, const json_t *tenant, const char *name, double unit)
{
	uint64_t n = member_number(tenant, name, 0);

	if (n == 0)
		columns_add(t, "default");
	else
		columns_add(t, "%.9g", (double)n / unit);
}

static void print_tenants(const json_t *items)
{
	static const char *const heads[] = { "ID",    "NAME",  "MAX SESSIONS", "CREATES/S",
					     "BURST", "QUEUE", "AGE" };
	OWN_COLUMNS t;

	columns_init(&t, heads, COUNT(heads));
	for (size_t i = 0; i < json_array_size(items); i++) {
		const json_t *x = json_array_get(items, i);
		int64_t created = member_time(x, "created_at");
		char age[16];

		show_span(created < 0 ? -1 : show_now_ms() - created, age, sizeof(age));
		columns_add(&t, "%s", member_text(x, "id", "?"));
		columns_add(&t, "%s", member_text(x, "name", "?"));
		add_quota(&t, x, "max_sessions", 1);
		add_quota(&t, x, "create_rate_millis", 1000);
		add_quota(&t, x, "burst", 1);
		add_quota(&t, x, "queue_length", 1);
		columns_add(&t, "%s", age);
	}
	columns_print(&t, SIZE_MAX, 0, stdout);
}

/* A table of its own, because quotas need a unit and a word for the default. */
static int verb_tenant_list(const void *fields, struct api_call *a, const char *unused,
			    struct err *e)
{
	const struct tenant_fields *f = fields;
	OWN_JSON *items = NULL;
	OWN_JSON *page = NULL;
	struct target t;

	target_init(&t, PATH);
	if (api_call_pages(a, &t, "tenants", NULL, ROWS_MAX, &items, e) < 0)
		return -1;
	if (!f->common.json) {
		print_tenants(items);
		return 0;
	}
	page = json_pack("{s:O}", "tenants", items);
	if (page == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	show_json(page, true, stdout);
	return 0;
}

/* A row without a function is one request (resource_table.h). "set" sends only the given
 * members. */
static const struct subverb subverbs[] = {
	{ "ls", false, verb_tenant_list },
	{ "create", true, .method = "POST", .path = PATH, .named = "name", .shown = "id" },
	{ "set", true, .method = "PATCH", .path = PATH, .shown = "id" },
	{ "rm", true, .method = "DELETE", .path = PATH },
};

static int verb_tenant_run(int argc, char **argv)
{
	static struct tenant_fields f;

	return subverb_run(&verb_tenant, subverbs, COUNT(subverbs), argc, argv, &f);
}

const struct verb verb_tenant = {
	.name = "tenant",
	.usage = "ls | create NAME [options] | set ID [options] | rm ID",
	.summary = "Lists, creates, changes and removes tenants; for the operator.",
	.text = "rm also ends the tenant's sessions and disables its keys. cordon key create\n"
		"--tenant ID makes a key for it. doc/tenants.md lists the members of --allow.\n",
	.examples = "cordon tenant create team --max-sessions 20\n"
		    "cordon key create --tenant ID --scope sessions\n"
		    "cordon tenant set ID --create-rate 5\n"
		    "cordon tenant set ID --redact email --redact card\n",
	.options = options,
	.noptions = COUNT(options),
	.run = verb_tenant_run,
};
