/* verb_tenant.c - cordon tenant: lists and changes tenants and their quotas; for the operator. */
#include <stdio.h>

#include "columns.h"
#include "compose.h"
#include "member.h"
#include "resource_table.h"
#include "show.h"
#include "show_json.h"
#include "subverb.h"
#include "verbs.h"

struct fields {
	struct args_common common;
	const char *name, *queue_timeout;
	uint64_t max_sessions, create_rate, burst, queue_length;
};

#define ROWS_MAX 10000
#define FIELD(name) offsetof(struct fields, name)

/* clang-format off */
static const struct option options[] = {
	{ "name", "TEXT", OPTION_TEXT, FIELD(name), 0, 0, "set: another name" },
	{ "max-sessions", "COUNT", OPTION_COUNT, FIELD(max_sessions), 1, INT32_MAX,
	  "sessions at a time" },
	{ "create-rate", "COUNT", OPTION_COUNT, FIELD(create_rate), 1, INT32_MAX,
	  "sessions created per second, on average" },
	{ "burst", "COUNT", OPTION_COUNT, FIELD(burst), 1, INT32_MAX,
	  "sessions created at once" },
	{ "queue-length", "COUNT", OPTION_COUNT, FIELD(queue_length), 1, INT32_MAX,
	  "requests that may wait until a session can be created" },
	{ "queue-timeout", "TIME", OPTION_TEXT, FIELD(queue_timeout), 0, 0,
	  "how long such a request may wait" },
	ARGS_COMMON(struct fields),
};
/* clang-format on */

#define PATH "/v1/tenants"

/* 0: the server's setting holds. */
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

static int list(const void *fields, struct api_call *a, const char *unused, struct err *e)
{
	const struct fields *f = fields;
	OWN_JSON *items = NULL;
	OWN_JSON *page = NULL;
	struct target t;

	(void)unused;
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
	target_init(&t, PATH);
	if (id != NULL)
		target_part(&t, id);
	if (api_call_json(a, id == NULL ? "POST" : "PATCH", &t, body, &tenant, e) < 0)
		return -1;
	resource_table_show(&f->common, tenant, "id");
	return 0;
}

static int create(const void *fields, struct api_call *a, const char *name, struct err *e)
{
	return change_tenant(fields, a, name, NULL, e);
}

static int set(const void *fields, struct api_call *a, const char *id, struct err *e)
{
	const struct fields *f = fields;

	return change_tenant(f, a, f->name, id, e);
}

static int remove_one(const void *fields, struct api_call *a, const char *id, struct err *e)
{
	(void)fields;
	return resource_table_remove(a, PATH, id, e);
}

static const struct subverb subverbs[] = {
	{ "ls", false, list },
	{ "create", true, create },
	{ "set", true, set },
	{ "rm", true, remove_one },
};

static int run(int argc, char **argv)
{
	static struct fields f;

	return subverb_run(&verb_tenant, subverbs, COUNT(subverbs), argc, argv, &f);
}

const struct verb verb_tenant = {
	.name = "tenant",
	.usage = "ls | create NAME [options] | set ID [options] | rm ID",
	.summary = "Lists, creates, changes and removes tenants; for the operator.",
	.text = "rm also ends the tenant's sessions and disables its keys. cordon key create\n"
		"--tenant ID makes a key for it.\n",
	.options = options,
	.noptions = COUNT(options),
	.run = run,
};
