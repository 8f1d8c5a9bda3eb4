/* Goal: each bound of documents of registries and of requests for packages holds at its value; one
 * beyond is refused, or cut where doc/security/bounds.md says so. */
#include "edge.h"

#include "lib/packages/advisories.h"
#include "lib/packages/package_meta.h"
#include "lib/packages/osv.h"
#include "lib/packages/package_request.h"

/* ---- lists of malicious packages */

static int on_entry(void *arg, const struct osv_entry *entry, struct err *e)
{
	return 0;
}

static bool report(const char *text, size_t len, struct err *e)
{
	size_t skipped;

	return osv_read(text, len, on_entry, NULL, &skipped, e) == 0;
}

static void values_of_a_report(void)
{
	/* The report, its id, the list. */
	static const struct edge row = { report, "{\"id\":\"MAL-1\",\"x\":[",
					 "10",	 200000 - 3,
					 "]}",	 "200000 values" };

	edge_try(&row, 1);
}

static void ids_of_advisories(void)
{
	for (size_t more = 0; more < 2; more++) {
		struct edge_text t = { 0 };
		struct advisories list;
		char id[ADVISORY_ID_MAX];

		edge_put(&t, ADVISORIES_MAGIC "1 1\nnpm a * ");
		edge_put_times(&t, "i", ADVISORY_ID_MAX - 1 + more);
		edge_put(&t, "\n");
		CHECK(advisories_open(t.p, t.len, &list));
		CHECK(advisories_find(&list, ECO_NPM, "a", "1", id));
		CHECK(strlen(id) == ADVISORY_ID_MAX - 1);
		free(t.p);
	}
}

/* ---- lines of documents */

struct seen {
	size_t n;
	bool cut;
};

static void on_line(struct doc_lines *l, void *arg)
{
	*(struct seen *)arg = (struct seen){ strlen(l->line), l->cut };
}

static void lines_of_documents(void)
{
	static struct doc_lines l;

	for (size_t more = 0; more < 2; more++) {
		struct edge_text t = { 0 };
		struct seen seen = { 0 };

		edge_put_times(&t, "x", DOC_LINE_MAX - 1 + more);
		edge_put(&t, "\n");
		doc_lines_feed(&l, t.p, t.len, on_line, &seen);
		CHECK(seen.n == DOC_LINE_MAX - 1 && seen.cut == (more > 0));
		free(t.p);
	}
}

/* ---- requests */

static struct package_request asks(enum ecosystem eco, const char *path)
{
	struct package_request r;
	char *exact = exact_copy(path, strlen(path) + 1);

	package_request_read(eco, false, "GET", exact, NULL, &r);
	free(exact);
	return r;
}

/* of 160 bytes */
#define TEN "xxxxxxxxxx"
#define NAME TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

static void requests(void)
{
	static const struct {
		enum ecosystem eco;
		const char *start, *item;
		size_t bound; /* of the item */
		const char *end;
		bool is_lookalike; /* one beyond */
	} rows[] = {
		/* 48 parts of a path. */
		{ ECO_GIT, "/o/r/archive/refs/heads", "/a", 42, "/x.tar.gz", true },
		{ ECO_APT, "/pool", "/a", 46, "/xx_1.0_all.deb", false },
		/* Eight parts of a tile. */
		{ ECO_GO, "/tile", "/001", 8, "", false },
		/* A path of 1023 bytes. */
		{ ECO_APT, "/pool/", "p", 1023 - 6 - 15, "/xx_1.0_all.deb", false },
		/* The name of a file of 319 bytes. */
		{ ECO_APT, "/pool/" NAME "_1", "0", PACKAGE_FILE_MAX - 1 - 160 - 10, "_all.deb",
		  false },
	};
	struct edge_text t = { 0 };

	for (size_t i = 0; i < COUNT(rows); i++)
		for (size_t more = 0; more < 2; more++) {
			struct package_request r;

			t.len = 0;
			edge_put(&t, rows[i].start);
			edge_put_times(&t, rows[i].item, rows[i].bound + more);
			edge_put(&t, rows[i].end);
			r = asks(rows[i].eco, t.p);
			if ((r.kind != PACKAGE_OTHER) != (more == 0))
				printf("# %.40s %zu: %s\n", t.p, more, package_kind_name(r.kind));
			CHECK((r.kind != PACKAGE_OTHER) == (more == 0));
			CHECK(more == 0 || r.is_lookalike == rows[i].is_lookalike);
		}
	free(t.p);
}

TEST_MAIN({ "values of a report", values_of_a_report }, { "ids of advisories", ids_of_advisories },
	  { "lines of documents", lines_of_documents }, { "requests", requests })
