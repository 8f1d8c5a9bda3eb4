/* package_shape.h - the second pass over a document: it reads the same bytes again and writes the
 * document for a client. Refused versions are deleted (npm, Go) or marked as yanked (PyPI, cargo),
 * files whose address leaves the registry are dropped, dist-tags are moved, and the document gets
 * the form that the client asked for. Called by cordon-egress. Pure. Constant memory, and one bit
 * for each fact.
 *
 * Use: _new(), then _judge() until it returns 0, in turns of the loop. Now _result() tells the
 * hidden versions, and _etag() the ETag. Then _feed() the raw bytes, and _end(). Three kinds of
 * documents are not shaped: apt's are signed, clients of gems compare hashes of theirs, and those
 * of one Go version leave a resolver no choice. */
#pragma once

#include "lib/base/buf.h"
#include "lib/packages/package_meta.h"

#define PACKAGE_SHAPE_REASON_MAX 161
#define PACKAGE_ETAG_MAX 40
/* The most that _feed() adds to a buf: pieces of up to 64 KiB fit a buf with this much room. */
#define PACKAGE_SHAPE_ROOM(n) ((n)*6 + (64U << 10))

enum package_shape_as {
	SHAPE_SAME,	 /* the form of the document */
	SHAPE_NPM_SHORT, /* application/vnd.npm.install-v1+json, from either form */
	SHAPE_NPM_ONE,	 /* /NAME/VERSION or /NAME/TAG, from a document of all versions */
	SHAPE_PYPI_HTML, /* PEP 503, from PEP 691 */
};

struct package_shape;

/* The document to shape. */
struct package_shape_spec {
	const struct package_meta *meta; /* borrowed, complete */
	enum package_shape_as as;
	const char *which; /* SHAPE_NPM_ONE: the version or tag, borrowed */
	/* May this fact be chosen? If not, the reason, printable ASCII. _judge() calls it once for
	 * each fact. It is called again for the reason of a yanked file, and by _why(). */
	bool (*allow)(const struct package_facts *f, char reason[PACKAGE_SHAPE_REASON_MAX],
		      void *arg);
	void *arg;
};

/* The sum of all verdicts. */
struct package_shape_result {
	size_t shown, hidden;
	/* The highest hidden version of npm, cargo and Go, for others the newest by time, else the
	 * last. "": none. Borrowed from the table. */
	const char *newest_hidden;
	const char *newest_shown; /* by time, of releases if there is one */
	/* SHAPE_NPM_ONE: the version in the answer. NULL: none is allowed, or there is none. */
	const char *one;
	bool one_hidden; /* it exists, but policy hides it */
};

struct package_shape *package_shape_new(const struct package_shape_spec *spec,
					struct err *e) MUST_USE;
/* Judge up to `most` facts, or before that sort some tags. Return how much is left. */
size_t package_shape_judge(struct package_shape *s, size_t most);
size_t package_shape_memory(const struct package_shape *s); /* bytes */
/* How many versions were searched among the tags since the last call. Each search takes longer than
 * reading the bytes that name the version. */
size_t package_shape_searches(struct package_shape *s);
void package_shape_result(const struct package_shape *s, struct package_shape_result *ret);
/* The reason of allow() for the newest hidden version (or file). "": none is hidden. */
void package_shape_why(const struct package_shape *s, char ret[PACKAGE_SHAPE_REASON_MAX]);
/* Write a quoted ETag for the output: of the raw body's hash, the form and all verdicts. */
void package_shape_etag(const struct package_shape *s, const struct digest *raw,
			char ret[PACKAGE_ETAG_MAX]);
/* The type for the answer's head, such as "application/json". */
const char *package_shape_type(const struct package_shape *s);
/* n: at most 64 KiB. Fail with ERR_LIMIT if out has too little room. */
int package_shape_feed(struct package_shape *s, const void *bytes, size_t n, struct buf *out,
		       struct err *e) MUST_USE;
int package_shape_end(struct package_shape *s, struct buf *out, struct err *e) MUST_USE;
void package_shape_free(struct package_shape *s); /* s may be NULL */
