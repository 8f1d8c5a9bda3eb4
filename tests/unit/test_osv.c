/* Goal: a report of a malicious package becomes the lines that refuse it, never fewer; the list
 * finds what it has and nothing else, and is safe to look into whatever its bytes are. */
#include "test.h"

#include "lib/packages/advisories.h"
#include "lib/packages/osv.h"

static char lines[4096];

static int on_entry(void *arg, const struct osv_entry *n, struct err *e)
{
	size_t len = strlen(lines);

	(void)snprintf(lines + len, sizeof(lines) - len, "%s %s %s %s\n",
		       ecosystem_name(n->ecosystem), n->name, n->version, n->id);
	return 0;
}

/* The lines of a report; "!": it cannot be read. */
static const char *read_report(const char *text)
{
	struct err e = { 0 };
	size_t skipped = 0;

	lines[0] = '\0';
	if (osv_read(text, strlen(text), on_entry, NULL, &skipped, &e) == 0)
		return lines;
	CHECK(e.msg[0] != '\0');
	return "!";
}

#define REPORT(id, rest) "{\"id\":\"" id "\",\"modified\":\"2025-01-01T00:00:00Z\"," rest "}"
#define NPM(name, rest) \
	"\"affected\":[{\"package\":{\"ecosystem\":\"npm\",\"name\":\"" name "\"}" rest "}]"

static void reports_become_lines(void)
{
	CHECK_STR(read_report(REPORT("MAL-2025-1", NPM("a", ",\"versions\":[\"1.0\",\"1.1\"]"))),
		  "npm a 1.0 MAL-2025-1\nnpm a 1.1 MAL-2025-1\n");
	CHECK_STR(read_report(REPORT("MAL-2025-1", NPM("a", ""))), "npm a * MAL-2025-1\n");
	/* A range is not computed. */
	CHECK_STR(read_report(REPORT("MAL-2025-1",
				     NPM("a", ",\"ranges\":[{\"type\":\"SEMVER\",\"events\":"
					      "[{\"introduced\":\"2.0\"},{\"fixed\":\"2.1\"}]}]"))),
		  "npm a * MAL-2025-1\n");
	/* All versions, though some are listed. */
	CHECK_STR(read_report(REPORT("MAL-2025-1",
				     NPM("a",
					 ",\"versions\":[\"1.0\"],\"ranges\":[{\"type\":\"SEMVER\","
					 "\"events\":[{\"introduced\":\"0\"}]}]"))),
		  "npm a * MAL-2025-1\n");
	CHECK_STR(read_report(REPORT(
			  "MAL-2025-1",
			  NPM("a", ",\"versions\":[\"1.0\"],\"ranges\":[{\"type\":\"SEMVER\","
				   "\"events\":[{\"introduced\":\"0\"},{\"fixed\":\"1.1\"}]}]"))),
		  "npm a 1.0 MAL-2025-1\n");
	CHECK_STR(read_report(REPORT("MAL-2025-2",
				     "\"affected\":[{\"package\":{\"ecosystem\":\"PyPI\","
				     "\"name\":\"Some_Pkg\"}},{\"package\":{\"ecosystem\":"
				     "\"NuGet\",\"name\":\"x\"}}]")),
		  "pypi some-pkg * MAL-2025-2\n");
}

static void what_does_not_count(void)
{
	CHECK_STR(read_report(REPORT("MAL-0000-1", NPM("a", ""))), "");
	CHECK_STR(read_report(REPORT("GHSA-1", NPM("a", ""))), "");
	CHECK_STR(read_report(REPORT("MAL-2025-1",
				     "\"withdrawn\":\"2025-01-01T00:00:00Z\"," NPM("a", ""))),
		  "");
	CHECK_STR(read_report(REPORT("MAL-2025-1", NPM("a b", ""))), "");
	CHECK_STR(read_report("[]"), "!");
	CHECK_STR(read_report("{}"), "!");
	CHECK_STR(read_report("{\"id\":\"MAL-1\\n\"}"), "!");
	CHECK_STR(read_report("{\"id\":\"MAL-1\",\"id\":\"MAL-2\"}"), "!");
	CHECK_STR(read_report("{\"id\":\"MAL-1\",\"affected\":[{\"package\":5}]}"), "!");
}

static void the_list_is_found_by_bisection(void)
{
	static char text[200000];
	struct advisories list;
	char id[ADVISORY_ID_MAX], name[32];
	size_t len = (size_t)snprintf(text, sizeof(text), ADVISORIES_MAGIC "100 3000\n");

	for (int i = 0; i < 3000; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "npm p%05d %s MAL-1-%d\n",
					i * 2, i % 3 == 0 ? "*" : "1.0", i);
	CHECK(advisories_open(text, len, &list) && list.time_s == 100 && list.lines == 3000);
	for (int i = 0; i < 6000; i++) {
		(void)snprintf(name, sizeof(name), "p%05d", i);
		CHECK(advisories_find(&list, ECO_NPM, name, "1.0", id) == (i % 2 == 0));
		CHECK(advisories_find(&list, ECO_NPM, name, NULL, id) == (i % 6 == 0));
		CHECK(advisories_find(&list, ECO_NPM, name, "", id) == (i % 2 == 0));
		CHECK(advisories_find(&list, ECO_NPM, name, "1.1", id) == (i % 6 == 0));
		CHECK(!advisories_find(&list, ECO_PYPI, name, "1.0", id));
	}
	CHECK(!advisories_find(&list, ECO_NPM, "p0000", "1.0", id));
	CHECK(!advisories_find(&list, ECO_NPM, "", "1.0", id));
	CHECK(!advisories_open(text, len - 1, &list) && list.n == 0);
	CHECK(!advisories_open("x", 1, &list) && !advisories_open("", 0, &list));
}

/* Bytes of any kind: nothing is read beyond them. */
static void any_bytes_are_safe(void)
{
	unsigned seed = 3;

	for (int round = 0; round < 3000; round++) {
		size_t n = (size_t)rand_r(&seed) % 900;
		char head[] = ADVISORIES_MAGIC "1 1\n", id[ADVISORY_ID_MAX];
		char *bytes = malloc(strlen(head) + n + 1);
		struct advisories list;

		CHECK(bytes != NULL);
		memcpy(bytes, head, strlen(head));
		for (size_t i = 0; i < n; i++)
			bytes[strlen(head) + i] = "npm a*1 \n"[(size_t)rand_r(&seed) % 9];
		bytes[strlen(head) + n] = '\n';
		if (advisories_open(bytes, strlen(head) + n + 1, &list))
			(void)advisories_find(&list, ECO_NPM, "a", "1", id);
		free(bytes);
	}
}

TEST_MAIN({ "reports_become_lines", reports_become_lines },
	  { "what_does_not_count", what_does_not_count },
	  { "the_list_is_found_by_bisection", the_list_is_found_by_bisection },
	  { "any_bytes_are_safe", any_bytes_are_safe })
