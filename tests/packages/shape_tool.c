/* shape_tool.c - metadata of packages as cordon-egress reads and shapes it, for test_shaping.py.
 *
 *	shape_tool DOC AS PIECE NAME WHICH [HIDDEN...] <document
 *
 * DOC and AS are numbers of their enums, PIECE how many bytes are fed at a time (0: all). Facts
 *whose version or file is HIDDEN, and those that the address check refuses (anything with "evil"),
 *are refused. Prints facts as lines of JSON, then what was hidden, an empty line, and the document.
 * AS -1: facts only. Of apt's Packages the facts of the file WHICH are printed. Status 1: the
 *document was refused, with the reason. */
#include <stdio.h>
#include <string.h>

#include "lib/packages/package_shape.h"

struct names {
	char **p;
	int n;
};

static bool url_allowed(const char *url, void *arg)
{
	return strstr(url, "evil") == NULL;
}

static bool allow(const struct package_facts *f, char reason[PACKAGE_SHAPE_REASON_MAX], void *arg)
{
	const struct names *hidden = arg;

	for (int i = 0; i < hidden->n; i++) {
		if (strcmp(hidden->p[i], f->version) == 0 || strcmp(hidden->p[i], f->file) == 0) {
			(void)snprintf(reason, PACKAGE_SHAPE_REASON_MAX, "%s is \"hidden\" <here>",
				       hidden->p[i]);
			return false;
		}
	}
	return true;
}

static int fail(const struct err *e)
{
	printf("%s: %s\n", err_code_name(e->code), e->msg);
	return 1;
}

static void print_fact(const struct package_facts *f)
{
	char digest[DIGEST_TEXT_MAX];

	digest_write(&f->digest, digest);
	printf("{\"version\":\"%s\",\"file\":\"%s\",\"time\":%llu,\"size\":%llu,\"digest\":\"%s\","
	       "\"code\":\"%s\",\"yanked\":%d,\"foreign\":%d}\n",
	       f->version, f->file, (unsigned long long)(f->has_time ? f->time_ms : 0),
	       (unsigned long long)f->size, digest, install_code_name(f->install_code), f->yanked,
	       f->foreign);
}

static void print_facts(const struct package_meta *m, enum package_doc doc, const char *which)
{
	struct package_facts one;

	if (doc == DOC_APT_PACKAGES && package_meta_find_file(m, which, &one))
		print_fact(&one);
	for (size_t i = 0; i < package_meta_count(m); i++) {
		struct package_facts f;

		package_meta_get(m, i, &f);
		print_fact(&f);
	}
}

/* Feeds a document in pieces to one of the two passes. */
static int feed(const char *text, size_t len, size_t piece, struct package_meta *m,
		struct package_shape *s, struct buf *out, struct err *e)
{
	if (piece == 0 || (s != NULL && piece > 65536))
		piece = s != NULL ? 65536 : len + 1;
	for (size_t at = 0; at < len; at += piece) {
		size_t n = len - at < piece ? len - at : piece;

		if (m != NULL && package_meta_feed(m, text + at, n, e) < 0)
			return -1;
		if (s != NULL) {
			if (package_shape_feed(s, text + at, n, out, e) < 0 ||
			    out->len > PACKAGE_SHAPE_ROOM(n))
				return -1;
			(void)fwrite(out->data, 1, out->len, stdout);
			buf_clear(out);
		}
	}
	return 0;
}

static int shape(struct package_shape *s, const char *text, size_t len, size_t piece, struct err *e)
{
	struct buf out = BUF_INIT(PACKAGE_SHAPE_ROOM(65536));
	struct package_shape_result r;
	char etag[PACKAGE_ETAG_MAX];
	struct digest raw = { .alg = DIGEST_SHA256 };
	int rc;

	while (package_shape_judge(s, 3) > 0) {
	}
	package_shape_result(s, &r);
	package_shape_etag(s, &raw, etag);
	printf("{\"shown\":%zu,\"hidden\":%zu,\"newest_hidden\":\"%s\",\"newest_shown\":\"%s\","
	       "\"one\":\"%s\",\"one_hidden\":%d,\"etag\":%s,\"type\":\"%s\"}\n\n",
	       r.shown, r.hidden, r.newest_hidden, r.newest_shown, r.one == NULL ? "" : r.one,
	       r.one_hidden, etag, package_shape_type(s));
	rc = feed(text, len, piece, NULL, s, &out, e);
	if (rc == 0)
		rc = package_shape_end(s, &out, e);
	(void)fwrite(out.data, 1, out.len, stdout);
	buf_release(&out);
	return rc;
}

int main(int argc, char **argv)
{
	struct names hidden = { argv + 6, argc - 6 };
	struct package_meta_spec spec = { .url_allowed = url_allowed };
	struct package_shape_spec how = { .allow = allow, .arg = &hidden };
	struct buf text = BUF_INIT(256U << 20);
	struct err e;
	uint8_t *p;
	size_t n, piece;
	int rc = 1;

	if (argc < 6)
		return 2;
	while ((p = buf_reserve(&text, 65536, &e)) != NULL && (n = fread(p, 1, 65536, stdin)) > 0)
		buf_commit(&text, n);
	spec.doc = (enum package_doc)strtol(argv[1], NULL, 10);
	spec.name = argv[4];
	piece = strtoul(argv[3], NULL, 10);
	how.which = argv[5];
	struct package_meta *m = package_meta_new(&spec, &e);
	if (m == NULL || feed((char *)text.data, text.len, piece, m, NULL, NULL, &e) < 0)
		rc = -1;
	while (rc > 0)
		rc = package_meta_end(m, &e);
	if (rc < 0) {
		package_meta_free(m);
		buf_release(&text);
		return fail(&e);
	}
	print_facts(m, spec.doc, how.which);
	rc = 0;
	if (strcmp(argv[2], "-1") != 0) {
		how.meta = m;
		how.as = (enum package_shape_as)strtol(argv[2], NULL, 10);
		struct package_shape *s = package_shape_new(&how, &e);
		rc = s == NULL || shape(s, (char *)text.data, text.len, piece, &e) < 0 ? fail(&e)
										       : 0;
		package_shape_free(s);
	}
	package_meta_free(m);
	buf_release(&text);
	return rc;
}
