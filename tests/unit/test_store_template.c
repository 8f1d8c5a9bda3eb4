/* Templates in the store: what is written is read back, and one version of a name is current. */
#include "daemon/store/store_template.h"

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
				      .ready_command = "ready",
				      .public = true,
				      .bytes = 77,
				      .provenance = "image\tx\n",
				      .offered_command = "[\"sh\"]",
				      .cpu_millis = 1500,
				      .memory_bytes = 1 << 20 };

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
	CHECK_STR(got.template_id, row.template_id);
	CHECK(strlen(got.template_id) == STORE_TEMPLATE_ID_MAX - 1);
	CHECK(got.public && got.bytes == 77 && got.cpu_millis == 1500);
	CHECK(got.memory_bytes == 1 << 20);
	CHECK_STR(got.provenance, "image\tx\n");
	CHECK_STR(got.offered_command, "[\"sh\"]");
	store_template_release(&got);
	end_store(s);
}

static int add_tag(const struct store_template_tag *row, void *cookie)
{
	char *text = cookie;
	size_t n = strlen(text);

	(void)snprintf(text + n, TEXT_MAX - n, "%s=%s ", row->tag, row->version);
	return 0;
}

static void check_tags(struct store *s, const char *want)
{
	char text[TEXT_MAX] = "";
	struct err e;

	MUST(store_template_tag_each(s, add_tag, text, &e));
	CHECK_STR(text, want);
}

static void tags_keep_versions(void)
{
	static const char *const first[] = { "v1", "default" }, *const second[] = { "v2", "v1" };
	struct store_template one = a_template("tpl_1", "", "x"),
			      two = a_template("tpl_2", "", "x");
	struct store_template other = a_template("tpl_3", "ten_a", "x");
	struct store *s = new_store();
	struct err e;

	MUST(store_template_insert_tagged(s, &one, first, 2, &e));
	MUST(store_template_insert_tagged(s, &two, second, 2, &e));
	MUST(store_template_insert(s, &other, &e));
	CHECK_STR(one.template_id, two.template_id);
	CHECK(strcmp(one.template_id, other.template_id) != 0);
	check_all(s, "x.1* x.2 ten_ax.1* ");
	check_tags(s, "v1=tpl_2 v2=tpl_2 ");
	FAILS(store_template_delete(s, "tpl_2", &e), ERR_NOT_FOUND); /* it has tags */
	MUST(store_template_make_current(s, &two, &e));
	check_all(s, "x.1 x.2* ten_ax.1* ");
	MUST(store_template_delete(s, "tpl_1", &e));
	MUST(store_template_tag_delete(s, two.template_id, "v1", &e));
	FAILS(store_template_tag_delete(s, two.template_id, "v1", &e), ERR_NOT_FOUND);
	MUST(store_template_tag_clear(s, two.template_id, &e));
	check_tags(s, "");
	end_store(s);
}

TEST_MAIN({ "versions", versions }, { "every field", every_field },
	  { "tags keep versions", tags_keep_versions })
