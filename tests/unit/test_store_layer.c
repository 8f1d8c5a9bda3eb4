/* Layers in the store: one without a use becomes dying in the transaction that took the last use
 * away, and never gets a use again. */
#include "daemon/store/store_build.h"
#include "daemon/store/store_layer.h"
#include "daemon/store/store_session.h"
#include "daemon/store/store_template.h"

#include "store_support.h"

typedef char layer_id[STORE_ID_MAX];

static void add(struct store *s, const char *id, const char *tenant, uint64_t bytes,
		const char *digest)
{
	struct store_layer row = { .kind = "capture", .bytes = bytes, .entries = 3 };
	struct err e;

	(void)snprintf(row.id, sizeof(row.id), "%s", id);
	(void)snprintf(row.tenant, sizeof(row.tenant), "%s", tenant);
	(void)snprintf(row.digest, sizeof(row.digest), "%s", digest);
	MUST(store_layer_insert(s, &row, &e));
}

static int add_layer(const struct store_layer *row, void *cookie)
{
	return add_id(cookie, row->id);
}

static int add_dying(const struct store_layer *row, void *cookie)
{
	return row->state == STORE_LAYER_DYING ? add_id(cookie, row->id) : 0;
}

static void check_dying(struct store *s, const char *want)
{
	struct ids ids = { 0 };
	struct err e;

	MUST(store_layer_list(s, 0, "", 0, add_dying, &ids, &e));
	CHECK_STR(ids.text, want);
}

static void uses(void)
{
	static const layer_id both[] = { "lay_1", "lay_2" }, other[] = { "lay_2" };
	struct store *s = new_store();
	layer_id got[4];
	struct err e;

	MUST(store_begin(s, &e));
	add(s, "lay_1", "ten_a", 10, "");
	add(s, "lay_2", "ten_a", 20, "");
	MUST(store_layer_use(s, STORE_LAYER_OF_TEMPLATE, "tpl_1", both, 2, &e));
	MUST(store_commit(s, &e));
	MUST(store_layer_use(s, STORE_LAYER_OF_SESSION, "ses_1", other, 1, &e));
	CHECK(store_layer_used(s, STORE_LAYER_OF_TEMPLATE, "tpl_1", got, 4, &e) == 2);
	CHECK_STR(got[0], "lay_1");
	CHECK_STR(got[1], "lay_2");
	check_dying(s, "");
	MUST(store_layer_unuse(s, STORE_LAYER_OF_TEMPLATE, "tpl_1", &e));
	check_dying(s, "lay_1"); /* the session still uses the other */
	FAILS(store_layer_use(s, STORE_LAYER_OF_BUILD, "bld_1", both, 2, &e), ERR_CONFLICT);
	CHECK(store_layer_used(s, STORE_LAYER_OF_BUILD, "bld_1", got, 4, &e) == 0);
	FAILS(store_layer_delete(s, "lay_2", &e), ERR_NOT_FOUND); /* in use */
	MUST(store_layer_delete(s, "lay_1", &e));
	MUST(store_layer_unuse(s, STORE_LAYER_OF_SESSION, "ses_1", &e));
	MUST(store_layer_unuse(s, STORE_LAYER_OF_SESSION, "ses_1", &e)); /* repeatable */
	check_dying(s, "lay_2");
	end_store(s);
}

/* A transaction that fails leaves neither the layer nor a use. */
static void whole(void)
{
	static const layer_id missing[] = { "lay_1", "lay_none" };
	struct store *s = new_store();
	struct store_layer row;
	struct err e;

	MUST(store_begin(s, &e));
	add(s, "lay_1", "ten_a", 10, "");
	FAILS(store_layer_use(s, STORE_LAYER_OF_TEMPLATE, "tpl_1", missing, 2, &e), ERR_CONFLICT);
	store_rollback(s);
	FAILS(store_layer_get(s, "lay_1", &row, &e), ERR_NOT_FOUND);
	end_store(s);
}

/* Other layers of an owner take the place of those it had. */
static void replaced(void)
{
	static const layer_id first[] = { "lay_1", "lay_2" }, second[] = { "lay_2", "lay_3" };
	struct store *s = new_store();
	struct err e;

	MUST(store_begin(s, &e));
	for (unsigned i = 0; i < 2; i++)
		add(s, first[i], "ten_a", 1, "");
	MUST(store_layer_use(s, STORE_LAYER_OF_SESSION, "ses_1", first, 2, &e));
	add(s, "lay_3", "ten_a", 1, "");
	MUST(store_layer_use(s, STORE_LAYER_OF_SESSION, "ses_1", second, 2, &e));
	MUST(store_commit(s, &e));
	check_dying(s, "lay_1");
	end_store(s);
}

static void sums_and_digests(void)
{
	static const layer_id all[] = { "lay_1", "lay_2", "lay_3" };
	struct store *s = new_store();
	struct store_layer row;
	uint64_t bytes, n;
	struct err e;

	MUST(store_begin(s, &e));
	add(s, "lay_1", "ten_a", 10, "sha256:1");
	add(s, "lay_2", "ten_a", 20, "");
	add(s, "lay_3", "", 40, "sha256:1");
	MUST(store_layer_use(s, STORE_LAYER_OF_CACHE, "c", all, 3, &e));
	MUST(store_layer_use(s, STORE_LAYER_OF_CACHE, "d", all, 3, &e));
	MUST(store_commit(s, &e));
	MUST(store_layer_sum(s, "ten_a", &bytes, &n, &e));
	CHECK(bytes == 2 * 3 * 16384 && n == 2); /* each once, the public one not; by files */
	MUST(store_layer_find(s, "", "sha256:1", &row, &e));
	CHECK_STR(row.id, "lay_3");
	CHECK(row.uses == 2 && row.bytes == 40 && row.entries == 3);
	FAILS(store_layer_find(s, "ten_b", "sha256:1", &row, &e), ERR_NOT_FOUND);
	FAILS(store_layer_find(s, "ten_a", "", &row, &e), ERR_NOT_FOUND);
	end_store(s);
}

/* What a transaction should never leave is found. */
static void swept(void)
{
	struct store *s = new_store();
	struct err e;

	add(s, "lay_1", "ten_a", 10, "");
	CHECK(store_layer_sweep(s, &e) == 1);
	CHECK(store_layer_sweep(s, &e) == 0);
	check_dying(s, "lay_1");
	end_store(s);
}

/* Of one layer: its origin, and whether only old versions use it. */
static int note(const struct store_layer *row, void *cookie)
{
	char *text = cookie;

	(void)snprintf(text, 64, "%s%s", row->origin, row->is_of_old_versions ? "old" : "new");
	return 0;
}

static void check_note(struct store *s, const char *want)
{
	char text[64] = "";
	struct err e;

	MUST(store_layer_list(s, 0, "", 0, note, text, &e));
	CHECK_STR(text, want);
}

static void add_version(struct store *s, const char *id)
{
	struct store_template row = { .name = "x", .layers = "", .mounts = "", .env = "" };
	struct err e;

	row.user = row.workdir = row.start_command = row.ready_command = "";
	row.provenance = row.offered_command = "";
	(void)snprintf(row.id, sizeof(row.id), "%s", id);
	MUST(store_template_insert(s, &row, &e));
}

/* An image of guests is old when no version that uses it is the current one. */
static void origins(void)
{
	static const layer_id one[] = { "lay_1" };
	struct store_layer row = { .id = "lay_1", .kind = "root", .origin = "a\tb\n" };
	struct store *s = new_store();
	struct err e;

	add_version(s, "tpl_1");
	MUST(store_begin(s, &e));
	MUST(store_layer_insert(s, &row, &e));
	MUST(store_layer_use(s, STORE_LAYER_GUEST_OF_SESSION, "ses_1", one, 1, &e));
	MUST(store_commit(s, &e));
	check_note(s, "a\tb\nnew"); /* a session's own */
	MUST(store_layer_use(s, STORE_LAYER_GUEST_OF_TEMPLATE, "tpl_1", one, 1, &e));
	check_note(s, "a\tb\nnew");
	add_version(s, "tpl_2");
	check_note(s, "a\tb\nold");
	MUST(store_layer_use(s, STORE_LAYER_GUEST_OF_TEMPLATE, "tpl_2", one, 1, &e));
	check_note(s, "a\tb\nnew");
	MUST(store_layer_get(s, "lay_1", &row, &e));
	CHECK(row.origin == NULL);
	end_store(s);
}

static void add_version_of(struct store *s, const char *id, const char *tenant,
			   const layer_id *layers, size_t n)
{
	struct store_template row = { .layers = "",
				      .mounts = "",
				      .env = "",
				      .user = "",
				      .workdir = "",
				      .start_command = "",
				      .ready_command = "",
				      .provenance = "",
				      .offered_command = "" };
	struct err e;

	(void)snprintf(row.id, sizeof(row.id), "%s", id);
	(void)snprintf(row.tenant, sizeof(row.tenant), "%s", tenant);
	(void)snprintf(row.name, sizeof(row.name), "%s", id);
	MUST(store_template_insert(s, &row, &e));
	MUST(store_layer_use(s, STORE_LAYER_OF_TEMPLATE, id, layers, n, &e));
}

static void delete_version(struct store *s, const char *id)
{
	struct err e;

	MUST(store_template_retire(s, id, &e));
	MUST(store_layer_hand_over(s, id, &e));
	MUST(store_template_delete(s, id, &e));
	MUST(store_layer_unuse(s, STORE_LAYER_OF_TEMPLATE, id, &e));
}

static uint64_t sum_of(struct store *s, const char *tenant)
{
	uint64_t bytes = 0, n;
	struct err e;

	MUST(store_layer_sum(s, tenant, &bytes, &n, &e));
	return bytes;
}

/* Layers that only templates of others use count for them. Those of public images have no owner. */
static void handed_over(void)
{
	static const layer_id all[] = { "lay_1", "lay_2" }, first[] = { "lay_1" };
	static const layer_id shared[] = { "lay_s" };
	struct store *s = new_store();
	struct store_layer row;
	struct err e;

	add(s, "lay_1", "ten_a", 1 << 20, "d1");
	add(s, "lay_2", "ten_a", 2 << 20, "d2");
	add(s, "lay_s", "", 4 << 20, "ds");
	add_version_of(s, "tpl_a1", "ten_a", all, 2);
	add_version_of(s, "tpl_a2", "ten_a", first, 1);
	add_version_of(s, "tpl_b", "ten_b", all, 2);
	delete_version(s, "tpl_a1"); /* another of its own has the first */
	CHECK(sum_of(s, "ten_a") == 1 << 20 && sum_of(s, "ten_b") == 2 << 20);
	CHECK(store_layer_find(s, "ten_b", "d2", &row, &e) < 0);
	delete_version(s, "tpl_a2");
	CHECK(sum_of(s, "ten_a") == 0 && sum_of(s, "ten_b") == 3 << 20);
	check_dying(s, "");
	delete_version(s, "tpl_b"); /* the last */
	check_dying(s, "lay_1 lay_2");
	add_version_of(s, "tpl_o", "", shared, 1);
	add_version_of(s, "tpl_c", "ten_c", shared, 1);
	delete_version(s, "tpl_o");
	CHECK(sum_of(s, "ten_c") == 0 && sum_of(s, "") == 4 << 20);
	end_store(s);
}

static void add_session_of(struct store *s, const char *id, const char *tenant, uint64_t created_ms,
			   const layer_id *layers, size_t n)
{
	struct store_session row = a_session(id, tenant, created_ms);
	struct err e;

	MUST(store_session_insert(s, &row, &e));
	MUST(store_layer_use(s, STORE_LAYER_OF_SESSION, id, layers, n, &e));
}

/* A version that only sessions of others keep counts for the one that is named, with its layers,
 * also those that the sessions themselves use. */
static void paid_by_sessions(void)
{
	static const layer_id all[] = { "lay_1", "lay_2", "lay_3" }, first[] = { "lay_1" };
	struct store *s = new_store();
	struct err e;

	add(s, "lay_1", "ten_a", 1 << 20, "");
	add(s, "lay_2", "ten_a", 2 << 20, "");
	add(s, "lay_3", "ten_a", 4 << 20, "");
	add_version_of(s, "tpl_old", "ten_a", all, 3);
	add_version_of(s, "tpl_new", "ten_a", first, 1);
	add_session_of(s, "ses_b", "ten_b", 5, all, 2);
	MUST(store_template_retire(s, "tpl_old", &e));
	MUST(store_layer_pay(s, "tpl_old", "ten_b", &e));
	CHECK(sum_of(s, "ten_a") == 1 << 20); /* another of its versions has the first */
	CHECK(sum_of(s, "ten_b") == 6 << 20);
	delete_version(s, "tpl_new");
	CHECK(sum_of(s, "ten_a") == 0 && sum_of(s, "ten_b") == 7 << 20);
	MUST(store_layer_unuse(s, STORE_LAYER_OF_SESSION, "ses_b", &e));
	MUST(store_layer_pay(s, "tpl_old", "ten_c", &e)); /* the next session's */
	CHECK(sum_of(s, "ten_b") == 0 && sum_of(s, "ten_c") == 7 << 20);
	check_dying(s, "");
	delete_version(s, "tpl_old");
	check_dying(s, "lay_1 lay_2 lay_3");
	end_store(s);
}

/* A session of the owner keeps it the owner's, and so does anything else that is used for it. */
static void not_paid_by_sessions(void)
{
	static const layer_id all[] = { "lay_1", "lay_2" }, second[] = { "lay_2" };
	struct store *s = new_store();
	struct err e;

	add(s, "lay_1", "ten_a", 1 << 20, "");
	add(s, "lay_2", "ten_a", 2 << 20, "");
	add_version_of(s, "tpl_a", "ten_a", all, 2);
	add_session_of(s, "ses_b", "ten_b", 5, all, 2);
	add_session_of(s, "ses_a", "ten_a", 6, all, 2);
	MUST(store_layer_use(s, STORE_LAYER_OF_CACHE, "ten_a:k", second, 1, &e));
	delete_version(s, "tpl_a");
	CHECK(sum_of(s, "ten_a") == 3 << 20 && sum_of(s, "ten_b") == 0);
	MUST(store_layer_unuse(s, STORE_LAYER_OF_SESSION, "ses_a", &e));
	CHECK(sum_of(s, "ten_a") == 2 << 20 && sum_of(s, "ten_b") == 1 << 20);
	MUST(store_layer_unuse(s, STORE_LAYER_OF_CACHE, "ten_a:k", &e));
	CHECK(sum_of(s, "ten_a") == 0 && sum_of(s, "ten_b") == 3 << 20);
	end_store(s);
}

/* Builds keep their layers in the cache, too: they are handed over when the last use of their
 * tenant goes, whichever it is. */
static void handed_over_by_the_cache(void)
{
	static const layer_id first[] = { "lay_1" }, second[] = { "lay_2" }, own[] = { "lay_3" };
	struct store_build_cached step = {
		.tenant = "ten_a", .user = "", .workdir = "", .env = ""
	};
	struct store *s = new_store();
	struct err e;

	add(s, "lay_1", "ten_a", 1 << 20, "d1");
	add(s, "lay_2", "ten_a", 2 << 20, "");
	add(s, "lay_3", "ten_a", 4 << 20, "");
	add_version_of(s, "tpl_b1", "ten_b", first, 1);
	add_version_of(s, "tpl_b2", "ten_b", second, 1);
	add_version_of(s, "tpl_a", "ten_a", own, 1);
	add_version_of(s, "tpl_c", "ten_c", own, 1);
	MUST(store_layer_use(s, STORE_LAYER_OF_CACHE, "ten_a:k1", first, 1, &e));
	MUST(store_layer_use(s, STORE_LAYER_OF_CACHE, "ten_a:k2", second, 1, &e));
	(void)snprintf(step.key, sizeof(step.key), "k2");
	MUST(store_build_cache_put(s, &step, &e));
	CHECK(sum_of(s, "ten_a") == 7 << 20);
	MUST(store_layer_unuse(s, STORE_LAYER_OF_CACHE, "ten_a:k1", &e));
	CHECK(sum_of(s, "ten_a") == 6 << 20 && sum_of(s, "ten_b") == 1 << 20);
	MUST(store_build_cache_clear(s, "ten_a", &e));
	CHECK(sum_of(s, "ten_a") == 4 << 20 && sum_of(s, "ten_b") == 3 << 20);
	CHECK(sum_of(s, "ten_c") == 0); /* its owner uses it, too */
	check_dying(s, "");
	end_store(s);
}

/* ---- the work that a change of uses takes */

static sqlite3 *opened;
static unsigned long steps; /* of all statements, in instructions of SQLite's machine */

static int on_open(sqlite3 *db, const char **why, const struct sqlite3_api_routines *api)
{
	(void)why;
	(void)api;
	opened = db;
	return SQLITE_OK;
}

static int on_step(void *arg)
{
	(void)arg;
	steps++;
	return 0;
}

#define OTHERS 20000
#define CHANGES 1000
#define LONG_STACK 161 /* one more than are looked at one by one */

static void add_used(struct store *s, unsigned from, unsigned to)
{
	layer_id id[1];
	struct err e;

	MUST(store_begin(s, &e));
	for (unsigned i = from; i < to; i++) {
		(void)snprintf(id[0], sizeof(id[0]), "lay_%u", i);
		add(s, id[0], "ten_a", 1, "");
		MUST(store_layer_use(s, STORE_LAYER_OF_BUILD, id[0], (const layer_id *)id, 1, &e));
	}
	MUST(store_commit(s, &e));
}

/* Steps of so many times that a session gets a layer and loses it. */
static unsigned long change(struct store *s)
{
	static const layer_id one[] = { "lay_7" };
	struct err e;

	steps = 0;
	sqlite3_progress_handler(opened, 1, on_step, NULL);
	MUST(store_begin(s, &e));
	for (unsigned i = 0; i < CHANGES; i++) {
		MUST(store_layer_use(s, STORE_LAYER_OF_SESSION, "ses_1", one, 1, &e));
		MUST(store_layer_unuse(s, STORE_LAYER_OF_SESSION, "ses_1", &e));
	}
	MUST(store_commit(s, &e));
	sqlite3_progress_handler(opened, 0, NULL, NULL);
	return steps;
}

/* It does not follow the number of layers, and one owner with very many of them loses all. */
static void changes_of_uses_look_at_few_layers(void)
{
	layer_id many[LONG_STACK];
	unsigned long few, all;
	struct ids ids = { 0 };
	struct store *s;
	struct err e;

	CHECK(sqlite3_auto_extension((void (*)(void))on_open) == SQLITE_OK);
	s = new_store();
	CHECK(opened != NULL);
	add_used(s, 0, OTHERS / 20);
	few = change(s);
	add_used(s, OTHERS / 20, OTHERS);
	all = change(s);
	printf("# %lu steps with %d layers, %lu with %d\n", few, OTHERS / 20, all, OTHERS);
	CHECK(few > CHANGES && all < 2 * few);
	MUST(store_begin(s, &e));
	for (unsigned i = 0; i < LONG_STACK; i++) {
		(void)snprintf(many[i], sizeof(many[i]), "lay_x%u", i);
		add(s, many[i], "ten_b", 1, "");
	}
	MUST(store_layer_use(s, STORE_LAYER_OF_SESSION, "ses_2", (const layer_id *)many, LONG_STACK,
			     &e));
	MUST(store_commit(s, &e));
	add_version_of(s, "tpl_c", "ten_c", (const layer_id *)many, 1);
	check_dying(s, "");
	CHECK(sum_of(s, "ten_c") == 0);
	MUST(store_layer_unuse(s, STORE_LAYER_OF_SESSION, "ses_2", &e));
	CHECK(sum_of(s, "ten_c") > 0); /* another's template has the first */
	MUST(store_layer_next_dying(s, "", 1000, add_layer, &ids, &e));
	CHECK(ids.n == LONG_STACK - 1);
	CHECK(store_layer_sweep(s, &e) == 0); /* and no other */
	end_store(s);
}

/* A tenant with many does not hold up the removal of another's. */
static void dying_in_turn(void)
{
	struct store *s = new_store();
	struct ids ids = { 0 };
	struct err e;

	add(s, "lay_1", "ten_a", 10, "");
	add(s, "lay_2", "ten_a", 20, "");
	add(s, "lay_3", "ten_a", 20, "");
	add(s, "lay_4", "ten_b", 20, "");
	MUST(store_layer_next_dying(s, "", 9, add_layer, &ids, &e));
	CHECK_STR(ids.text, "");
	CHECK(store_layer_sweep(s, &e) == 4);
	MUST(store_layer_next_dying(s, "", 2, add_layer, &ids, &e));
	CHECK(strlen(ids.text) == strlen("lay_1 lay_2") && strstr(ids.text, "lay_4") == NULL);
	ids = (struct ids){ 0 };
	MUST(store_layer_next_dying(s, "ten_a!", 2, add_layer, &ids, &e));
	CHECK_STR(ids.text, "lay_4");
	ids = (struct ids){ 0 };
	MUST(store_layer_next_dying(s, "ten_b!", 2, add_layer, &ids, &e));
	CHECK_STR(ids.text, "");
	end_store(s);
}

static int add_value(const struct store_layer_value *row, void *cookie)
{
	CHECK(row->box_len == 4 && memcmp(row->box, "box", 4) == 0);
	CHECK_STR(row->tenant, "ten_a");
	return add_id(cookie, row->about);
}

static void check_values(struct store *s, const char *layer, const char *want)
{
	struct ids ids = { 0 };
	struct err e;

	MUST(store_layer_value_of(s, layer, add_value, &ids, &e));
	CHECK_STR(ids.text, want);
}

static void values(void)
{
	static const layer_id one[] = { "lay_1" };
	struct store_layer_value row = {
		.about = "a", .name = "n", .hosts = "", .box = "box", .box_len = 4
	};
	struct store *s = new_store();
	uint64_t sum;
	struct err e;

	(void)snprintf(row.tenant, sizeof(row.tenant), "ten_a");
	MUST(store_begin(s, &e));
	add(s, "lay_1", "ten_a", 1, "");
	add(s, "lay_2", "ten_a", 1, "");
	MUST(store_layer_use(s, STORE_LAYER_OF_CACHE, "c", one, 1, &e));
	MUST(store_layer_value_add(s, "lay_1", &row, 10, &e));
	row.about = "b";
	MUST(store_layer_value_add(s, "lay_1", &row, 10, &e));
	MUST(store_layer_value_add(s, "lay_2", &row, 10, &e));
	MUST(store_layer_value_add(s, "lay_none", &row, 10, &e));
	MUST(store_layer_value_copy(s, "lay_1", "lay_2", &e));
	MUST(store_commit(s, &e));
	check_values(s, "lay_1", "a b");
	check_values(s, "lay_2", "b a");
	MUST(store_layer_value_sweep(s, &e));
	check_values(s, "lay_none", "");
	MUST(store_layer_value_sum(s, "ten_a", &sum, &e));
	CHECK(sum == 40);
	MUST(store_layer_unuse(s, STORE_LAYER_OF_CACHE, "c", &e));
	MUST(store_layer_delete(s, "lay_1", &e));
	check_values(s, "lay_1", "");
	check_values(s, "lay_2", "b a");
	/* Of a live session: the last ones. */
	for (const char *about = "abc"; *about != '\0'; about++) {
		const char text[2] = { *about };

		row.about = text;
		MUST(store_layer_value_add_past(s, "none", &row, 2, &e));
	}
	check_values(s, "none", "b c");
	MUST(store_layer_value_sum(s, "ten_a", &sum, &e));
	CHECK(sum == 20); /* they count for no tenant */
	MUST(store_layer_value_sweep(s, &e));
	check_values(s, "none", ""); /* no such session */
	MUST(store_layer_value_add_past(s, "none", &row, 2, &e));
	MUST(store_layer_value_delete(s, "none", &e));
	check_values(s, "none", "");
	end_store(s);
}

TEST_MAIN({ "values", values }, { "handed over", handed_over },
	  { "paid by sessions", paid_by_sessions },
	  { "not paid by sessions", not_paid_by_sessions },
	  { "handed over by the cache", handed_over_by_the_cache }, { "uses", uses },
	  { "origins", origins }, { "whole or not at all", whole }, { "replaced", replaced },
	  { "sums and digests", sums_and_digests }, { "swept", swept },
	  { "dying in turn", dying_in_turn },
	  { "changes of uses look at few layers", changes_of_uses_look_at_few_layers })
