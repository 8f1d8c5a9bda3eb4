/* Secrets in the store: what is written is read back, field by field. */
#include "daemon/store/store_secret.h"

#include "store_support.h"

static const uint8_t box[] = { 1, 0, 255, 3 };

static struct store_secret a_secret(const char *id, const char *tenant, const char *name)
{
	struct store_secret row = { .version = 1,
				    .created_ms = 2,
				    .updated_ms = 3,
				    .ways = 5,
				    .metadata = "{\"a\":\"b\"}",
				    .hosts = "a.org\nb.org\n",
				    .methods = "GET\n",
				    .paths = "/x\n",
				    .places = "header\n",
				    .box = box,
				    .box_len = sizeof(box) };

	(void)snprintf(row.id, sizeof(row.id), "%s", id);
	(void)snprintf(row.tenant, sizeof(row.tenant), "%s", tenant);
	(void)snprintf(row.name, sizeof(row.name), "%s", name);
	return row;
}

static void same(const struct store_secret *got, const struct store_secret *want)
{
	CHECK_STR(got->id, want->id);
	CHECK_STR(got->tenant, want->tenant);
	CHECK_STR(got->name, want->name);
	CHECK(got->version == want->version && got->created_ms == want->created_ms);
	CHECK(got->updated_ms == want->updated_ms && got->expires_ms == want->expires_ms);
	CHECK(got->ways == want->ways && got->box_len == want->box_len);
	CHECK(memcmp(got->box, want->box, want->box_len) == 0);
	CHECK_STR(got->metadata, want->metadata);
	CHECK_STR(got->hosts, want->hosts);
	CHECK_STR(got->methods, want->methods);
	CHECK_STR(got->paths, want->paths);
	CHECK_STR(got->places, want->places);
}

static int add(const struct store_secret *row, void *cookie)
{
	return add_id(cookie, row->id);
}

static void rows(void)
{
	struct store_secret row = a_secret("sec_1", "ten_a", "one"), got;
	struct store *s = new_store();
	uint64_t count = 0;
	struct err e;

	MUST(store_secret_insert(s, &row, &e));
	MUST(store_secret_get(s, "sec_1", &got, &e));
	same(&got, &row);
	store_secret_release(&got);
	MUST(store_secret_get_by_name(s, "ten_a", "one", &got, &e));
	same(&got, &row);
	store_secret_release(&got);
	FAILS(store_secret_get_by_name(s, "ten_b", "one", &got, &e), ERR_NOT_FOUND);
	FAILS(store_secret_get(s, "sec_x", &got, &e), ERR_NOT_FOUND);
	FAILS(store_secret_insert(s, &row, &e), ERR_CONFLICT);
	memcpy(row.id, "sec_2", 6);
	FAILS(store_secret_insert(s, &row, &e), ERR_CONFLICT); /* the name */
	memcpy(row.tenant, "ten_b", 6);
	MUST(store_secret_insert(s, &row, &e)); /* another's */
	memcpy(row.tenant, "ten_x", 6);
	memcpy(row.id, "sec_3", 6);
	FAILS(store_secret_insert(s, &row, &e), ERR_NOT_FOUND);
	MUST(store_secret_count(s, "ten_a", &count, &e));
	CHECK(count == 1);
	MUST(store_secret_delete(s, "sec_1", &e));
	FAILS(store_secret_delete(s, "sec_1", &e), ERR_NOT_FOUND);
	MUST(store_secret_count(s, "ten_a", &count, &e));
	CHECK(count == 0);
	end_store(s);
}

static void changes(void)
{
	struct store_secret row = a_secret("sec_1", "ten_a", "one"), got;
	const uint8_t other[] = { 9 };
	struct store *s = new_store();
	struct err e;

	MUST(store_secret_insert(s, &row, &e));
	row.version = 2;
	row.updated_ms = 30;
	row.expires_ms = 40;
	row.ways = 1;
	row.metadata = "{}";
	row.hosts = row.methods = row.paths = row.places = "";
	row.box = other;
	row.box_len = sizeof(other);
	MUST(store_secret_update(s, &row, &e));
	MUST(store_secret_get(s, "sec_1", &got, &e));
	same(&got, &row);
	store_secret_release(&got);
	row.box = box;
	row.box_len = sizeof(box);
	MUST(store_secret_reseal(s, &row, &e));
	MUST(store_secret_get(s, "sec_1", &got, &e));
	same(&got, &row);
	store_secret_release(&got);
	row.version = 1; /* another writer was faster */
	FAILS(store_secret_reseal(s, &row, &e), ERR_NOT_FOUND);
	memcpy(row.id, "sec_x", 6);
	FAILS(store_secret_update(s, &row, &e), ERR_NOT_FOUND);
	end_store(s);
}

static void lists(void)
{
	static const char *const names[] = { "c", "a", "b", "d" };
	struct store *s = new_store();
	struct ids ids = { 0 };
	struct err e;

	for (size_t i = 0; i < COUNT(names); i++) {
		char id[8];
		struct store_secret row;

		(void)snprintf(id, sizeof(id), "sec_%zu", i);
		row = a_secret(id, i == 3 ? "ten_b" : "ten_a", names[i]);
		row.expires_ms = i * 10;
		MUST(store_secret_insert(s, &row, &e));
	}
	MUST(store_secret_list(s, "ten_a", "", 0, add, &ids, &e));
	CHECK_STR(ids.text, "sec_1 sec_2 sec_0");
	ids = (struct ids){ 0 };
	MUST(store_secret_list(s, "ten_a", "a", 1, add, &ids, &e));
	CHECK_STR(ids.text, "sec_2");
	ids = (struct ids){ 0 };
	MUST(store_secret_each(s, "sec_0", 2, add, &ids, &e));
	CHECK_STR(ids.text, "sec_1 sec_2");
	ids = (struct ids){ 0 };
	MUST(store_secret_expiring(s, 0, "", 9, 64, add, &ids, &e));
	CHECK_STR(ids.text, "");
	MUST(store_secret_expiring(s, 10, "~", 30, 64, add, &ids, &e));
	CHECK_STR(ids.text, "sec_2 sec_3");
	end_store(s);
}

/* Goal: a page that ends inside of a moment is followed by the rest of that moment. */
static void same_moment(void)
{
	struct err e = { 0 };
	struct store *s = new_store();
	struct ids ids = { 0 };

	for (size_t i = 0; i < 5; i++) {
		struct store_secret row;
		char id[16];

		(void)snprintf(id, sizeof(id), "sec_%zu", i);
		row = a_secret(id, "ten_a", id);
		row.expires_ms = i == 0 ? 10 : 20;
		MUST(store_secret_insert(s, &row, &e));
	}
	MUST(store_secret_expiring(s, 0, "", 20, 3, add, &ids, &e));
	CHECK_STR(ids.text, "sec_0 sec_1 sec_2");
	ids = (struct ids){ 0 };
	MUST(store_secret_expiring(s, 20, "sec_2", 20, 3, add, &ids, &e));
	CHECK_STR(ids.text, "sec_3 sec_4");
	ids = (struct ids){ 0 };
	MUST(store_secret_expiring(s, 20, "sec_4", 20, 3, add, &ids, &e));
	CHECK_STR(ids.text, "");
	end_store(s);
}

TEST_MAIN({ "rows", rows }, { "changes", changes }, { "lists", lists },
	  { "same moment", same_moment })
