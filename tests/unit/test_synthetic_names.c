/* Synthetic addresses: one for each name, both ways, never one for two. */
#include "test.h"

#include "lib/base/clock.h"
#include "egress/dns/synthetic_names.h"

static uint64_t now_ns = 1;

/* In place of the library's: time passes as the test sets it. */
uint64_t clock_now_ns(void)
{
	return now_ns++;
}

static struct ip address(const char *text)
{
	struct ip ip;

	CHECK(ip_read(text, strlen(text), &ip) == 0);
	return ip;
}

static void give(struct synthetic_names *n, const char *host, struct ip *v4, struct ip *v6)
{
	CHECK(synthetic_names_give(n, host, v4, v6) == 0);
	CHECK(synthetic_names_is_synthetic(v4) && synthetic_names_is_synthetic(v6));
	CHECK(ip_is_v4(v4) && !ip_is_v4(v6));
	CHECK(!synthetic_names_is_listener(v4) && !synthetic_names_is_listener(v6));
}

static void both_ways(void)
{
	struct synthetic_names *n = synthetic_names_new();
	struct ip v4, v6, again4, again6, other4, other6;

	give(n, "a.example", &v4, &v6);
	give(n, "b.example", &other4, &other6);
	give(n, "a.example", &again4, &again6);
	CHECK(ip_same(&v4, &again4) && ip_same(&v6, &again6));
	CHECK(!ip_same(&v4, &other4) && !ip_same(&v6, &other6));
	CHECK_STR(synthetic_names_find(n, &v4), "a.example");
	CHECK_STR(synthetic_names_find(n, &v6), "a.example");
	CHECK_STR(synthetic_names_find(n, &other6), "b.example");
	synthetic_names_free(n);
}

static void same_after_restart(void)
{
	struct synthetic_names *n = synthetic_names_new();
	struct ip v4, v6, again4, again6;
	char text[IP_TEXT_MAX];

	give(n, "x.example", &v4, &v6);
	give(n, "pypi.org", &v4, &v6);
	synthetic_names_free(n);
	n = synthetic_names_new();
	give(n, "pypi.org", &again4, &again6);
	CHECK(ip_same(&v4, &again4) && ip_same(&v6, &again6));
	/* And from release to release: sessions outlive them. */
	ip_format(&v4, text);
	CHECK_STR(text, "198.18.48.157");
	synthetic_names_free(n);
}

static void not_ours(void)
{
	static const char *const others[] = {
		"198.17.255.255",	    "198.20.0.0",  "0.0.0.0", "::",
		"fd63:6f72:646f:6e01::100", "::198.18.1.1"
	};
	static const char *const unused[] = { "198.18.0.0",
					      "198.18.0.1",
					      "198.19.255.255",
					      "fd63:6f72:646f:6e00::1",
					      "fd63:6f72:646f:6e00:1::100",
					      "fd63:6f72:646f:6e00::ffff:ffff" };
	struct synthetic_names *n = synthetic_names_new();
	struct ip ip;

	for (size_t i = 0; i < COUNT(others); i++) {
		ip = address(others[i]);
		CHECK(!synthetic_names_is_synthetic(&ip) && !synthetic_names_find(n, &ip) &&
		      !synthetic_names_is_listener(&ip));
	}
	for (size_t i = 0; i < COUNT(unused); i++) {
		ip = address(unused[i]);
		CHECK(synthetic_names_is_synthetic(&ip) && !synthetic_names_find(n, &ip));
	}
	ip = address(SYNTHETIC_NAMES_LISTENER_V4);
	CHECK(synthetic_names_is_listener(&ip));
	ip = address(SYNTHETIC_NAMES_LISTENER_V6);
	CHECK(synthetic_names_is_listener(&ip));
	ip = address("198.18.0.2");
	CHECK(!synthetic_names_is_listener(&ip));
	synthetic_names_free(n);
}

/* The upper half of the IPv6 address is part of it: no second spelling of a name's address. */
static void only_that_address(void)
{
	struct synthetic_names *n = synthetic_names_new();
	struct ip v4, v6;

	give(n, "a.example", &v4, &v6);
	v6.b[9] = 1;
	CHECK(!synthetic_names_find(n, &v6));
	synthetic_names_free(n);
}

static void fill(struct synthetic_names *n, const char *prefix, unsigned count, struct ip *ret)
{
	char host[64];
	struct ip v6;

	for (unsigned i = 0; i < count; i++) {
		(void)snprintf(host, sizeof(host), "%s%u.example", prefix, i);
		give(n, host, &ret[i], &v6);
	}
}

static int by_bytes(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct ip));
}

static void check_unlike(const struct ip *ips, size_t n)
{
	struct ip *sorted = malloc(n * sizeof(*sorted));

	CHECK(sorted);
	memcpy(sorted, ips, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), by_bytes);
	for (size_t i = 1; i < n; i++)
		CHECK(!ip_same(&sorted[i - 1], &sorted[i]));
	free(sorted);
}

static void oldest_goes(void)
{
	static struct ip ips[2 * SYNTHETIC_NAMES_MAX];
	struct synthetic_names *n = synthetic_names_new();
	struct ip v4, v6;

	fill(n, "n", SYNTHETIC_NAMES_MAX, ips);
	CHECK_STR(synthetic_names_find(n, &ips[0]), "n0.example"); /* used: n1 is the oldest now */
	give(n, "new.example", &v4, &v6);
	CHECK_STR(synthetic_names_find(n, &ips[0]), "n0.example");
	CHECK(!synthetic_names_find(n, &ips[1]));
	CHECK_STR(synthetic_names_find(n, &ips[2]), "n2.example");
	CHECK_STR(synthetic_names_find(n, &v4), "new.example");
	synthetic_names_free(n);
}

/* A stale address leads nowhere for a minute, however many names come meanwhile, up to a bound. */
static void no_reuse(void)
{
	static struct ip ips[2 * SYNTHETIC_NAMES_MAX];
	struct synthetic_names *n = synthetic_names_new();

	fill(n, "old", SYNTHETIC_NAMES_MAX, ips);
	fill(n, "new", SYNTHETIC_NAMES_MAX, ips + SYNTHETIC_NAMES_MAX);
	check_unlike(ips, COUNT(ips));
	for (size_t i = 0; i < SYNTHETIC_NAMES_MAX; i++)
		CHECK(!synthetic_names_find(n, &ips[i]) &&
		      synthetic_names_find(n, &ips[SYNTHETIC_NAMES_MAX + i]));
	synthetic_names_free(n);
}

/* Later, or when there is no other, they come back, and the table works on. */
static void goes_on(void)
{
	static struct ip ips[SYNTHETIC_NAMES_MAX];
	struct synthetic_names *n = synthetic_names_new();
	char prefix[16];

	for (unsigned round = 0; round < 6; round++) {
		(void)snprintf(prefix, sizeof(prefix), "r%u-", round);
		fill(n, prefix, SYNTHETIC_NAMES_MAX, ips);
		check_unlike(ips, COUNT(ips));
		for (size_t i = 0; i < SYNTHETIC_NAMES_MAX; i++)
			CHECK(synthetic_names_find(n, &ips[i]));
		if (round % 2)
			now_ns += 100000 * CLOCK_MS;
	}
	synthetic_names_free(n);
}

static unsigned long compared;

/* In the place of libc's: counts. */
int strcmp(const char *a, const char *b);
int strcmp(const char *a, const char *b)
{
	compared++;
	while (*a != '\0' && *a == *b) {
		a++;
		b++;
	}
	return (unsigned char)*a - (unsigned char)*b;
}

/* Of the function that had no seed. */
static bool would_collide(const char *host)
{
	uint64_t h = UINT64_C(0xCBF29CE484222325);

	for (; *host != '\0'; host++)
		h = (h ^ (uint8_t)*host) * UINT64_C(0x100000001B3);
	return (uint32_t)(h ^ h >> 32) % 4096 == 0;
}

static void not_by_choice(void)
{
	struct synthetic_names *n = synthetic_names_new();
	struct ip v4, v6;
	char host[32], first[32];
	unsigned given = 0;

	for (unsigned i = 0; given < 200; i++) {
		(void)snprintf(host, sizeof(host), "n%u.example", i);
		if (!would_collide(host))
			continue;
		if (given++ == 0)
			memcpy(first, host, sizeof(first));
		give(n, host, &v4, &v6);
	}
	compared = 0;
	give(n, first, &v4, &v6);
	CHECK(compared < 16);
	synthetic_names_free(n);
}

static void give_many(struct synthetic_names *n, unsigned from, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		char host[32];
		struct ip v4, v6;

		(void)snprintf(host, sizeof(host), "n%u.example", from + i);
		give(n, host, &v4, &v6);
	}
}

static bool has(struct synthetic_names *n, const char *host, const struct ip *v4)
{
	const char *found = synthetic_names_find(n, v4);

	return found != NULL && strcmp(found, host) == 0;
}

/* Sessions of a tenant share a bound. One that has few names gets more all the same. */
static void of_a_tenant(void)
{
	struct synthetic_names_share share = { .max = 2 * SYNTHETIC_NAMES_OWN };
	struct synthetic_names *n[4];
	struct ip first4, first6, last4, last6;

	for (size_t i = 0; i < COUNT(n); i++) {
		n[i] = synthetic_names_new();
		CHECK(n[i] != NULL);
		synthetic_names_join(n[i], &share);
	}
	give(n[0], "first.example", &first4, &first6);
	give_many(n[0], 0, 2 * SYNTHETIC_NAMES_OWN - 1);
	CHECK(share.n == share.max && has(n[0], "first.example", &first4));
	give(n[0], "last.example", &last4, &last6); /* in the place of the oldest */
	CHECK(share.n == share.max && has(n[0], "last.example", &last4));
	CHECK(!has(n[0], "n0.example", &first4) && has(n[0], "first.example", &first4));
	give_many(n[0], 1000, 2 * SYNTHETIC_NAMES_OWN);
	CHECK(share.n == share.max && !has(n[0], "first.example", &first4));
	for (unsigned i = 1; i < COUNT(n); i++) {
		give(n[i], "first.example", &first4, &first6);
		give_many(n[i], 0, SYNTHETIC_NAMES_OWN - 1);
		CHECK(share.n == share.max + i * SYNTHETIC_NAMES_OWN);
		CHECK(has(n[i], "first.example", &first4));
		give_many(n[i], 1000, 4 * SYNTHETIC_NAMES_OWN);
		CHECK(share.n == share.max + i * SYNTHETIC_NAMES_OWN);
		CHECK(!has(n[i], "first.example", &first4));
	}
	for (size_t i = 0; i < COUNT(n); i++)
		synthetic_names_free(n[i]);
	CHECK(share.n == 0);
}

TEST_MAIN({ "a name has its addresses, both ways", both_ways },
	  { "the same addresses after a restart", same_after_restart },
	  { "addresses that stand for nothing", not_ours },
	  { "no second spelling of an address", only_that_address },
	  { "the name not used for longest goes", oldest_goes },
	  { "its address is not given to another", no_reuse }, { "round and round", goes_on },
	  { "names do not collide by choice", not_by_choice }, { "names of a tenant", of_a_tenant })
