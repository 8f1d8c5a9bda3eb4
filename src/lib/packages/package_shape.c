/* package_shape.c - the life of a shaper: verdicts and their sum, and the choice of the shaper for
 * a document. */
#include "lib/packages/package_shape.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/hex.h"
#include "lib/base/sha256.h"
#include "lib/packages/package_shape_private.h"

#define TAGS_PER_FACT 8U /* sorting steps that take as long as one judgement */

typedef void json_shaper(struct doc_json *j, enum doc_event ev, const char *bytes, size_t n);

/* NULL: the document is not JSON, or is not shaped. By document and by the form asked for. */
static json_shaper *shaper_of(const struct package_shape *s)
{
	switch (s->meta->doc) {
	case DOC_NPM:
		return shape_npm_on;
	case DOC_PYPI_SIMPLE:
		return s->spec.as == SHAPE_PYPI_HTML ? shape_html_on : shape_pypi_on;
	case DOC_PYPI_LEGACY:
		return shape_pypi_on;
	case DOC_CARGO_INDEX:
		return shape_cargo_on;
	case DOC_GO_LIST:
	case DOC_GO_INFO:
	case DOC_APT_RELEASE:
	case DOC_APT_PACKAGES:
	case DOC_GEM_INFO:
	case DOC_CHECKSUM:
	case DOC_GO_SUMDB:
	case PACKAGE_DOCS:
		break;
	}
	return NULL;
}

/* Can the document be answered in the requested form? */
static bool package_shape_fits(const struct package_shape_spec *spec)
{
	enum package_doc doc = spec->meta->doc;

	if (!spec->meta->ended)
		return false;
	if (spec->as == SHAPE_NPM_SHORT || spec->as == SHAPE_NPM_ONE)
		return doc == DOC_NPM && (spec->as == SHAPE_NPM_SHORT || spec->which != NULL);
	return spec->as == SHAPE_SAME || doc == DOC_PYPI_SIMPLE;
}

struct package_shape *package_shape_new(const struct package_shape_spec *spec, struct err *e)
{
	struct package_shape *s;

	if (!package_shape_fits(spec)) {
		(void)err_set(e, ERR_INVALID, "this document cannot be answered in that form");
		return NULL;
	}
	s = calloc(1, sizeof(*s));
	if (s != NULL) {
		s->shown = calloc(1, spec->meta->table.n / 8 + 1);
		s->here = calloc(1, spec->meta->table.n / 8 + 1);
	}
	if (s == NULL || s->shown == NULL || s->here == NULL ||
	    shape_tags_init(&s->tags, &spec->meta->table) < 0) {
		(void)err_sys(e, "metadata of packages");
		package_shape_free(s);
		return NULL;
	}
	s->spec = *spec;
	s->meta = spec->meta;
	s->newest_hidden = s->newest_release = s->newest_any = s->fact = FACTS_NONE;
	if (shaper_of(s) != NULL)
		doc_json_init(&s->json, shaper_of(s), s);
	return s;
}

size_t package_shape_memory(const struct package_shape *s)
{
	return sizeof(*s) + s->meta->table.n / 4 + 2 + shape_tags_memory(&s->tags);
}

size_t package_shape_searches(struct package_shape *s)
{
	size_t n = s->searches;

	s->searches = 0;
	return n;
}

void package_shape_free(struct package_shape *s)
{
	if (s == NULL)
		return;
	free(s->shown);
	free(s->here);
	shape_tags_release(&s->tags);
	free(s);
}

/* ---- verdicts
 *
 * A fact is judged once, in the order of the table, and its bit in s->shown is the verdict from
 * then on. Facts not judged yet are never shown. */

/* A fact not judged yet is not shown. */
bool shape_is_shown(const struct package_shape *s, uint32_t fact)
{
	return fact < s->judged && (s->shown[fact / 8] >> (fact % 8) & 1) != 0;
}

/* fact: the first one of a version. Has the registry itself a file of this version? */
bool shape_is_here(const struct package_shape *s, uint32_t fact)
{
	return fact < s->judged && (s->here[fact / 8] >> (fact % 8) & 1) != 0;
}

/* A '-' before any '+' begins a prerelease. */
bool shape_is_release(const char *version)
{
	return version[strcspn(version, "-+")] != '-';
}

/* The newest by time. Among facts without a time the last one in the document. */
static void note_newest(const struct package_shape *s, uint32_t *best, uint32_t fact)
{
	const struct fact *f = &s->meta->table.facts[fact];
	const struct fact *b = *best == FACTS_NONE ? NULL : &s->meta->table.facts[*best];

	if (b == NULL || (!b->has_time && !f->has_time) || (f->has_time && !b->has_time) ||
	    (f->has_time && f->time_ms >= b->time_ms))
		*best = fact;
}

/* Documents whose versions follow semver.h. PyPI's versions have an order of their own. */
static bool have_order(enum package_doc doc)
{
	return doc == DOC_NPM || doc == DOC_CARGO_INDEX || doc == DOC_GO_LIST;
}

/* Versions with an order are compared by it, since old branches get new releases. */
static void note_hidden(struct package_shape *s, uint32_t fact)
{
	const struct facts_table *t = &s->meta->table;
	struct semver best, new;
	int order;

	if (s->newest_hidden == FACTS_NONE || !have_order(s->meta->doc) ||
	    !semver_read(facts_text(t, t->facts[s->newest_hidden].version), &best) ||
	    !semver_read(facts_text(t, t->facts[fact].version), &new)) {
		note_newest(s, &s->newest_hidden, fact);
		return;
	}
	order = semver_compare(&new, &best);
	if (order > 0)
		s->newest_hidden = fact;
	else if (order == 0)
		note_newest(s, &s->newest_hidden, fact);
}

/* Addresses outside the registry and quarantine count before the policy. */
static bool package_shape_decide(const struct package_shape *s, uint32_t fact,
				 char reason[PACKAGE_SHAPE_REASON_MAX])
{
	struct package_facts f;

	reason[0] = '\0';
	package_meta_get(s->meta, fact, &f);
	if (f.foreign) {
		(void)snprintf(reason, PACKAGE_SHAPE_REASON_MAX, "its address leaves the registry");
		return false;
	}
	if (s->meta->quarantined) {
		(void)snprintf(reason, PACKAGE_SHAPE_REASON_MAX,
			       "the registry has it in quarantine");
		return false;
	}
	return s->spec.allow(&f, reason, s->spec.arg);
}

/* The reason goes into JSON and HTML, so bytes with a meaning there are replaced. */
void shape_reason(const struct package_shape *s, uint32_t fact, char ret[PACKAGE_SHAPE_REASON_MAX])
{
	if (package_shape_decide(s, fact, ret) || ret[0] == '\0')
		(void)snprintf(ret, PACKAGE_SHAPE_REASON_MAX, "refused by policy");
	ret[PACKAGE_SHAPE_REASON_MAX - 1] = '\0';
	for (char *p = ret; *p != '\0'; p++) {
		if (*p < ' ' || *p > '~' || strchr("\"'<>&\\", *p) != NULL)
			*p = '_';
	}
}

/* Noted at the first fact of the version, which questions by version find. */
static void note_here(struct package_shape *s, uint32_t fact)
{
	const struct facts_table *t = &s->meta->table;
	uint32_t first;

	if (t->facts[fact].foreign)
		return;
	first = facts_find_version(t, facts_text(t, t->facts[fact].version));
	if (first != FACTS_NONE)
		s->here[first / 8] |= (uint8_t)(1U << (first % 8));
}

/* Tags are sorted first, since judging a fact notes it at a tag. */
size_t package_shape_judge(struct package_shape *s, size_t most)
{
	char reason[PACKAGE_SHAPE_REASON_MAX];

	if (!shape_tags_sort(&s->tags, most * TAGS_PER_FACT))
		return s->meta->table.n - s->judged + 1;
	for (; most > 0 && s->judged < s->meta->table.n; most--) {
		uint32_t i = (uint32_t)s->judged++;

		note_here(s, i);
		if (!package_shape_decide(s, i, reason)) {
			s->nhidden++;
			note_hidden(s, i);
			continue;
		}
		s->shown[i / 8] |= (uint8_t)(1U << (i % 8));
		s->nshown++;
		note_newest(s, &s->newest_any, i);
		shape_tags_note(&s->tags, i);
		if (shape_is_release(facts_text(&s->meta->table, s->meta->table.facts[i].version)))
			note_newest(s, &s->newest_release, i);
	}
	if (s->judged == s->meta->table.n && s->one.newest_shown == NULL) {
		shape_tags_end(&s->tags);
		package_shape_result(s, &s->one);
	}
	return s->meta->table.n - s->judged;
}

static const char *version_of(const struct package_shape *s, uint32_t fact)
{
	return fact == FACTS_NONE ? NULL
				  : facts_text(&s->meta->table, s->meta->table.facts[fact].version);
}

/* npm's tags move to the highest version below. Without an order of versions, to the newest
 * release. */
const char *shape_moved(const struct package_shape *s, const char *version)
{
	uint32_t to;

	if (shape_tags_find(&s->tags, version, &to))
		return version_of(s, to);
	if (s->newest_release != FACTS_NONE || shape_is_release(version))
		return version_of(s, s->newest_release);
	return version_of(s, s->newest_any);
}

/* SHAPE_NPM_ONE: find the version that a version or tag leads to. */
static void find_one(const struct package_shape *s, struct package_shape_result *ret)
{
	uint32_t fact = facts_find_version(&s->meta->table, s->spec.which);
	const char *tagged;

	if (fact != FACTS_NONE) {
		ret->one_hidden = !shape_is_shown(s, fact);
		ret->one = ret->one_hidden ? NULL : version_of(s, fact);
		return;
	}
	tagged = package_meta_tag(s->meta, s->spec.which);
	if (tagged == NULL)
		return;
	fact = facts_find_version(&s->meta->table, tagged);
	ret->one = shape_is_shown(s, fact) ? version_of(s, fact) : shape_moved(s, tagged);
	ret->one_hidden = ret->one == NULL;
}

/* Texts are borrowed from the table. */
void package_shape_result(const struct package_shape *s, struct package_shape_result *ret)
{
	const char *hidden = version_of(s, s->newest_hidden);
	const char *shown =
		version_of(s, s->newest_release != FACTS_NONE ? s->newest_release : s->newest_any);

	*ret = (struct package_shape_result){ .shown = s->nshown,
					      .hidden = s->nhidden,
					      .newest_hidden = hidden == NULL ? "" : hidden,
					      .newest_shown = shown == NULL ? "" : shown };
	if (s->spec.as == SHAPE_NPM_ONE)
		find_one(s, ret);
}

/* The reason is asked for again, because keeping one for each fact would take memory. */
void package_shape_why(const struct package_shape *s, char ret[PACKAGE_SHAPE_REASON_MAX])
{
	ret[0] = '\0';
	if (s->newest_hidden != FACTS_NONE)
		shape_reason(s, s->newest_hidden, ret);
}

/* The verdicts are part of the ETag: a version that becomes old enough changes the document. */
void package_shape_etag(const struct package_shape *s, const struct digest *raw,
			char ret[PACKAGE_ETAG_MAX])
{
	const char *which = s->spec.which == NULL ? "" : s->spec.which;
	uint8_t as = (uint8_t)s->spec.as, hash[SHA256_SIZE];
	struct sha256 h;

	sha256_init(&h);
	sha256_add(&h, raw->bytes, digest_size(raw->alg));
	sha256_add(&h, &as, 1);
	sha256_add(&h, which, strlen(which) + 1);
	sha256_add(&h, s->shown, s->meta->table.n / 8 + 1);
	sha256_end(&h, hash);
	ret[0] = '"';
	hex_encode(hash, 16, ret + 1);
	memcpy(ret + 33, "\"", 2);
}

const char *package_shape_type(const struct package_shape *s)
{
	switch (s->meta->doc) {
	case DOC_NPM:
		return s->spec.as == SHAPE_NPM_SHORT ? "application/vnd.npm.install-v1+json"
						     : "application/json";
	case DOC_PYPI_SIMPLE:
		return s->spec.as == SHAPE_PYPI_HTML ? "text/html; charset=utf-8"
						     : "application/vnd.pypi.simple.v1+json";
	case DOC_PYPI_LEGACY:
	case DOC_GO_INFO:
		return "application/json";
	case DOC_CARGO_INDEX:
	case DOC_GO_LIST:
	case DOC_APT_RELEASE:
	case DOC_APT_PACKAGES:
	case DOC_GEM_INFO:
	case DOC_CHECKSUM:
	case DOC_GO_SUMDB:
	case PACKAGE_DOCS:
		break;
	}
	return "text/plain; charset=utf-8";
}

/* ---- bytes
 *
 * The second pass sees the same bytes as the first, so the nth file, line or version is the same
 * fact. */

/* Feed lines of JSON. A removed object leaves no empty line. */
static int feed_object_lines(struct package_shape *s, const char *p, size_t n, struct err *e)
{
	while (n > 0) {
		const char *nl = memchr(p, '\n', n);
		size_t len = nl == NULL ? n : (size_t)(nl - p);

		if (doc_json_feed(&s->json, p, len, e) < 0)
			return -1;
		if (nl == NULL)
			return 0;
		doc_json_init(&s->json, shape_cargo_on, s);
		p += len + 1;
		n -= len + 1;
	}
	return 0;
}

/* Documents without a shaper are passed on unchanged, but for Go's list of versions. */
int package_shape_feed(struct package_shape *s, const void *bytes, size_t n, struct buf *out,
		       struct err *e)
{
	int rc = 0;

	s->writer.out = out;
	if (s->meta->doc == DOC_CARGO_INDEX)
		rc = feed_object_lines(s, bytes, n, e);
	else if (shaper_of(s) != NULL)
		rc = doc_json_feed(&s->json, bytes, n, e);
	else if (s->meta->doc == DOC_GO_LIST)
		shape_lines_feed(s, bytes, n);
	else
		buf_put(out, bytes, n);
	return rc < 0 ? -1 : buf_check(out, e);
}

int package_shape_end(struct package_shape *s, struct buf *out, struct err *e)
{
	s->writer.out = out;
	if (shaper_of(s) == shape_html_on)
		shape_html_end(s);
	if (s->meta->doc == DOC_GO_LIST)
		shape_lines_end(s);
	else if (shaper_of(s) != NULL && s->meta->doc != DOC_CARGO_INDEX &&
		 doc_json_end(&s->json, e) < 0)
		return -1;
	return buf_check(out, e);
}
