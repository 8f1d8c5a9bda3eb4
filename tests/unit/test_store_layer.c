/* Layers in the store: one without a use becomes dying in the transaction that took the last use
 * away, and never gets a use again. */
#include "store_layer.h"
#include "store_template.h"

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

static void check_dying(struct store *s, const char *want)
{
	struct ids ids = { 0 };
	struct err e;

	MUST(store_layer_each(s, true, add_layer, &ids, &e));
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

	MUST(store_layer_each(s, false, note, text, &e));
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

static void delete_version(struct store *s, const char *id, const char *tenant)
{
	struct err e;

	MUST(store_template_retire(s, id, &e));
	MUST(store_layer_hand_over(s, id, tenant, &e));
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
	delete_version(s, "tpl_a1", "ten_a"); /* another of its own has the first */
	CHECK(sum_of(s, "ten_a") == 1 << 20 && sum_of(s, "ten_b") == 2 << 20);
	CHECK(store_layer_find(s, "ten_b", "d2", &row, &e) < 0);
	delete_version(s, "tpl_a2", "ten_a");
	CHECK(sum_of(s, "ten_a") == 0 && sum_of(s, "ten_b") == 3 << 20);
	check_dying(s, "");
	delete_version(s, "tpl_b", "ten_b"); /* the last */
	check_dying(s, "lay_1 lay_2");
	add_version_of(s, "tpl_o", "", shared, 1);
	add_version_of(s, "tpl_c", "ten_c", shared, 1);
	delete_version(s, "tpl_o", "");
	CHECK(sum_of(s, "ten_c") == 0 && sum_of(s, "") == 4 << 20);
	store_close(s);
}

TEST_MAIN({ "handed over", handed_over }, { "uses", uses }, { "origins", origins },
	  { "whole or not at all", whole }, { "replaced", replaced },
	  { "sums and digests", sums_and_digests }, { "swept", swept })
