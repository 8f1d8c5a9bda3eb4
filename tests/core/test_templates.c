/* Templates while the server runs: added by a trial, used by sessions, deleted when none uses them.
 */
#include "bed.h"
#include "daemon/node/core.h"
#include "daemon/node/core_metrics.h"
#include "daemon/session/session.h"
#include "daemon/template/templates.h"
#include "daemon/node/core_private.h"
#include "daemon/store/store_template.h"
#include "daemon/template/templates_private.h"
#include "daemon/tenant/tenant.h"

#include <errno.h>
#include <string.h>
#include <time.h>

static int outcome; /* of adding: 0 not yet */
static struct err why;

static void on_added(struct completion *c, const struct err *e)
{
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
	const struct store_actor who = { 0 };
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
	CHECK(templates_set_public(bed.core, v, true, &who, &e) == 0);
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

/* Four tenants with as many versions as there may be, and tags of each. */
#define VERSIONS_EACH 1000
#define TAGS_EACH 32

static void write_tags(const struct template_version *v)
{
	struct store_template_tag row = { .created_ms = 1 };
	struct err e;

	memcpy(row.template_id, v->row.template_id, sizeof(row.template_id));
	memcpy(row.version, v->row.id, sizeof(row.version));
	for (unsigned i = 0; i < TAGS_EACH; i++) {
		(void)snprintf(row.tag, sizeof(row.tag), "t%u", i);
		CHECK(store_template_tag_set(bed.core->store, &row, &e) == 0);
	}
}

/* The time of a start follows their number, not its square. */
static void many_tags_are_read_in_a_moment(void)
{
	struct template_version *v;
	char name[16];
	struct err e;
	clock_t began;
	unsigned n = 0;

	bed_make(30000);
	for (unsigned i = 0; i < 4; i++) {
		(void)snprintf(name, sizeof(name), "tags%u", i);
		const struct tenant *t = a_tenant(name);

		for (unsigned k = 0; k < VERSIONS_EACH; k++) {
			(void)snprintf(name, sizeof(name), "x%u", k);
			CHECK(try(t, name, "", 0, &e) != NULL);
		}
	}
	CHECK(store_begin(bed.core->store, &e) == 0);
	for (v = bed.core->templates; v != NULL; v = v->next)
		if (v->row.tenant[0] != '\0')
			write_tags(v);
	CHECK(store_commit(bed.core->store, &e) == 0);
	began = clock();
	CHECK(templates_load_tags(bed.core, &e) == 0);
	began = clock() - began;
	printf("# %d ms\n", (int)(began * 1000 / CLOCKS_PER_SEC));
	CHECK(began < 2 * CLOCKS_PER_SEC);
	for (v = bed.core->templates; v != NULL; v = v->next) {
		CHECK(v->ntags == (v->row.tenant[0] == '\0' ? 0 : TAGS_EACH));
		n += template_has_tag(v, "t31");
	}
	CHECK(n == 4 * VERSIONS_EACH);
	bed_end();
}

/* ---- lists */

static char walked[512];

static void note_walked(const struct template_version *v)
{
	size_t n = strlen(walked);

	(void)snprintf(walked + n, sizeof(walked) - n, "%s%s ", v->row.tenant[0] == '\0' ? "*" : "",
		       v->row.name);
}

static void on_walked(const struct template_version *v, void *arg)
{
	(void)arg;
	note_walked(v);
}

struct piece {
	char owner[STORE_ID_MAX], name[STORE_NAME_MAX];
	unsigned n, most;
};

static bool on_piece(const struct template_version *v, void *arg)
{
	struct piece *p = arg;

	if (p->n == p->most)
		return false;
	memcpy(p->owner, v->row.tenant, sizeof(p->owner));
	memcpy(p->name, v->row.name, sizeof(p->name));
	p->n++;
	note_walked(v);
	return true;
}

/* Own templates hide those of the operator with their names, and only by a current version. */
static void lists_are_walked_in_pieces(void)
{
	static const char *const names[] = { "a", "c", "d", "e" };
	char whole[sizeof(walked)];
	const struct store_actor who = { 0 };
	struct tenant *t, *other;
	struct err e;

	bed_make(30000);
	for (unsigned i = 0; i < COUNT(names); i++)
		(void)insert("", names[i], "default", "tree");
	t = a_tenant("one");
	other = a_tenant("two");
	CHECK(try(t, "b", "", 0, &e) != NULL && try(t, "c", "", 0, &e) != NULL);
	(void)insert(t->row.id, "d", "v1", "tree"); /* not current */
	CHECK(try(other, "a", "", 0, &e) != NULL);
	CHECK(templates_set_public(bed.core, templates_of(bed.core, other->row.id, "a", ""), true,
				   &who, &e) == 0);
	walked[0] = '\0';
	templates_each(bed.core, t, on_walked, NULL);
	memcpy(whole, walked, sizeof(whole));
	CHECK(strstr(whole, "*c ") == NULL && strstr(whole, "*a ") != NULL &&
	      strstr(whole, "*d *e ") != NULL && strstr(whole, "b c d ") != NULL &&
	      strstr(whole, " a ") != NULL);
	for (unsigned most = 1; most < 5; most++) {
		struct piece p = { .most = most };

		walked[0] = '\0';
		while (!templates_each_behind(bed.core, t, p.owner, p.name, on_piece, &p))
			p.n = 0;
		CHECK_STR(walked, whole);
	}
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
		if (i == 0) { /* at its own bound, and one beyond */
			CHECK(n == TEMPLATES_TENANT_MAX && try(t, "more", "", 0, &e) == NULL);
			CHECK(e.reason == REASON_QUOTA_TEMPLATES);
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

static bool has_payer(void)
{
	const struct template_version *v = bed.session->template;

	return strcmp(v->row.payer, bed.tenant->row.id) == 0;
}

/* A removed version that only sessions of others keep takes no room of its owner, but theirs. */
static void a_version_counts_for_who_keeps_it(void)
{
	static char env[20 << 20]; /* two of them are too many */
	const struct store_actor who = { 0 };
	char path[2 * STORE_NAME_MAX];
	const char *tag = "default";
	struct tenant *owner, *maker;
	struct template_version *v, *made;
	struct store_template copy;
	struct err e = { 0 };

	bed_make(30000);
	owner = a_tenant("owner");
	maker = a_tenant("maker");
	memset(env, 'e', sizeof(env) - 1);
	v = try(owner, "x", env, sizeof(env), &e);
	CHECK(v != NULL && templates_set_public(bed.core, v, true, &who, &e) == 0);
	(void)snprintf(path, sizeof(path), "%s/x", owner->row.id);
	make_session(path);
	CHECK(bed.session->template == v);
	CHECK(try(owner, "y", env, sizeof(env), &e) == NULL && v->row.payer[0] == '\0');
	CHECK(templates_remove(bed.core, v, &who, &e) == 0);
	bed_until(has_payer);
	copy = *template_row(v); /* what its tenant makes from it counts for itself */
	copy.id[0] = copy.template_id[0] = '\0';
	memcpy(copy.tenant, maker->row.id, sizeof(copy.tenant));
	made = templates_insert(bed.core, &copy, &tag, 1, NULL, &who, &e);
	CHECK(made != NULL && made->row.payer[0] == '\0' && v->row.payer[0] != '\0');
	CHECK(try(maker, "w", env, sizeof(env), &e) == NULL);
	CHECK(try(owner, "y", env, sizeof(env), &e) != NULL);
	CHECK(try(bed.tenant, "z", env, sizeof(env), &e) == NULL);
	CHECK(e.reason == REASON_QUOTA_TEMPLATES);
	bed_delete();
	bed_turn(1500); /* the version goes with its last session */
	CHECK(try(bed.tenant, "z", env, sizeof(env), &e) != NULL);
	bed_end();
}

static unsigned pools_of(const struct template_version *v)
{
	unsigned n = 0;

	for (unsigned i = 0; i < CELL_LEVELS; i++)
		n += v->pools[i] != NULL;
	return n;
}

/* ---- guests that wait for sessions of a tenant's templates */

#define GUESTS_OF 12 /* templates of each tenant */

static void make_guests(void)
{
	struct config *g;

	bed.started_pool = true;
	bed_make(30000);
	g = (struct config *)(uintptr_t)bed.core->o.config;
	g->pool_max = 64;
	g->pool_started_size = 2; /* eight guests at a level */
	bed.core->o.levels[CELL_GVISOR].is_possible = 1;
	bed.way[KEEPER_CREATE] = BED_REFUSE;
}

/* It had sessions at level gvisor, one after the other. */
static void use_template(struct tenant *t, struct template_version *v)
{
	struct session s = { .core = bed.core, .tenant = t, .template = v };

	s.row = (struct store_session){ .level = CELL_GVISOR, .mounts = "", .secrets = "" };
	for (unsigned k = 0; k < 3; k++) { /* the first shows what they are like */
		CHECK(templates_claim(&s) == NULL && v->pools[CELL_GVISOR]->like_set);
		s.row = v->pools[CELL_GVISOR]->like;
	}
}

static void use_templates(struct tenant *t)
{
	struct template_version *v;
	char name[16];
	struct err e;

	for (unsigned i = 0; i < GUESTS_OF; i++) {
		(void)snprintf(name, sizeof(name), "g%u", i);
		v = templates_of(bed.core, t->row.id, name, "");
		if (v == NULL)
			v = try(t, name, "", 0, &e);
		CHECK(v != NULL);
		use_template(t, v);
	}
}

static unsigned waiting_of(const struct tenant *t)
{
	struct core_metrics_pool pool;
	unsigned n = 0;

	for (const struct template_version *v = bed.core->templates; v != NULL; v = v->next)
		if (strcmp(v->row.tenant, t->row.id) == 0) {
			template_pool(v, &pool);
			n += (unsigned)pool.size;
		}
	return n;
}

/* They count for the tenant, however many templates it has: half of what may wait at the level at
 * most, and not more than its quotas have room for. So another one gets some, too. */
static void guests_that_wait_count_for_their_tenant(void)
{
	struct tenant *one, *two;

	make_guests();
	one = a_tenant("one");
	two = a_tenant("two");
	for (unsigned i = 0; i < 3; i++) {
		use_templates(one);
		templates_adapt(bed.core);
		CHECK(waiting_of(one) == 4 && one->started_cells == 4);
	}
	use_templates(two);
	templates_adapt(bed.core);
	CHECK(waiting_of(one) == 4 && waiting_of(two) == 4);
	one->row.max_sessions = 3;
	templates_adapt(bed.core);
	CHECK(waiting_of(one) == 3);
	one->sessions = 2; /* of its own, which come first */
	templates_adapt(bed.core);
	CHECK(waiting_of(one) == 1 && one->started_cells == 1);
	one->sessions = 0;
	bed_turn(50);
	bed_end();
}

/* That was its only one: the version is not retired in between, which ends its pools for good. */
static void a_tag_is_given_again(void)
{
	const struct store_actor who = { 0 };
	const char *const again[] = { "v1" };
	struct template_version *v;
	struct tenant *t;
	struct err e;

	make_guests();
	t = a_tenant("one");
	v = insert(t->row.id, "x", "v1", "one");
	(void)insert(t->row.id, "x", "default", "two");
	use_template(t, v);
	templates_adapt(bed.core);
	CHECK(pool_size(v->pools[CELL_GVISOR]->pool) > 0);
	CHECK(templates_tag(bed.core, v, again, 1, &who, &e) == 0);
	CHECK_STR(entry_of(t, "x:v1"), "one");
	CHECK(pool_size(v->pools[CELL_GVISOR]->pool) > 0);
	bed_turn(50);
	bed_end();
}

/* Time that one adaption takes, in microseconds: the least of some. */
static double adaption_us(void)
{
	double least = 1e9;

	for (unsigned i = 0; i < 7; i++) {
		clock_t began = clock();

		templates_adapt(bed.core);
		least = least < (double)(clock() - began) ? least : (double)(clock() - began);
	}
	return least * 1e6 / CLOCKS_PER_SEC;
}

#define POOLS 4000

/* Every second, for all pools. All in one, four times as many take four times as long: with their
 * square it would be sixteen. */
static void many_pools_are_adapted_in_a_moment(void)
{
	struct session s = { 0 };
	double quarter = 0, all;
	struct tenant *t = NULL;
	char name[16];
	struct err e;

	bed_make(30000);
	for (unsigned i = 0; i < POOLS; i++) {
		(void)snprintf(name, sizeof(name), "%u", i);
		if (i % VERSIONS_EACH == 0)
			t = a_tenant(name);
		s = (struct session){ .core = bed.core, .tenant = t };
		s.row = (struct store_session){ .mounts = "", .secrets = "" };
		s.template = try(t, name, "", 0, &e);
		CHECK(s.template != NULL && templates_claim(&s) == NULL);
		CHECK(s.template->pools[CELL_CONTAINER] != NULL);
		if (i + 1 == POOLS / 4)
			quarter = adaption_us();
	}
	all = adaption_us();
	printf("# %.0f us for %d pools, %.0f us for %d\n", quarter, POOLS / 4, all, POOLS);
	CHECK(all < 9 * quarter + 1000);
	bed_end();
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
	  { "many tags are read in a moment", many_tags_are_read_in_a_moment },
	  { "lists are walked in pieces", lists_are_walked_in_pieces },
	  { "tenants have shares", tenants_have_shares },
	  { "guests that wait count for their tenant", guests_that_wait_count_for_their_tenant },
	  { "a version counts for who keeps it", a_version_counts_for_who_keeps_it },
	  { "many pools are adapted in a moment", many_pools_are_adapted_in_a_moment },
	  { "a pool comes with the first use", a_pool_comes_with_the_first_use },
	  { "a trial comes first", a_trial_comes_first },
	  { "its user is tried", its_user_is_tried },
	  { "only entries of the directory", only_entries_of_the_directory },
	  { "a version lives as long as its sessions", a_version_lives_as_long_as_its_sessions },
	  { "a few at a time", a_few_at_a_time }, { "tags name versions", tags_name_versions },
	  { "a tag is given again", a_tag_is_given_again },
	  { "tenants have their own", tenants_have_their_own })
