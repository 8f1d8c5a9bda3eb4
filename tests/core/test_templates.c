/* Templates while the server runs: added by a trial, used by sessions, deleted when none uses them.
 */
#include "bed.h"
#include "core_private.h"
#include "store_template.h"
#include "templates_private.h"
#include "tenant.h"

#include <errno.h>
#include <string.h>

static int outcome; /* of adding: 0 not yet */
static struct err why;

static void on_added(struct completion *c, const struct err *e)
{
	(void)c;
	outcome = e == NULL ? 1 : -1;
	if (e != NULL)
		why = *e;
}

static bool has_ended(void)
{
	return outcome != 0;
}

static struct completion adding = { .on_done = on_added };

static bool is_idle(void)
{
	return bed.core->cells.ending == 0 && bed.core->templates_adding == 0;
}

static int begin(const char *name, const char *layers, struct err *e)
{
	struct store_template row = { .kind = TEMPLATE_LAYERS, .layers = layers, .mounts = "" };
	const struct store_actor who = { 0 };

	(void)snprintf(row.name, sizeof(row.name), "%s", name);
	outcome = 0;
	return templates_add(bed.core, &row, &who, &adding, e);
}

static unsigned spawns; /* before the trial */

static bool is_probed(void)
{
	return outcome != 0 || bed.ordered[AGENT_SPAWN] > spawns;
}

/* What PID 1 answers when a program is to be started as the template's user. */
static void (*on_probe)(void) = bed_started;

static void no_such_user(void)
{
	bed_says(AGENT_FAILED, &(struct agent_event){ .stage = AGENT_AT_USER, .sys = ENOENT });
}

static void no_memory(void)
{
	bed_says(AGENT_FAILED, &(struct agent_event){ .stage = AGENT_AT_SYSTEM, .sys = ENOMEM });
}

static int add(const char *name, const char *layers)
{
	struct err e = { 0 };

	spawns = bed.ordered[AGENT_SPAWN];
	if (begin(name, layers, &e) < 0) {
		why = e;
		return -1;
	}
	bed_until(is_probed);
	if (outcome == 0)
		on_probe();
	bed_until(has_ended);
	bed_until(is_idle); /* the cell of the trial is gone */
	return outcome;
}

/* Versions in the store, without the interpreter, which is always there. */
static int count_one(const struct store_template *row, void *cookie)
{
	*(unsigned *)cookie += strcmp(row->name, TEMPLATES_INTERPRETER) != 0;
	return 0;
}

static unsigned stored(void)
{
	unsigned n = 0;
	struct err e;

	CHECK(store_template_each(core_store(bed.core), count_one, &n, &e) == 0);
	return n;
}

static bool is_only_host(void)
{
	return stored() == 1;
}

static void make_session(const char *template)
{
	bed.template = template;
	bed_session();
	bed.template = NULL;
}

static void a_trial_comes_first(void)
{
	bed_make(30000);
	CHECK(stored() == 1); /* the host */
	CHECK(add("x", "tree") > 0);
	CHECK(bed.asked[KEEPER_CREATE] == 1 && stored() == 2);
	CHECK(bed.created.nlayers == 1 && bed.created.layer_from[0].root == 1);
	CHECK_STR(bed.created.layer_from[0].path, "tree");
	CHECK_STR(bed.created.layer_at[0], "/");
	bed.way[KEEPER_CREATE] = BED_REFUSE;
	CHECK(add("y", "tree") < 0 && strstr(why.msg, "no cell can be made of it") != NULL);
	CHECK(templates_find(bed.core, NULL, "y") == NULL && stored() == 2);
	CHECK(add("x", "other") < 0); /* the version before stays */
	CHECK_STR(template_row(templates_find(bed.core, NULL, "x"))->layers, "tree");
	bed_end();
}

/* However the trial of its user ends, the request ends once, and nothing is added unless it is
 * well. */
static void its_user_is_tried(void)
{
	static const struct {
		void (*answer)(void);
		enum err_code code;
		const char *part;
	} cases[] = { { no_such_user, ERR_INVALID, "no user named 'user'" },
		      { no_memory, ERR_SYSTEM, "no program can be started" },
		      { bed_pid1_dies, ERR_SYSTEM, "ended by itself" } };

	bed_make(30000);
	for (size_t i = 0; i < COUNT(cases); i++) {
		on_probe = cases[i].answer;
		CHECK(add("x", "tree") < 0 && why.code == cases[i].code);
		CHECK(strstr(why.msg, cases[i].part) != NULL && stored() == 1);
	}
	on_probe = bed_started;
	CHECK(add("x", "tree") > 0 && stored() == 2);
	bed_end();
}

static void only_entries_of_the_directory(void)
{
	static const char *const bad[] = {
		"", "..", ".", "a/b", "/a", "../a", ".a", "a\x01", "a/"
	};

	bed_make(30000);
	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK(add("x", bad[i]) < 0 && why.code == ERR_INVALID);
	CHECK(add("x", "a\nb") < 0 && why.code == ERR_UNSUPPORTED);
	CHECK(add("host", "a") < 0 && why.code == ERR_CONFLICT);
	CHECK(bed.asked[KEEPER_CREATE] == 0 && stored() == 1);
	bed_end();
}

static void a_version_lives_as_long_as_its_sessions(void)
{
	const struct store_actor who = { 0 };
	struct err e;

	bed_make(30000);
	CHECK(add("x", "one") > 0);
	CHECK(add("x", "two") > 0);
	CHECK(stored() == 2); /* the host, and the second: no session used the first */
	CHECK(template_row(templates_find(bed.core, NULL, "x"))->version == 2);
	make_session("x");
	CHECK_STR(bed.created.layer_from[0].path, "two");
	CHECK(templates_remove(bed.core, templates_find(bed.core, NULL, "x"), &who, &e) == 0);
	CHECK(templates_find(bed.core, NULL, "x") == NULL && stored() == 2);
	CHECK_STR(session_template(bed.session)->name, "x");
	bed_delete();
	bed_until(is_only_host); /* a second later at most */
	CHECK(templates_find(bed.core, NULL, "x") == NULL);
	CHECK(templates_remove(bed.core, templates_find(bed.core, NULL, "host"), &who, &e) < 0 &&
	      e.code == ERR_CONFLICT);
	bed_end();
}

static void a_few_at_a_time(void)
{
	struct err e = { 0 };

	bed_make(30000);
	bed.way[KEEPER_CREATE] = BED_HOLD;
	for (unsigned i = 0; i < TEMPLATES_ADDING_MAX; i++) {
		CHECK(begin("x", "tree", &e) == 0);
		completion_cancel(&adding); /* its client has left: it goes on */
	}
	CHECK(begin("x", "tree", &e) < 0 && e.code == ERR_LIMIT);
	bed_keeper_dies();
	bed.way[KEEPER_CREATE] = BED_REFUSE;
	bed_keeper();
	bed_turn(50);
	CHECK(add("x", "tree") < 0 && why.code != ERR_NONE);
	bed_until(is_idle);
	CHECK(stored() == 1);
	bed_end();
}

static struct template_version *insert(const char *tenant, const char *name, const char *tag,
				       const char *entry)
{
	struct store_template row = { .kind = TEMPLATE_LAYERS, .layers = entry };
	const struct store_actor who = { 0 };
	struct template_version *v;
	struct err e;

	(void)snprintf(row.tenant, sizeof(row.tenant), "%s", tenant);
	(void)snprintf(row.name, sizeof(row.name), "%s", name);
	v = templates_insert(bed.core, &row, &tag, 1, NULL, &who, &e);
	CHECK(v != NULL);
	return v;
}

static const char *entry_of(const struct tenant *t, const char *name)
{
	const struct template_version *v = templates_find(bed.core, t, name);

	return v == NULL ? "none" : template_row(v)->layers;
}

static void tags_name_versions(void)
{
	const struct store_actor who = { 0 };
	const char *const move[] = { "v1" }, *const bad[] = { "a b" };
	struct template_version *two;
	struct err e;

	bed_make(30000);
	(void)insert("", "x", "v1", "one");
	two = insert("", "x", "default", "two");
	CHECK_STR(entry_of(NULL, "x"), "two");
	CHECK_STR(entry_of(NULL, "X:V1"), "one");
	CHECK_STR(entry_of(NULL, "x:default"), "two");
	CHECK_STR(entry_of(NULL, "x:v2"), "none");
	CHECK_STR(entry_of(NULL, template_row(two)->template_id), "two");
	CHECK(stored() == 3); /* the host, and both: one has a tag, one is current */
	CHECK(templates_tag(bed.core, two, bad, 1, &who, &e) < 0 && e.code == ERR_INVALID);
	CHECK(templates_tag(bed.core, two, move, 1, &who, &e) == 0);
	CHECK_STR(entry_of(NULL, "x:v1"), "two");
	CHECK(stored() == 2); /* nothing names the first any more */
	CHECK(templates_untag(bed.core, two, "default", &who, &e) < 0);
	CHECK(templates_untag(bed.core, two, "v1", &who, &e) == 0);
	CHECK_STR(entry_of(NULL, "x:v1"), "none");
	CHECK(templates_remove(bed.core, two, &who, &e) == 0 && stored() == 1);
	bed_end();
}

static void tenants_have_their_own(void)
{
	struct tenant *own, other = { 0 };
	struct template_version *v;
	struct err e;
	char path[2 * STORE_NAME_MAX];

	bed_make(30000);
	own = tenant_find(bed.core, tenant_operator(bed.core)->row.id);
	(void)snprintf(other.row.id, sizeof(other.row.id), "ten_other");
	v = insert(own->row.id, "x", "default", "mine");
	CHECK_STR(entry_of(own, "x"), "mine");
	CHECK_STR(entry_of(&other, "x"), "none");
	CHECK_STR(entry_of(&other, template_row(v)->template_id), "none");
	CHECK(!template_is_own(bed.core, v, &other) && template_is_own(bed.core, v, own));
	CHECK(templates_set_public(bed.core, v, true, &e) == 0);
	CHECK_STR(entry_of(&other, "x"), "none"); /* a bare name is one's own */
	CHECK_STR(entry_of(&other, template_row(v)->template_id), "mine");
	(void)snprintf(path, sizeof(path), "%s/x", own->row.id);
	CHECK_STR(entry_of(&other, path), "mine");
	(void)insert("", "x", "default", "everybody");
	CHECK_STR(entry_of(&other, "x"), "everybody");
	CHECK_STR(entry_of(own, "x"), "mine");
	bed_end();
}

/* A tenant with a row of its own. */
static struct tenant *a_tenant(const char *name)
{
	const struct store_actor who = { 0 };
	struct store_tenant row = { 0 };
	struct err e;

	(void)snprintf(row.name, sizeof(row.name), "%s", name);
	CHECK(tenant_create(bed.core, &row, &who, &e) == 0);
	return tenant_find(bed.core, row.id);
}

static struct template_version *try(const struct tenant *t, const char *name, const char *env,
				    size_t env_len, struct err *e)
{
	struct store_template row = {
		.kind = TEMPLATE_LAYERS, .layers = "tree", .env = env, .env_len = env_len
	};
	const struct store_actor who = { 0 };
	const char *tag = "default";

	(void)snprintf(row.tenant, sizeof(row.tenant), "%s", t->row.id);
	(void)snprintf(row.name, sizeof(row.name), "%s", name);
	return templates_insert(bed.core, &row, &tag, 1, NULL, &who, e);
}

/* A build or a pull may end after its tenant was removed, and before the piece of work that ends
 * builds. */
static void a_removed_tenant_gets_no_version(void)
{
	const struct store_actor who = { 0 };
	struct tenant *t;
	struct err e = { 0 };

	bed_make(30000);
	t = a_tenant("gone");
	CHECK(try(t, "before", "", 0, &e) != NULL);
	CHECK(tenant_remove(bed.core, t, &who, &e) == 0);
	CHECK(try(t, "after", "", 0, &e) == NULL && e.code == ERR_CONFLICT);
	bed_until(is_only_host);
	bed_end();
}

static void tags_are_counted_for_new_versions_too(void)
{
	const struct store_actor who = { 0 };
	const char *const more[] = { "one-more" }, *const known[] = { "t0" };
	struct template_version *v = NULL;
	struct store_template row = { .kind = TEMPLATE_LAYERS, .layers = "tree", .name = "x" };
	struct err e = { 0 };
	char tag[16];

	bed_make(30000);
	for (unsigned i = 0; i < TEMPLATES_TAGS_MAX; i++) {
		(void)snprintf(tag, sizeof(tag), "t%u", i);
		v = insert("", "x", tag, "tree");
	}
	CHECK(templates_insert(bed.core, &row, more, 1, NULL, &who, &e) == NULL);
	CHECK(e.reason == REASON_QUOTA_TEMPLATES);
	CHECK(templates_tag(bed.core, v, more, 1, &who, &e) < 0);
	CHECK(templates_tag(bed.core, v, known, 1, &who, &e) == 0); /* it moves */
	CHECK(templates_insert(bed.core, &row, known, 1, NULL, &who, &e) != NULL);
	bed_end();
}

/* The bound of all does not keep out a tenant that has few, and texts have a bound of their own. */
static void tenants_have_shares(void)
{
	static char env[256 << 10];
	char name[16];
	struct tenant *t;
	struct err e = { 0 };
	unsigned n = 0;

	bed_make(30000);
	for (unsigned i = 0; i < TEMPLATES_MAX / TEMPLATES_TENANT_MAX; i++) {
		(void)snprintf(name, sizeof(name), "many%u", i);
		t = a_tenant(name);
		for (unsigned k = 0; k < TEMPLATES_TENANT_MAX; k++) {
			(void)snprintf(name, sizeof(name), "x%u", k);
			n += try(t, name, "", 0, &e) != NULL;
		}
	}
	CHECK(n > TEMPLATES_MAX - 64 && e.reason == REASON_QUOTA_TEMPLATES);
	t = a_tenant("few");
	for (unsigned k = 0; k < TEMPLATES_SHARE; k++) {
		(void)snprintf(name, sizeof(name), "y%u", k);
		CHECK(try(t, name, "", 0, &e) != NULL);
	}
	CHECK(try(t, "z", "", 0, &e) == NULL && e.reason == REASON_QUOTA_TEMPLATES);
	bed_end();
	bed_make(30000);
	t = a_tenant("wordy");
	memset(env, 'e', sizeof(env) - 1);
	for (n = 0; n < 2 * TEMPLATES_TENANT_BYTES / sizeof(env); n++) {
		(void)snprintf(name, sizeof(name), "x%u", n);
		if (try(t, name, env, sizeof(env), &e) == NULL)
			break;
	}
	CHECK(n == TEMPLATES_TENANT_BYTES / sizeof(env) - 1 && e.reason == REASON_QUOTA_TEMPLATES);
	bed_end();
}

static unsigned pools_of(const struct template_version *v)
{
	unsigned n = 0;

	for (unsigned i = 0; i < CELL_LEVELS; i++)
		n += v->pools[i] != NULL;
	return n;
}

/* So what is done once a second for each pool is not done for each template. */
static void a_pool_comes_with_the_first_use(void)
{
	struct template_version *v;

	bed_make(30000);
	CHECK(pools_of(templates_find(bed.core, NULL, "host")) == 1);
	v = insert("", "x", "default", "tree");
	CHECK(pools_of(v) == 0);
	make_session("x");
	CHECK(pools_of(v) == 1);
	bed_delete();
	bed_end();
}

TEST_MAIN({ "a removed tenant gets no version", a_removed_tenant_gets_no_version },
	  { "tags are counted for new versions, too", tags_are_counted_for_new_versions_too },
	  { "tenants have shares", tenants_have_shares },
	  { "a pool comes with the first use", a_pool_comes_with_the_first_use },
	  { "a trial comes first", a_trial_comes_first },
	  { "its user is tried", its_user_is_tried },
	  { "only entries of the directory", only_entries_of_the_directory },
	  { "a version lives as long as its sessions", a_version_lives_as_long_as_its_sessions },
	  { "a few at a time", a_few_at_a_time }, { "tags name versions", tags_name_versions },
	  { "tenants have their own", tenants_have_their_own })
