/* Templates in the store: what is written is read back, and one version of a name is current. */
#include "store_template.h"

#include "store_support.h"

#define TEXT_MAX 1024

static const char env[] = "A=b\0C=d";

static struct store_template a_template(const char *id, const char *tenant, const char *name)
{
	struct store_template row = { .kind = 1,
				      .level = 2,
				      .created_ms = 3,
				      .layers = "one\ntwo",
				      .mounts = "/a\t/b\tro\n",
				      .env = env,
				      .env_len = sizeof(env),
				      .user = "root",
				      .workdir = "/w",
				      .start_command = "start",
				      .source = "ses_9",
				      .ready_command = "ready" };

	(void)snprintf(row.id, sizeof(row.id), "%s", id);
	(void)snprintf(row.tenant, sizeof(row.tenant), "%s", tenant);
	(void)snprintf(row.name, sizeof(row.name), "%s", name);
	return row;
}

/* "name.version" of each, with "*" if it is current. */
static int add_name(const struct store_template *row, void *cookie)
{
	char *text = cookie;
	size_t n = strlen(text);

	(void)snprintf(text + n, TEXT_MAX - n, "%s%s.%llu%s ", row->tenant, row->name,
		       (unsigned long long)row->version, row->current ? "*" : "");
	return 0;
}

static void check_all(struct store *s, const char *want)
{
	char text[TEXT_MAX] = "";
	struct err e;

	MUST(store_template_each(s, add_name, text, &e));
	CHECK_STR(text, want);
}

static void versions(void)
{
	struct store_template row = a_template("tpl_1", "", "x");
	struct store *s = new_store();
	struct err e;

	MUST(store_template_insert(s, &row, &e));
	CHECK(row.version == 1 && row.current);
	check_all(s, "x.1* ");
	row = a_template("tpl_2", "", "x");
	MUST(store_template_insert(s, &row, &e));
	CHECK(row.version == 2);
	row = a_template("tpl_3", "ten_a", "x");
	MUST(store_template_insert(s, &row, &e));
	check_all(s, "x.1 x.2* ten_ax.1* ");
	FAILS(store_template_insert(s, &row, &e), ERR_CONFLICT);
	check_all(s, "x.1 x.2* ten_ax.1* "); /* its name is current as before */
	FAILS(store_template_delete(s, "tpl_2", &e), ERR_NOT_FOUND); /* current */
	MUST(store_template_delete(s, "tpl_1", &e));
	MUST(store_template_retire(s, "tpl_2", &e));
	check_all(s, "x.2 ten_ax.1* ");
	MUST(store_template_delete(s, "tpl_2", &e));
	FAILS(store_template_retire(s, "tpl_2", &e), ERR_NOT_FOUND);
	check_all(s, "ten_ax.1* ");
	end_store(s);
}

static int take(const struct store_template *row, void *cookie)
{
	struct store_template *ret = cookie;
	struct err e;

	*ret = *row;
	MUST(store_template_own(ret, &e));
	return 1;
}

static void every_field(void)
{
	struct store_template row = a_template("tpl_1", "", "x"), got = { 0 };
	struct store *s = new_store();
	struct err e;

	MUST(store_template_insert(s, &row, &e));
	MUST(store_template_each(s, take, &got, &e));
	CHECK_STR(got.id, "tpl_1");
	CHECK_STR(got.tenant, "");
	CHECK_STR(got.name, "x");
	CHECK(got.kind == 1 && got.level == 2 && got.created_ms == 3 && got.version == 1);
	CHECK_STR(got.layers, row.layers);
	CHECK_STR(got.mounts, row.mounts);
	CHECK(got.env_len == sizeof(env) && memcmp(got.env, env, sizeof(env)) == 0);
	CHECK_STR(got.user, "root");
	CHECK_STR(got.workdir, "/w");
	CHECK_STR(got.start_command, "start");
	CHECK_STR(got.ready_command, "ready");
	CHECK_STR(got.source, "ses_9");
	store_template_release(&got);
	end_store(s);
}

TEST_MAIN({ "versions", versions }, { "every field", every_field })
