/* package_shape.h - the second pass: the same bytes of a document again, and out comes what a
 * client may see: refused versions deleted (npm, Go) or marked as yanked (PyPI, cargo), files
 * whose address leaves the registry dropped, dist-tags moved, and the form that the client asked
 * for. Called by cordon-egress. Pure; constant memory beside one bit for each fact.
 *
 * Use: _new(); _judge() until it returns 0, in turns of the loop; then _result() says what is
 * hidden and _etag() is known; _feed() the raw bytes, _end(). apt's documents are signed, clients
 * of gems compare hashes of theirs, and those of one Go version say nothing that a resolver could
 * choose: they are not shaped. */
#pragma once

#include "buf.h"
#include "package_meta.h"

#define PACKAGE_SHAPE_REASON_MAX 161
#define PACKAGE_ETAG_MAX 40
/* _feed() adds at most this much to a buf: pieces of up to 64 KiB fit a buf with this much room. */
#define PACKAGE_SHAPE_ROOM(n) ((n)*6 + (64U << 10))

enum package_shape_as {
	SHAPE_SAME,	 /* the form of the document */
	SHAPE_NPM_SHORT, /* application/vnd.npm.install-v1+json, of either form */
	SHAPE_NPM_ONE,	 /* /NAME/VERSION or /NAME/TAG, of a document of all versions */
	SHAPE_PYPI_HTML, /* PEP 503, of PEP 691 */
};

struct package_shape;

struct package_shape_spec {
	const struct package_meta *meta; /* borrowed; complete */
	enum package_shape_as as;
	const char *which; /* SHAPE_NPM_ONE: the version or tag; borrowed */
	/* May this one be chosen? If not, the reason, printable ASCII. Called once for each fact by
	 * _judge(), and again for the reason of a yanked file and for _why(). */
	bool (*allow)(const struct package_facts *f, char reason[PACKAGE_SHAPE_REASON_MAX],
		      void *arg);
	void *arg;
};

struct package_shape_result {
	size_t shown, hidden;
	/* The highest of npm, cargo and Go; of others by time, else the last. "": none. Borrowed
	 * from the table. */
	const char *newest_hidden;
	const char *newest_shown; /* by time; of releases, if there is one */
	/* SHAPE_NPM_ONE: the version that is answered; NULL: none is allowed or there is no such.
	 */
	const char *one;
	bool one_hidden; /* it exists, and policy hides it */
};

struct package_shape *package_shape_new(const struct package_shape_spec *spec,
					struct err *e) MUST_USE;
/* Judges up to `most` facts, or sorts some tags before; returns how much is left. */
size_t package_shape_judge(struct package_shape *s, size_t most);
size_t package_shape_memory(const struct package_shape *s); /* bytes */
void package_shape_result(const struct package_shape *s, struct package_shape_result *ret);
/* Why the newest version (or file) that is hidden is: as allow() said. Only if one is hidden. */
void package_shape_why(const struct package_shape *s, char ret[PACKAGE_SHAPE_REASON_MAX]);
/* A quoted ETag for what will come out: of the raw body's hash, the form and all verdicts. */
void package_shape_etag(const struct package_shape *s, const struct digest *raw,
			char ret[PACKAGE_ETAG_MAX]);
/* "application/json" and the like, for the answer's head. */
const char *package_shape_type(const struct package_shape *s);
/* n at most 64 KiB. Fails with ERR_LIMIT if out has too little room. */
int package_shape_feed(struct package_shape *s, const void *bytes, size_t n, struct buf *out,
		       struct err *e) MUST_USE;
int package_shape_end(struct package_shape *s, struct buf *out, struct err *e) MUST_USE;
void package_shape_free(struct package_shape *s); /* also NULL */
