/* Goal: what was used of a limit is counted to the byte, claimed before it moves, kept from policy
 * to policy by the rule's name, and never counted down. */
#include "egress/control/limit_usage.h"

#include "lib/wire/egress_msg.h"
#include "support.h"

static struct policy *read_policy(const char *rules)
{
	char text[2048];
	struct policy *p = NULL;
	struct err e;

	(void)snprintf(text, sizeof(text), "{\"rules\":[%s]}", rules);
	CHECK(policy_read(text, strlen(text), POLICY_SESSION, &p, &e) == 0);
	return p;
}

static void not_a_byte_beyond_the_limit(void)
{
	const uint64_t limits[] = { 1, 1023, 1024, 100000, 1 << 20, (uint64_t)1 << 40 };

	for (size_t i = 0; i < COUNT(limits); i++) {
		uint64_t limit = limits[i], sum = 0;
		struct limit_usage u = { .connections = 0 };

		for (uint64_t left; (left = limit_usage_left(&u, LIMIT_IN, limit, 1)) > 0;
		     sum += left) {
			CHECK(u.claimed[LIMIT_IN] >= sum + left && u.claimed[LIMIT_IN] <= limit);
			CHECK(left <= (limit / 64 < 1024 ? 1024 : limit / 64));
			limit_usage_moved(&u, LIMIT_IN, left);
		}
		CHECK(sum == limit && u.bytes[LIMIT_IN] == limit && u.bytes[LIMIT_OUT] == 0);
		CHECK(limit_usage_left(&u, LIMIT_OUT, limit, 1) > 0);
	}
}

static void as_much_as_is_wanted_is_claimed(void)
{
	struct limit_usage u = { .connections = 0 };

	CHECK(limit_usage_left(&u, LIMIT_OUT, 100000, 50000) == 50000 && u.due);
	limit_usage_moved(&u, LIMIT_OUT, 50000);
	CHECK(limit_usage_left(&u, LIMIT_OUT, 100000, 60000) == 50000);
	CHECK(limit_usage_left(&u, LIMIT_OUT, 60000, 1) == 10000); /* a stricter policy */
	CHECK(limit_usage_left(&u, LIMIT_OUT, 40000, 1) == 0);
	CHECK(limit_usage_left(&u, LIMIT_OUT, 0, 1) == UINT64_MAX);
}

static void a_claim_is_told_once(void)
{
	struct limit_usage u = { .connections = 0 };

	CHECK(limit_usage_left(&u, LIMIT_OUT, 1 << 20, 1) == 16384 && u.due && u.unsent);
	u.due = u.unsent = false;
	limit_usage_moved(&u, LIMIT_OUT, 100);
	CHECK(limit_usage_left(&u, LIMIT_OUT, 1 << 20, 1) == 16284 && !u.due && !u.unsent);
	limit_usage_moved(&u, LIMIT_OUT, 16000);
	CHECK(limit_usage_left(&u, LIMIT_OUT, 1 << 20, 1) == 16384 && u.due);
}

static void what_was_claimed_is_used_after_a_restart(void)
{
	struct limit_usage u = { .connections = 0 };

	limit_usage_restore(&u, 5000, 7);
	CHECK(limit_usage_left(&u, LIMIT_OUT, 5001, 1) == 1 &&
	      limit_usage_left(&u, LIMIT_OUT, 5000, 1) == 0);
	limit_usage_restore(&u, 4000, 3); /* older than what is known here */
	CHECK(u.bytes[LIMIT_OUT] == 5000 && u.bytes[LIMIT_IN] == 7);
}

static void rules_are_known_by_their_names(void)
{
	struct policy *p = read_policy(
		"{\"name\":\"a\",\"host\":\"a.example\",\"limits\":{\"bytes_out\":10}},"
		"{\"host\":\"b.example\"},"
		"{\"name\":\"c\",\"host\":\"c.example\",\"limits\":{\"connections\":1}}");
	struct policy *q = read_policy(
		"{\"name\":\"c\",\"host\":\"c.example\",\"limits\":{\"connections\":2}},"
		"{\"name\":\"x\",\"host\":\"x.example\",\"limits\":{\"bytes_in\":2}}");
	struct limit_usage_table t;
	struct limit_usage *a, *c;

	limit_usage_init(&t);
	CHECK(limit_usage_renew(&t, p) == 0);
	a = limit_usage_of(&t, policy_rule(p, 0));
	c = limit_usage_of(&t, policy_rule(p, 2));
	CHECK(a != NULL && c != NULL && a != c && limit_usage_of(&t, policy_rule(p, 1)) == NULL);
	CHECK(limit_usage_of(&t, NULL) == NULL);
	limit_usage_moved(a, LIMIT_OUT, 10);
	CHECK(limit_usage_renew(&t, q) == 0);
	CHECK(limit_usage_of(&t, policy_rule(q, 0)) == c &&
	      limit_usage_of(&t, policy_rule(q, 1)) != NULL);
	CHECK(limit_usage_renew(&t, p) == 0); /* taken away and given back */
	CHECK(limit_usage_of(&t, policy_rule(p, 0)) == a &&
	      limit_usage_left(a, LIMIT_OUT, 10, 1) == 0);
	CHECK(limit_usage_find(&t, "a") == a && t.n == 3);
	limit_usage_release(&t);
	policy_free(p);
	policy_free(q);
}

/* Of the function that had no seed. */
static bool would_collide(const char *name)
{
	uint32_t h = 2166136261U;

	for (; *name != '\0'; name++)
		h = (h ^ (uint8_t)*name) * 16777619U;
	return (h ^ h >> 16) % 256 == 0;
}

static void names_do_not_collide_by_choice(void)
{
	struct limit_usage_table t;
	size_t longest = 0;
	char name[32];

	limit_usage_init(&t);
	for (unsigned i = 0; t.n < 128; i++) {
		(void)snprintf(name, sizeof(name), "r%u", i);
		CHECK(!would_collide(name) || limit_usage_find(&t, name) != NULL);
	}
	for (size_t i = 0; i < 256; i++) {
		size_t n = 0;

		for (const struct limit_usage *u = t.buckets[i]; u != NULL; u = u->next_here)
			n++;
		longest = n > longest ? n : longest;
	}
	CHECK(longest < 16);
	limit_usage_release(&t);
}

static void there_is_a_bound(void)
{
	struct limit_usage_table t;
	char name[32];

	limit_usage_init(&t);
	for (unsigned i = 0; i < EGRESS_RULES_KEPT_MAX; i++) {
		(void)snprintf(name, sizeof(name), "rule %u", i);
		CHECK(limit_usage_find(&t, name) != NULL);
	}
	CHECK(limit_usage_find(&t, "one more") == NULL && limit_usage_find(&t, "rule 7") != NULL);
	limit_usage_release(&t);
}

TEST_MAIN({ "not_a_byte_beyond_the_limit", not_a_byte_beyond_the_limit },
	  { "as_much_as_is_wanted_is_claimed", as_much_as_is_wanted_is_claimed },
	  { "a_claim_is_told_once", a_claim_is_told_once },
	  { "what_was_claimed_is_used_after_a_restart", what_was_claimed_is_used_after_a_restart },
	  { "rules_are_known_by_their_names", rules_are_known_by_their_names },
	  { "names_do_not_collide_by_choice", names_do_not_collide_by_choice },
	  { "there_is_a_bound", there_is_a_bound })
