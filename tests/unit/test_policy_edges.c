/* Goal: each bound of a policy is taken at its value, and refused one beyond with an error that
 * names it. Run with sanitizers, an array that is one place too short shows. */
#include "package_policy.h"

#include "lib/policy/glob.h"
#include "lib/policy/lockfiles_fold.h"
#include "lib/policy/package_patterns.h"
#include "lib/policy/package_pins.h"
#include "lib/policy/packages_private.h"
#include "lib/policy/path.h"
#include "lib/policy/policy_private.h"
#include "lib/policy/policy_select.h"

#define ROOM (6U << 20)

static char *text;
static size_t len;
static struct err e;

static void put(const char *more)
{
	size_t n = strlen(more);

	if (text == NULL)
		text = malloc(ROOM);
	CHECK(text != NULL && len + n < ROOM);
	memcpy(text + len, more, n + 1);
	len += n;
}

/* start, n times the item (%d: its number) with commas, end. */
static void write_list(const char *start, const char *item, unsigned n, const char *end)
{
	len = 0;
	put(start);
	for (unsigned i = 0; i < n; i++) {
		const char *number = strstr(item, "%d");
		char one[256];

		if (number == NULL)
			(void)snprintf(one, sizeof(one), "%s%s", i > 0 ? "," : "", item);
		else
			(void)snprintf(one, sizeof(one), "%s%.*s%u%s", i > 0 ? "," : "",
				       (int)(number - item), item, 1000 + i, number + 2);
		put(one);
	}
	put(end);
}

/* start, n times the byte, end. */
static void write_bytes(const char *start, char byte, size_t n, const char *end)
{
	len = 0;
	put(start);
	CHECK(len + n < ROOM);
	memset(text + len, byte, n);
	text[len += n] = '\0';
	put(end);
}

static bool is_taken(enum policy_layer layer)
{
	struct policy *p = NULL;

	e = (struct err){ 0 };
	if (policy_read(text, len, layer, &p, &e) < 0)
		return false;
	policy_free(p);
	return true;
}

static void expect_edge(bool at_bound, bool beyond, const char *words)
{
	if (!at_bound || beyond || strstr(e.msg, words) == NULL)
		printf("# at the bound %d, beyond %d, '%s', want '%s'\n", at_bound, beyond, e.msg,
		       words);
	CHECK(at_bound && !beyond && strstr(e.msg, words) != NULL);
}

static void try_list(const char *start, const char *item, unsigned bound, const char *end,
		     const char *words)
{
	bool taken;

	write_list(start, item, bound, end);
	taken = is_taken(POLICY_SESSION);
	if (!taken)
		printf("# %s\n", e.msg);
	write_list(start, item, bound + 1, end);
	expect_edge(taken, is_taken(POLICY_SESSION), words);
}

static void try_bytes(const char *start, char byte, size_t bound, const char *end,
		      const char *words)
{
	bool taken;

	write_bytes(start, byte, bound, end);
	taken = is_taken(POLICY_SESSION);
	if (!taken)
		printf("# %s\n", e.msg);
	write_bytes(start, byte, bound + 1, end);
	expect_edge(taken, is_taken(POLICY_SESSION), words);
}

#define RULE "{\"version\":1,\"rules\":[{\"host\":\"a.test\","
#define PACKAGES "{\"version\":1,\"packages\":{"

static void lists_of_rules(void)
{
	try_list("{\"version\":1,\"rules\":[", "\"h%d.test\"", POLICY_RULES_MAX, "]}",
		 "more than 4096 rules");
	try_list("{\"version\":1,\"rules\":[", "\"h.test/%d/*/b/**\"", POLICY_SLOW_MAX, "]}",
		 "more than 256 patterns with several stars");
	try_list("{\"version\":1,\"rules\":[{\"host\":[", "\"h%d.test\"", POLICY_ITEMS_MAX, "]}]}",
		 "rules[0].host: must have 1 to 256 items");
	try_list(RULE "\"ports\":[", "%d", POLICY_ITEMS_MAX, "]}]}", "rules[0].ports");
	try_list(RULE "\"paths\":[", "\"/%d\"", POLICY_ITEMS_MAX, "]}]}",
		 "rules[0].paths: must have 1 to 256 items");
	try_list(RULE "\"methods\":[", "\"M%d\"", POLICY_ITEMS_MAX, "]}]}",
		 "rules[0].methods: must have 1 to 256 items");
	try_list("{\"version\":1,\"rules\":[{\"cidr\":[", "\"10.0.0.1\"", POLICY_ITEMS_MAX, "]}]}",
		 "rules[0].cidr: must have 1 to 256 items");
	try_list(RULE "\"secret\":[", "\"S%d\"", POLICY_ITEMS_MAX, "]}]}",
		 "rules[0].secret: must have 1 to 256 items");
	try_list(RULE "\"set_headers\":{", "\"X-%d\":\"v\"", 32, "}}]}",
		 "rules[0].set_headers: must be an object of 1 to 32 headers");
}

/* Names in headers are added to those of "secret": the list of all has the same bound. */
static void secrets_of_a_rule(void)
{
	static const char again[] = "],\"set_headers\":{\"X-A\":\"${secret.S1000}\"}}]}";
	static const char another[] = "],\"set_headers\":{\"X-A\":\"${secret.LAST}\"}}]}";

	write_list(RULE "\"secret\":[", "\"S%d\"", POLICY_ITEMS_MAX, again);
	CHECK(is_taken(POLICY_SESSION));
	write_list(RULE "\"secret\":[", "\"S%d\"", POLICY_ITEMS_MAX - 1, another);
	CHECK(is_taken(POLICY_SESSION));
	write_list(RULE "\"secret\":[", "\"S%d\"", POLICY_ITEMS_MAX, another);
	CHECK(!is_taken(POLICY_SESSION) && strstr(e.msg, "too many secrets") != NULL);
}

/* Of all rules together. */
static void hosts_of_a_document(void)
{
	for (unsigned more = 0; more < 2; more++) {
		len = 0;
		put("{\"version\":1,\"rules\":[");
		for (unsigned i = 0; i < POLICY_HOSTS_MAX; i++) {
			char one[64];

			(void)snprintf(one, sizeof(one), "%s\"h%u.test\"",
				       i == 0			   ? "{\"host\":["
				       : i % POLICY_ITEMS_MAX == 0 ? "]},{\"host\":["
								   : ",",
				       i);
			put(one);
		}
		put(more ? "]},\"one.more\"]}" : "]}]}");
		CHECK(is_taken(POLICY_SESSION) == (more == 0));
	}
	CHECK(strstr(e.msg, "more than 16384 hosts in one document") != NULL);
}

static void texts_of_rules(void)
{
	try_bytes(RULE "\"name\":\"", 'n', POLICY_NAME_MAX - 1, "\"}]}", "rules[0].name");
	try_bytes(RULE "\"action\":\"deny\",\"reason\":\"", 'r', 160, "\"}]}", "rules[0].reason");
	try_bytes(RULE "\"secret\":\"", 'S', 64, "\"}]}", "rules[0].secret");
	try_bytes(RULE "\"headers\":{\"X-A\":\"", 'v', GLOB_MAX, "\"}}]}", "rules[0].headers");
	try_bytes(RULE "\"paths\":[\"/", 'p', PATH_PATTERN_MAX - 1, "\"]}]}", "rules[0].paths");
	try_bytes("{\"version\":1,\"rules\":[\"", 'h', 63, ".test\"]}", "rules[0].host");
}

static void registries(void)
{
	try_list(PACKAGES "\"registries\":[", "{\"ecosystem\":\"npm\",\"host\":\"r%d.test\"}",
		 PACKAGE_REGISTRIES_MAX, "]}}",
		 "packages.registries: must be a list of at most 64");
	try_list(PACKAGES "\"registries\":[{\"ecosystem\":\"npm\",\"host\":\"r.test\",\"files\":[",
		 "\"f%d.test\"", PACKAGE_FILE_HOSTS_MAX, "]}]}}",
		 "packages.registries[0].files: must be a list of at most 16 hosts");
	try_bytes(PACKAGES "\"registries\":[{\"ecosystem\":\"npm\",\"host\":\"r.test\","
			   "\"path\":\"/",
		  'p', PACKAGE_REGISTRY_PATH_MAX - 3, "\"}]}}", "packages.registries[0].path");
}

static void patterns_of_packages(void)
{
	try_list(PACKAGES "\"deny\":[", "\"npm:p%d\"", PACKAGE_PATTERNS_MAX, "]}}",
		 "packages.deny: must be a list of at most 16384");
	try_list(PACKAGES "\"deny\":[", "\"npm:*p%d\"", PACKAGE_SLOW_MAX, "]}}",
		 "packages.deny: more than 128 patterns");
	try_list(PACKAGES "\"deny\":[", "\"npm:*p%d*q\"", PACKAGE_STARS_MAX, "]}}",
		 "packages.deny: more than 128 patterns");
	try_bytes(PACKAGES "\"deny\":[\"pypi:*", 'p', GLOB_MAX - 1, "\"]}}",
		  "packages.deny[0]: has more than 240 bytes");
}

static void pins(void)
{
	try_list(PACKAGES "\"pins\":{\"npm:a\":[", "\"1.0.%d\"", PACKAGE_PINS_MAX, "]}}}",
		 "packages.pins: more than 20000 pins");
	/* A text with several digests has as many pins. */
	try_list(PACKAGES "\"pins\":{\"npm:b\":[\"1.0 " SHA_A " " SHA_B "\"],\"npm:a\":[",
		 "\"1.0.%d\"", PACKAGE_PINS_MAX - 2, "]}}}", "packages.pins: more than 20000 pins");
	try_list(PACKAGES "\"lockfiles\":[", "{\"name\":\"go.sum\",\"text\":\"\"}", LOCKFILES_MAX,
		 "]}}", "packages.lockfiles");
}

static bool is_folded(void)
{
	char *folded = NULL;
	size_t n;
	int done;

	e = (struct err){ 0 };
	done = lockfiles_fold(text, len, NULL, &folded, &n, &e);
	CHECK(done < 0 || folded != NULL);
	lockfiles_fold_free(&folded);
	return done == 0;
}

/* The same bounds where the files are taken out of a body. */
static void files_of_a_body(void)
{
	static const char start[] = "{\"packages\":{\"lockfiles\":[", end[] = "]}}";
	static const char file[] = "{\"name\":\"requirements.txt\",\"text\":\"";
	bool taken;

	write_list(start, "{\"name\":\"go.sum\",\"text\":\"\"}", LOCKFILES_MAX, end);
	taken = is_folded();
	write_list(start, "{\"name\":\"go.sum\",\"text\":\"\"}", LOCKFILES_MAX + 1, end);
	expect_edge(taken, is_folded(), "there may be at most 16 files");
	for (unsigned more = 0; more < 2; more++) {
		len = 0;
		put(start);
		for (unsigned left = LOCKFILES_TEXT_MAX + more, i = 0; left > 0; i++) {
			unsigned line = left < 32768 ? left : 32768;

			if (i % 64 == 0)
				put(i == 0 ? file : "\"},");
			if (i % 64 == 0 && i > 0)
				put(file);
			CHECK(len + line + 2 < ROOM);
			memset(text + len, '#', line);
			len += line;
			text[len] = '\0';
			left -= line;
			if (left > 0) { /* the end of a line is one byte of the text */
				put("\\n");
				left--;
			}
		}
		put("\"}]}}");
		if (more == 0)
			taken = is_folded();
	}
	expect_edge(taken, is_folded(), "all files together have more than 4194304 bytes");
}

static void texts_of_documents(void)
{
	bool taken;

	write_bytes("{\"version\":1}", ' ', POLICY_TEXT_MAX - 13, "");
	taken = is_taken(POLICY_NODE);
	write_bytes("{\"version\":1}", ' ', POLICY_TEXT_MAX - 12, "");
	expect_edge(taken, is_taken(POLICY_NODE), "a policy has at most 2097152 bytes");
}

static bool is_selected(enum policy_layer layer)
{
	char *made = NULL;
	int done;

	e = (struct err){ 0 };
	done = policy_select_read(text, len, layer, &made, &e);
	free(made);
	return done == 0;
}

/* What a client chooses: presets, or a document with bounds of its own. */
static void what_is_selected(void)
{
	static const struct {
		const char *start;
		size_t bound;
		enum policy_layer layer;
	} longest[] = { { "{\"version\":1}", POLICY_SELECT_SESSION_MAX, POLICY_SESSION },
			{ "{\"packages\":{}}", POLICY_SELECT_PACKAGES_MAX, POLICY_SESSION },
			{ "{\"version\":1}", POLICY_TEXT_MAX, POLICY_TENANT } };
	bool taken;

	for (size_t i = 0; i < COUNT(longest); i++) {
		size_t n = longest[i].bound - strlen(longest[i].start);

		write_bytes(longest[i].start, ' ', n, "");
		taken = is_selected(longest[i].layer);
		write_bytes(longest[i].start, ' ', n + 1, "");
		expect_edge(taken, is_selected(longest[i].layer), "longer than");
	}
	write_list("[", "\"pypi\"", 32, "]");
	taken = is_selected(POLICY_SESSION);
	write_list("[", "\"pypi\"", 33, "]");
	expect_edge(taken, is_selected(POLICY_SESSION), "a list of names");
}

/* Of the function that had no seed, from the end of a pattern to its front. */
static bool would_collide(const char *pattern)
{
	uint32_t h = 2166136261U;

	for (size_t i = strlen(pattern); i > 0; i--)
		h = (h ^ (uint8_t)pattern[i - 1]) * 16777619U;
	return h % 256 == 0;
}

static size_t longest_chain(const struct policy_list *list)
{
	size_t longest = 0;

	for (size_t i = 0; i < list->nslots; i++) {
		size_t n = 0;

		for (uint32_t at = list->slots[i]; at != UINT32_MAX; at = list->entries[at].next)
			n++;
		longest = n > longest ? n : longest;
	}
	return longest;
}

static void patterns_do_not_collide_by_choice(void)
{
	struct policy *p = NULL;
	char host[32], item[64];
	unsigned n = 0;

	len = 0;
	put("{\"rules\":[");
	for (unsigned i = 0; n < 120; i++) {
		(void)snprintf(host, sizeof(host), "h%u.example", i);
		if (!would_collide(host))
			continue;
		(void)snprintf(item, sizeof(item), "%s{\"host\":\"%s\"}", n++ > 0 ? "," : "", host);
		put(item);
	}
	put("]}");
	CHECK(policy_read(text, len, POLICY_SESSION, &p, &e) == 0);
	CHECK(p->list.nslots == 256 && longest_chain(&p->list) < 16);
	policy_free(p);
}

TEST_MAIN({ "lists of rules", lists_of_rules }, { "secrets of a rule", secrets_of_a_rule },
	  { "hosts of a document", hosts_of_a_document }, { "texts of rules", texts_of_rules },
	  { "registries", registries }, { "patterns of packages", patterns_of_packages },
	  { "pins", pins }, { "files of a body", files_of_a_body },
	  { "texts of documents", texts_of_documents }, { "what is selected", what_is_selected },
	  { "patterns do not collide by choice", patterns_do_not_collide_by_choice })
