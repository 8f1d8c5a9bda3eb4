/* package_meta.h - reads a registry's metadata, which arrives in pieces of any size, into a table
 * of facts. This is the first of two passes over a document, package_shape.h the second. Called by
 * cordon-egress. Pure.
 *
 * The document is not kept: the table is the only memory. The document must come from the registry
 * unchanged, without Content-Encoding. Strict: a document is refused if clients could read it in
 * different ways. That is a repeated member among those read here, a repeated version or file, a
 * name in another encoding than UTF-8, and anything but JSON. Bounds: PACKAGE_META_* below. Beyond
 * them the error is ERR_LIMIT, else ERR_INVALID. After a failure only package_meta_free() may be
 * called. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "lib/packages/package_facts.h"

#define PACKAGE_META_BYTES (64U << 20)	   /* of a document */
#define PACKAGE_META_UNPACKED (256U << 20) /* of a gzip document */
#define PACKAGE_META_FACTS 200000U
#define PACKAGE_META_TAGS 20000U
#define PACKAGE_META_MEMORY (48U << 20) /* of a table */

/* The kinds of documents. */
enum package_doc {
	DOC_NPM,	 /* all versions of a name, full or short form */
	DOC_PYPI_SIMPLE, /* PEP 691 JSON */
	DOC_PYPI_LEGACY, /* /pypi/NAME/json and /pypi/NAME/VERSION/json */
	DOC_CARGO_INDEX, /* a JSON object a line */
	DOC_GO_LIST,	 /* @v/list */
	DOC_GO_INFO,	 /* @v/VERSION.info and @latest */
	/* InRelease, Release: facts are files of the suite, by path. The tag "by-hash" says that
	 * the files are also served by their digests */
	DOC_APT_RELEASE,
	DOC_APT_PACKAGES, /* Packages, plain or gzip: only package_meta_find_file(), by path */
	DOC_GEM_INFO,	  /* /info/NAME of the compact index */
	DOC_CHECKSUM,	  /* Maven's FILE.sha1 and similar: one fact, with the digest alone */
	DOC_GO_SUMDB,	  /* /lookup/MODULE@VERSION: VERSION and VERSION/go.mod with their hashes */
	PACKAGE_DOCS
};

struct package_meta;

/* The document to read. */
struct package_meta_spec {
	enum package_doc doc;
	/* The name in normal form. npm and cargo documents for another name are refused. "": any
	 * name. */
	const char *name;
	/* May a file have this address (as the document writes it, perhaps relative)? NULL: any. */
	bool (*url_allowed)(const char *url, void *arg);
	void *arg;
};

struct package_meta *package_meta_new(const struct package_meta_spec *spec, struct err *e) MUST_USE;
int package_meta_feed(struct package_meta *m, const void *bytes, size_t n, struct err *e) MUST_USE;
/* End the document. Fail if it is incomplete. 1: more is to do, call again. Each call is a bounded
 * piece of work. */
int package_meta_end(struct package_meta *m, struct err *e) MUST_USE;
void package_meta_free(struct package_meta *m); /* m may be NULL */

/* The functions below may be called after package_meta_end(). Facts are in the order of the
 * document. False: not found. */
size_t package_meta_count(const struct package_meta *m);
void package_meta_get(const struct package_meta *m, size_t i, struct package_facts *ret);
/* Find the first file of a version, if the facts are files. */
bool package_meta_find_version(const struct package_meta *m, const char *version,
			       struct package_facts *ret);
/* Find a file by the last segment of its address (apt: by path). A name shared by two versions is
 * not found. */
bool package_meta_find_file(const struct package_meta *m, const char *file,
			    struct package_facts *ret);
/* npm: the version of a dist-tag. apt: see DOC_APT_RELEASE. NULL: none. */
const char *package_meta_tag(const struct package_meta *m, const char *tag);
/* PyPI: is the project in quarantine (PEP 792)? Then it counts as denied. */
bool package_meta_quarantined(const struct package_meta *m);
size_t package_meta_memory(const struct package_meta *m); /* bytes */

/* ---- lines of a document that arrives in pieces. Only the beginning of a long line is
 * kept. Pure. */

#define DOC_LINE_MAX 1024

struct doc_lines {
	/* NUL-terminated at the callback, without '\n' and '\r' before it */
	char line[DOC_LINE_MAX];
	size_t n;
	bool cut, odd; /* the line was longer, the line has a NUL */
};

/* Call on_line for each line that ends in these bytes. */
void doc_lines_feed(struct doc_lines *l, const char *bytes, size_t n,
		    void (*on_line)(struct doc_lines *l, void *arg), void *arg);
/* Call on_line for a last line without '\n'. */
void doc_lines_end(struct doc_lines *l, void (*on_line)(struct doc_lines *l, void *arg), void *arg);
