/* Templates while the server runs: added by a trial, used by sessions, deleted when none uses them.
 */
#include "bed.h"
#include "core_private.h"
#include "store_template.h"
#include "templates.h"
#include "tenant.h"

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

static int add(const char *name, const char *layers)
{
	struct err e = { 0 };

	if (begin(name, layers, &e) < 0) {
		why = e;
		return -1;
	}
	bed_until(has_ended);
	bed_until(is_idle); /* the cell of the trial is gone */
	return outcome;
}

/* Versions in the store. */
static int count_one(const struct store_template *row, void *cookie)
{
	(void)row;
	++*(unsigned *)cookie;
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
	CHECK(templates_remove(bed.core, "x", &who, &e) == 0);
	CHECK(templates_find(bed.core, NULL, "x") == NULL && stored() == 2);
	CHECK_STR(session_template(bed.session)->name, "x");
	bed_delete();
	bed_until(is_only_host); /* a second later at most */
	CHECK(templates_remove(bed.core, "x", &who, &e) < 0 && e.code == ERR_NOT_FOUND);
	CHECK(templates_remove(bed.core, "host", &who, &e) < 0 && e.code == ERR_CONFLICT);
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

TEST_MAIN({ "a trial comes first", a_trial_comes_first },
	  { "only entries of the directory", only_entries_of_the_directory },
	  { "a version lives as long as its sessions", a_version_lives_as_long_as_its_sessions },
	  { "a few at a time", a_few_at_a_time })
