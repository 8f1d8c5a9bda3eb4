/* A registry's document, read and shaped. Cut anywhere it is read and shaped as the whole is; what
 * comes out is such a document again, and has exactly the facts that are shown.
 *
 * Bytes: which document, which form, verdicts (by a hash of the name and this byte), where it is
 * cut, the document. */
#include "fuzz.h"

#include "lib/base/fnv.h"
#include "lib/packages/package_shape.h"

unsigned long fuzz_accepted;

static bool url_allowed(const char *url, void *arg)
{
	return strstr(url, "evil") == NULL;
}

static bool allow(const struct package_facts *f, char reason[PACKAGE_SHAPE_REASON_MAX], void *arg)
{
	const uint8_t *salt = arg;
	uint64_t h = fnv_add(FNV_START ^ *salt, f->version, strlen(f->version));

	assert(!f->foreign);
	assert(strlen(f->version) < 160 && strlen(f->file) < 320);
	memcpy(reason, "no\"\n", 5);
	return *salt == 0 || (h >> 13 & 1) != 0;
}

static struct package_meta *read_doc(enum package_doc doc, const uint8_t *p, size_t n, size_t piece)
{
	struct package_meta_spec spec = { .doc = doc, .name = "", .url_allowed = url_allowed };
	struct err e;
	struct package_meta *m = package_meta_new(&spec, &e);
	int rc = 0;

	assert(m != NULL);
	for (size_t at = 0; at < n && rc == 0; at += piece) {
		size_t len = n - at < piece ? n - at : piece;
		uint8_t *copy = fuzz_copy(p + at, len);

		rc = package_meta_feed(m, copy, len, &e);
		free(copy);
	}
	if (rc == 0)
		do
			rc = package_meta_end(m, &e);
		while (rc > 0);
	if (rc == 0)
		return m;
	package_meta_free(m);
	return NULL;
}

static void check_same(const struct package_meta *a, const struct package_meta *b)
{
	assert(package_meta_count(a) == package_meta_count(b));
	for (size_t i = 0; i < package_meta_count(a); i++) {
		struct package_facts x, y;

		package_meta_get(a, i, &x);
		package_meta_get(b, i, &y);
		assert(strcmp(x.version, y.version) == 0 && strcmp(x.file, y.file) == 0);
		assert(x.has_time == y.has_time && x.time_ms == y.time_ms && x.size == y.size);
		assert(x.foreign == y.foreign && x.yanked == y.yanked);
		assert(x.install_code == y.install_code && x.digest.alg == y.digest.alg);
	}
}

/* What is shaped; the result by the way. */
static struct buf shape_doc(const struct package_meta *m, enum package_shape_as as, uint8_t salt,
			    const uint8_t *p, size_t n, size_t piece,
			    struct package_shape_result *ret)
{
	struct package_shape_spec spec = {
		.meta = m, .as = as, .which = "latest", .allow = allow, .arg = &salt
	};
	struct buf all = BUF_INIT(64U << 20);
	struct err e;
	struct package_shape *s = package_shape_new(&spec, &e);

	assert(s != NULL);
	while (package_shape_judge(s, 7) > 0) {
	}
	package_shape_result(s, ret);
	for (size_t at = 0; at < n; at += piece) {
		struct buf out = BUF_INIT(PACKAGE_SHAPE_ROOM(65536));
		size_t len = n - at < piece ? n - at : piece;
		uint8_t *copy = fuzz_copy(p + at, len);

		assert(package_shape_feed(s, copy, len, &out, &e) == 0);
		assert(out.len <= PACKAGE_SHAPE_ROOM(len));
		buf_put(&all, out.data, out.len);
		buf_release(&out);
		free(copy);
	}
	assert(package_shape_end(s, &all, &e) == 0);
	package_shape_free(s);
	return all;
}

/* Read again: npm and Go have what is shown; PyPI and cargo have all, refused ones yanked. */
static void check_output(enum package_doc doc, enum package_shape_as as, const struct buf *out,
			 const struct package_shape_result *r)
{
	struct package_meta *m;
	size_t yanked = 0;

	if (as == SHAPE_PYPI_HTML || as == SHAPE_NPM_ONE)
		return;
	m = read_doc(doc, out->data, out->len, out->len + 1);
	assert(m != NULL);
	for (size_t i = 0; i < package_meta_count(m); i++) {
		struct package_facts f;

		package_meta_get(m, i, &f);
		yanked += f.yanked;
	}
	if (doc == DOC_NPM || doc == DOC_GO_LIST)
		assert(package_meta_count(m) == r->shown);
	if (doc == DOC_PYPI_SIMPLE || doc == DOC_CARGO_INDEX) {
		assert(package_meta_count(m) >= r->shown);
		assert(yanked >= package_meta_count(m) - r->shown);
	}
	package_meta_free(m);
}

static bool has_form(enum package_doc doc, enum package_shape_as as)
{
	if (as == SHAPE_NPM_SHORT || as == SHAPE_NPM_ONE)
		return doc == DOC_NPM;
	return as == SHAPE_SAME || doc == DOC_PYPI_SIMPLE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct package_shape_result r, again;
	enum package_shape_as as;
	enum package_doc doc;
	struct package_meta *m, *cut;
	struct buf out, other;
	size_t piece;

	if (size < 4 || size > 60000)
		return 0;
	doc = data[0] % PACKAGE_DOCS;
	as = data[1] % 4;
	piece = (size_t)data[3] + 1;
	m = read_doc(doc, data + 4, size - 4, size);
	cut = read_doc(doc, data + 4, size - 4, piece);
	assert((m == NULL) == (cut == NULL));
	if (m != NULL && has_form(doc, as)) {
		fuzz_accepted++;
		check_same(m, cut);
		out = shape_doc(m, as, data[2], data + 4, size - 4, size, &r);
		other = shape_doc(m, as, data[2], data + 4, size - 4, piece, &again);
		assert(r.shown + r.hidden == package_meta_count(m));
		assert(out.len == other.len &&
		       memcmp(buf_text(&out), buf_text(&other), out.len) == 0);
		check_output(doc, as, &out, &r);
		buf_release(&out);
		buf_release(&other);
	}
	package_meta_free(m);
	package_meta_free(cut);
	return 0;
}
