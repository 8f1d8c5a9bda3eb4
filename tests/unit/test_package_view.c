/* Goal: a file of which the registry says something else than before is remembered as changed, and
 * all others are not. */
#include "egress/packages/package_view.h"

#include <stdlib.h>

#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "egress/packages/package_load.h"
#include "support.h"

/* ---- what package_view.c calls */

int package_load_start(struct package_view *v, const struct package_view_ask *ask, bool any_age,
		       struct err *e)
{
	return -1;
}

void package_load_cancel(struct package_view *v)
{
}

void package_load_take_over(struct package_view *v, const struct package_view_ask *ask)
{
}

bool package_load_is_waiting(const struct package_view *v)
{
	return false;
}

bool package_load_try(struct package_view *v)
{
	return false;
}

bool package_load_is_of(const struct package_view *v, const struct egress_session *session)
{
	return false;
}

bool cache_link_is_open(const struct egress *g)
{
	return false;
}

static unsigned noted;
static char last_noted[CACHE_NAME_MAX];

void cache_note(struct egress *g, const struct cache_key *key, const char *name)
{
	CHECK_STR(key->scope, "public");
	noted++;
	(void)snprintf(last_noted, sizeof(last_noted), "%s", name);
}

/* ---- */

static const char *const first =
	"{\"meta\":{\"api-version\":\"1.1\"},\"name\":\"demo\",\"versions\":[\"1.0\",\"2.0\"],"
	"\"files\":["
	"{\"filename\":\"demo-1.0-py3-none-any.whl\",\"url\":\"a/"
	"demo-1.0-py3-none-any.whl\",\"hashes\":"
	"{\"sha256\":\"0000000000000000000000000000000000000000000000000000000000000001\"},"
	"\"upload-time\":\"2020-01-01T00:00:00Z\"},"
	"{\"filename\":\"demo-2.0-py3-none-any.whl\",\"url\":\"a/"
	"demo-2.0-py3-none-any.whl\",\"hashes\":"
	"{\"sha256\":\"0000000000000000000000000000000000000000000000000000000000000002\"},"
	"\"upload-time\":\"2021-01-01T00:00:00Z\"}]}";

static struct package_document *document(const char *text)
{
	const struct package_meta_spec spec = { .doc = DOC_PYPI_SIMPLE, .name = "demo" };
	struct package_document *d = calloc(1, sizeof(*d));
	struct err e = { 0 };

	CHECK(d != NULL);
	*d = (struct package_document){ .refs = 1, .fd = -1 };
	d->meta = package_meta_new(&spec, &e);
	CHECK(d->meta != NULL);
	CHECK(package_meta_feed(d->meta, text, strlen(text), &e) == 0);
	CHECK(package_meta_end(d->meta, &e) == 0);
	return d;
}

/* As a load does. */
static void replace(struct package_view *v, struct package_document *d)
{
	size_t at = 0;

	while (package_view_compare(v, d, &at)) {
	}
	package_view_replace(v, d);
}

/* A copy of the first document with one text in place of another. */
static char *with(const char *old, const char *new)
{
	char *copy = strdup(first), *at = strstr(copy, old);

	CHECK(at != NULL && strlen(old) == strlen(new));
	memcpy(at, new, strlen(new));
	return copy;
}

static void on_done(struct completion *c, const struct err *e)
{
}

static struct package_view *view_of(struct egress *g)
{
	static const struct package_registry registry = {
		.ecosystem = ECO_PYPI, .name = "r", .host = { "r.example", 0 }, .path = "/"
	};
	static struct egress_session session;
	struct package_source source = { .doc = DOC_PYPI_SIMPLE, .target = "/simple/demo/" };
	struct package_view_wait w = { .done = { .on_done = on_done } };
	const struct package_view_ask ask = { .session = &session,
					      .scope = "public",
					      .registry = &registry,
					      .source = &source,
					      .name = "demo",
					      .tls = true };

	session.egress = g;
	package_view_get(&w, &ask);
	CHECK(w.view != NULL);
	completion_cancel(&w.done);
	return w.view; /* stays held */
}

static void remembers_changes(void)
{
	static const struct {
		const char *old, *new;
		bool one;
	} rows[] = {
		{ "000000000001", "000000000009", true },
		{ "2021-01-01", "2021-01-02", false },
		{ "\"api-version\":\"1.1\"", "\"api-version\":\"1.0\"", false },
	};
	struct err e;
	struct egress g = { .loop = loop_new(&e) };
	struct package_view *v = view_of(&g);

	replace(v, document(first));
	replace(v, document(first));
	CHECK(!package_view_is_changed(v, "demo-1.0-py3-none-any.whl"));
	for (size_t i = 0; i < COUNT(rows); i++) {
		char *text = with(rows[i].old, rows[i].new);
		bool was = package_view_is_changed(v, "demo-1.0-py3-none-any.whl");

		replace(v, document(text));
		CHECK_CASE(rows[i].old, package_view_is_changed(v, "demo-1.0-py3-none-any.whl") ==
						(was || rows[i].one));
		free(text);
		replace(v, document(first));
	}
	CHECK(package_view_is_changed(v, "demo-1.0-py3-none-any.whl"));
	CHECK(package_view_is_changed(v, "demo-2.0-py3-none-any.whl"));
	CHECK(!package_view_is_changed(v, "demo-3.0-py3-none-any.whl"));
}

/* Another form of the same: nothing has changed. */
static void believes_what_stays(void)
{
	struct err e;
	struct egress g = { .loop = loop_new(&e) };
	struct package_view *v = view_of(&g);
	char *text = with("\"api-version\":\"1.1\"", "\"api-version\":\"1.0\"");

	replace(v, document(first));
	replace(v, document(text));
	CHECK(!package_view_is_changed(v, "demo-1.0-py3-none-any.whl"));
	CHECK(!package_view_is_changed(v, "demo-2.0-py3-none-any.whl"));
	free(text);
}

#define DAY_MS (86400ULL * 1000)
#define T2020 1577836800000ULL /* 2020-01-01 */

/* The first document with another file for the second: new, and of this time. */
static char *with_new(const char *time)
{
	char *text = with("2021-01-01T00:00:00Z", time);

	for (char *at = text; (at = strstr(at, "demo-2.0")) != NULL; at++)
		at[5] = '3';
	return text;
}

static uint64_t backdated(const struct package_view *v)
{
	return package_changes_backdated(&v->changes, "demo-3.0-py3-none-any.whl");
}

/* A file that the document of 2020-06 did not have. */
static void notices_files_that_claim_to_be_old(void)
{
	static const struct {
		const char *time;
		bool is_alarm;
	} rows[] = {
		{ "2019-01-01T00:00:00Z", true },
		{ "2020-01-01T23:59:59Z", false }, /* less than an hour before */
		{ "2020-01-01T22:59:59Z", true },
		{ "2020-06-01T00:00:00Z", false },
	};
	struct err e;

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct egress g = { .loop = loop_new(&e) };
		struct package_view *v = view_of(&g);
		char *text = with_new(rows[i].time);

		noted = 0;
		v->fetched_ms = T2020;
		replace(v, document(first));
		v->fetched_ms = T2020 + DAY_MS; /* the registry says the same a day later */
		package_view_confirm(v);
		v->fetched_ms = T2020 + 400 * DAY_MS;
		replace(v, document(text));
		CHECK_CASE(rows[i].time, (backdated(v) != 0) == rows[i].is_alarm);
		CHECK_CASE(rows[i].time, noted == (rows[i].is_alarm ? 1 : 0));
		replace(v, document(text)); /* once */
		CHECK_CASE(rows[i].time, noted == (rows[i].is_alarm ? 1 : 0));
		CHECK(package_changes_backdated(&v->changes, "demo-1.0-py3-none-any.whl") == 0);
		free(text);
	}
	CHECK_STR(last_noted, "backdated demo@demo-3.0-py3-none-any.whl");
}

/* However many files there are, one call compares a bounded number of them. */
static void compares_in_pieces(void)
{
	struct buf text = BUF_INIT((size_t)16 << 20);
	struct err e;
	struct egress g = { .loop = loop_new(&e) };
	struct package_view *v = view_of(&g);
	struct package_document *d;
	unsigned n = 3 * PACKAGE_CHANGES_AT_ONCE, calls = 1;
	size_t at = 0;

	buf_put_text(&text, "{\"meta\":{\"api-version\":\"1.1\"},\"name\":\"demo\",\"versions\":[],"
			    "\"files\":[");
	for (unsigned i = 0; i < n; i++)
		buf_printf(&text,
			   "%s{\"filename\":\"demo-%u.0.tar.gz\",\"url\":\"a/"
			   "demo-%u.0.tar.gz\",\"hashes\":{}}",
			   i > 0 ? "," : "", i, i);
	buf_put_text(&text, "]}");
	CHECK(buf_add(&text, "", 1, &e) == 0);
	replace(v, document((const char *)text.data));
	d = document((const char *)text.data);
	for (; package_view_compare(v, d, &at); calls++) {
	}
	CHECK(calls == 6 && at == (size_t)2 * n);
	package_view_replace(v, d);
	buf_release(&text);
}

/* Nothing was known before: any time is believed. */
static void believes_the_first_document(void)
{
	struct err e;
	struct egress g = { .loop = loop_new(&e) };
	struct package_view *v = view_of(&g);

	noted = 0;
	v->fetched_ms = T2020 + 400 * DAY_MS;
	replace(v, document(first));
	CHECK(noted == 0);
}

static void stop(struct loop_timer *t)
{
	loop_stop(t->arg);
}

/* How many are kept after so many documents were asked for. */
static unsigned views_after(struct egress *g, unsigned names)
{
	static const struct package_registry registry = {
		.ecosystem = ECO_PYPI, .name = "r", .host = { "r.example", 0 }, .path = "/"
	};
	static struct egress_session session;
	struct loop_timer end = { .on_expire = stop, .arg = g->loop };
	const struct package_view *newest = NULL;
	unsigned kept = 0;
	struct err e;

	session.egress = g;
	for (unsigned i = 0; i < names; i++) {
		struct package_source source = { .doc = DOC_PYPI_SIMPLE };
		struct package_view_wait w = { .done = { .on_done = on_done } };
		const struct package_view_ask ask = { .session = &session,
						      .scope = "public",
						      .registry = &registry,
						      .source = &source,
						      .name = "demo",
						      .tls = true };

		(void)snprintf(source.target, sizeof(source.target), "/simple/d%u/", i);
		package_view_get(&w, &ask);
		CHECK(w.view != NULL);
		newest = w.view;
		completion_cancel(&w.done);
		package_view_put(&w);
	}
	loop_timer_set(g->loop, &end, clock_now_ns() + 20 * CLOCK_MS);
	CHECK(loop_run(g->loop, &e) == 0);
	for (const struct package_view *v = newest; v != NULL; v = v->next)
		kept++;
	return kept;
}

/* The least used go. */
static void views_are_bounded(void)
{
	struct err e;
	struct egress g = { .loop = loop_new(&e) };

	CHECK(views_after(&g, PACKAGE_VIEWS_MAX) == PACKAGE_VIEWS_MAX);
	CHECK(views_after(&g, PACKAGE_VIEWS_MAX + 1) == PACKAGE_VIEWS_MAX);
}

static const struct package_view *asked_for(struct egress *g, const char *scope,
					    const struct package_registry *r,
					    const struct package_source *source, bool only_cache,
					    bool tls)
{
	static struct egress_session session;
	struct package_view_wait w = { .done = { .on_done = on_done } };
	const struct package_view_ask ask = { .session = &session,
					      .scope = scope,
					      .registry = r,
					      .source = source,
					      .name = "demo",
					      .only_cache = only_cache,
					      .tls = tls };
	const struct package_view *v;

	session.egress = g;
	package_view_get(&w, &ask);
	v = w.view;
	CHECK(v != NULL);
	completion_cancel(&w.done);
	package_view_put(&w);
	return v;
}

/* Each of the things that decide a view makes another one; the same things find it again. */
static void keys_have_all_that_decides(void)
{
	static const struct package_host f[] = { { "f.example", 0, NULL },
						 { "f.example", 8443, NULL },
						 { "g.example", 0, NULL },
						 { "f.example", 0, "/p/" },
						 { "f.example", 0, "/q/" } };
	const struct package_registry base = { .ecosystem = ECO_PYPI,
					       .host = { "r.example", 0 },
					       .path = "/" };
	const struct package_source page = { .doc = DOC_PYPI_SIMPLE, .target = "/simple/demo/" };
	struct package_registry r[12];
	struct package_source s[4];
	const struct package_view *seen[24];
	unsigned n = 0;
	struct err e;
	struct egress g = { .loop = loop_new(&e) };

	for (size_t i = 0; i < COUNT(r); i++)
		r[i] = base;
	for (size_t i = 0; i < COUNT(s); i++)
		s[i] = page;
	for (size_t i = 0; i < COUNT(f); i++) {
		r[1 + i].files = &f[i];
		r[1 + i].nfiles = 1;
	}
	r[6].files = f;
	r[6].nfiles = 2;
	r[7].ecosystem = ECO_NPM;
	r[8].host.name = "s.example";
	r[9].host.port = 8443;
	r[10].path = "/p/";
	s[1].doc = DOC_PYPI_LEGACY;
	s[2].host = 1;
	(void)snprintf(s[3].target, sizeof(s[3].target), "/simple/other/");
	for (unsigned round = 0; round < 2; round++) {
		const struct package_view *v[24];
		unsigned k = 0;

		for (size_t i = 0; i < 11; i++)
			v[k++] = asked_for(&g, "public", &r[i], &page, false, true);
		for (size_t i = 1; i < COUNT(s); i++)
			v[k++] = asked_for(&g, "public", &r[1], &s[i], false, true);
		v[k++] = asked_for(&g, "ten_a", &base, &page, false, true);
		v[k++] = asked_for(&g, "ten_b", &base, &page, false, true);
		v[k++] = asked_for(&g, "public", &base, &page, true, true);
		v[k++] = asked_for(&g, "public", &base, &page, false, false);
		for (unsigned i = 0; i < k; i++)
			for (unsigned other = 0; other < i; other++)
				CHECK(v[i] != v[other]);
		CHECK(round == 0 || (k == n && memcmp(seen, v, k * sizeof(v[0])) == 0));
		memcpy(seen, v, k * sizeof(v[0]));
		n = k;
	}
}

TEST_MAIN({ "views_are_bounded", views_are_bounded }, { "compares_in_pieces", compares_in_pieces },
	  { "keys_have_all_that_decides", keys_have_all_that_decides },
	  { "notices_files_that_claim_to_be_old", notices_files_that_claim_to_be_old },
	  { "believes_the_first_document", believes_the_first_document },
	  { "remembers_changes", remembers_changes },
	  { "believes_what_stays", believes_what_stays })
