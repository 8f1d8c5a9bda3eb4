/* Records of what sessions tried to reach: kept in order, found by what they are, bounded; and the
 * layers of policies. */
#include "daemon/store/store_net.h"

#include "store_support.h"

static int add(const struct store_net *row, void *cookie)
{
	CHECK(row->time_ms == 100 + row->seq && row->data[0] == '{');
	CHECK_STR(row->execution, "exe_1");
	CHECK_STR(row->tenant, "ten_a");
	return add_id(cookie, row->name);
}

static void append(struct store *s, const char *session, const char *kind, bool allowed,
		   const char *name)
{
	static uint64_t n;
	struct store_net row = {
		.tenant = "ten_a", .allowed = allowed, .data = "{\"a\":1}", .execution = "exe_1"
	};
	uint64_t seq;
	struct err e;

	(void)snprintf(row.session, sizeof(row.session), "%s", session);
	(void)snprintf(row.kind, sizeof(row.kind), "%s", kind);
	(void)snprintf(row.name, sizeof(row.name), "%s", name);
	MUST(store_net_last(s, &n, &e));
	row.time_ms = 100 + n + 1;
	MUST(store_net_append(s, &row, &seq, &e));
	CHECK(seq == n + 1);
}

static const char *list(struct store *s, const struct store_net_filter *f)
{
	static struct ids ids;
	struct err e;

	ids = (struct ids){ 0 };
	MUST(store_net_list(s, f, add, &ids, NULL, &e));
	return ids.text;
}

#define NET_LIST(...) list(s, &(struct store_net_filter){ .session = "ses_a", __VA_ARGS__ })

static void records(void)
{
	struct store *s = new_store();

	append(s, "ses_a", "dns", true, "one");
	append(s, "ses_b", "dns", true, "other");
	append(s, "ses_a", "dns", false, "two");
	append(s, "ses_a", "request", true, "one");
	append(s, "ses_a", "connect", false, "three");
	CHECK_STR(NET_LIST(.verdict = STORE_NET_ANY), "one two one three");
	CHECK_STR(NET_LIST(.verdict = STORE_NET_ANY, .after_seq = 3), "one three");
	CHECK_STR(NET_LIST(.verdict = STORE_NET_ANY, .limit = 2), "one two");
	CHECK_STR(NET_LIST(.verdict = STORE_NET_REFUSED), "two three");
	CHECK_STR(NET_LIST(.verdict = STORE_NET_ALLOWED), "one one");
	CHECK_STR(NET_LIST(.verdict = STORE_NET_ANY, .kind = "dns"), "one two");
	CHECK_STR(NET_LIST(.verdict = STORE_NET_REFUSED, .kind = "dns"), "two");
	CHECK_STR(NET_LIST(.verdict = STORE_NET_ANY, .name = "one"), "one one");
	CHECK_STR(NET_LIST(.verdict = STORE_NET_ANY, .name = "on"), "");
	CHECK_STR(
		list(s, &(struct store_net_filter){ .session = "ses_b", .verdict = STORE_NET_ANY }),
		"other");
	end_store(s);
}

static void bounded(void)
{
	struct store *s = new_store();
	char name[8];
	uint64_t n = 0, gone = 0, before;
	struct err e;

	for (int i = 0; i < 20; i++) {
		(void)snprintf(name, sizeof(name), "n%d", i);
		append(s, i % 2 == 0 ? "ses_a" : "ses_b", "dns", true, name);
	}
	MUST(store_net_count(s, "ses_a", &n, &e));
	CHECK(n == 10);
	CHECK(store_net_drop(s, "ses_a", 7, &gone, &e) == 7);
	CHECK(gone == 7);
	CHECK_STR(NET_LIST(.verdict = STORE_NET_ANY), "n14 n16 n18");
	CHECK(store_net_drop(s, "ses_a", 0, &gone, &e) == 0);
	CHECK(gone == 0);
	MUST(store_net_count(s, "ses_a", &n, &e));
	CHECK(n == 3);
	MUST(store_net_count(s, "ses_b", &n, &e));
	CHECK(n == 10); /* others keep theirs */
	/* by age: those of before 100 + 11; only the oldest are looked at */
	CHECK(store_net_prune(s, 111, 2, NULL, NULL, &e) == 2);
	CHECK(store_net_prune(s, 111, 100, NULL, NULL, &e) == 3);
	CHECK(store_net_prune(s, 111, 100, NULL, NULL, &e) == 0);
	/* the oldest of a tenant */
	MUST(store_net_count_tenant(s, "ten_a", &n, &e));
	before = n;
	CHECK(store_net_drop_tenant(s, "ten_x", 100, &e) == 0);
	CHECK(store_net_drop_tenant(s, "ten_a", 2, &e) == 2);
	MUST(store_net_count_tenant(s, "ten_a", &n, &e));
	CHECK(n == before - 2);
	/* all of a session */
	CHECK(store_net_drop(s, "ses_a", INT64_MAX, &gone, &e) >= 0);
	CHECK_STR(NET_LIST(.verdict = STORE_NET_ANY), "");
	/* a number is not given twice */
	CHECK(store_net_drop(s, "ses_b", INT64_MAX, &gone, &e) >= 0);
	append(s, "ses_a", "dns", true, "again");
	MUST(store_net_last(s, &n, &e));
	CHECK(n == 21);
	end_store(s);
}

/* Long ones count as several. */
static void heavy(void)
{
	struct store *s = new_store();
	static char text[5000];
	struct store_net row = { .session = "ses_a", .kind = "dns", .data = text };
	uint64_t n = 0;
	struct err e;

	memset(text, 'x', sizeof(text) - 1);
	for (int i = 0; i < 4; i++) {
		row.data = i == 1 ? text : "{}";
		MUST(store_net_append(s, &row, NULL, &e));
	}
	MUST(store_net_count(s, "ses_a", &n, &e));
	CHECK(n == 3 + STORE_NET_WEIGHT(strlen(text)) && n == 8);
	CHECK(store_net_drop(s, "ses_a", 2, &n, &e) >= 0);
	CHECK(n == 6);
	MUST(store_net_count(s, "ses_a", &n, &e));
	CHECK(n == 2);
	end_store(s);
}

static int add_up(const struct store_net_claim *row, void *cookie)
{
	char *text = cookie;

	(void)snprintf(text + strlen(text), 100, "%s=%llu/%llu ", row->rule,
		       (unsigned long long)row->in, (unsigned long long)row->out);
	return 0;
}

static void used(void)
{
	static const struct store_net_claim rows[] = {
		{ "b", 3, 4 }, { "", 1, 2 }, { "b", 5, INT64_MAX }, { "a", 0, 0 }
	};
	struct store *s = new_store();
	char text[400] = "";
	struct err e;

	for (size_t i = 0; i < COUNT(rows); i++)
		MUST(store_net_claim_set(s, "ses_a", &rows[i], &e));
	MUST(store_net_claim_set(s, "ses_b", &rows[0], &e));
	MUST(store_net_claim_each(s, "ses_a", 100, add_up, text, &e));
	CHECK_STR(text, "=1/2 a=0/0 b=5/9223372036854775807 ");
	text[0] = '\0';
	MUST(store_net_claim_each(s, "ses_a", 1, add_up, text, &e));
	CHECK_STR(text, "=1/2 ");
	MUST(store_net_claim_delete(s, "ses_a", &e));
	MUST(store_net_claim_delete(s, "ses_a", &e));
	text[0] = '\0';
	MUST(store_net_claim_each(s, "ses_a", 100, add_up, text, &e));
	MUST(store_net_claim_each(s, "ses_b", 100, add_up, text, &e));
	CHECK_STR(text, "b=3/4 ");
	end_store(s);
}

static void policies(void)
{
	struct store *s = new_store();
	OWN_MEM char *text = NULL;
	char *unused = NULL;
	struct err e;

	MUST(store_tenant_get_policy(s, "ten_a", &text, &e));
	CHECK_STR(text, "");
	free(text);
	MUST(store_tenant_set_policy(s, "ten_a", "{\"x\":1}", &e));
	MUST(store_tenant_get_policy(s, "ten_a", &text, &e));
	CHECK_STR(text, "{\"x\":1}");
	FAILS(store_tenant_get_policy(s, "ten_x", &unused, &e), ERR_NOT_FOUND);
	FAILS(store_tenant_set_policy(s, "ten_x", "", &e), ERR_NOT_FOUND);
	end_store(s);
}

TEST_MAIN({ "records are found by what they are", records },
	  { "records are bounded, by session, age and number", bounded },
	  { "long records count as several", heavy }, { "what was used of limits", used },
	  { "policies of tenants", policies })
