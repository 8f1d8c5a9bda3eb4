/* package_meta.h - reads a registry's metadata, which arrives in pieces of any size, into a table
 * of facts. The first of two passes over a document; package_shape.h is the second. Called by
 * cordon-egress. Pure.
 *
 * The document is not kept: memory is the table. It must come from the registry as it is, without
 * Content-Encoding. Strict: what clients could read in different ways is refused, that is members
 * that are read here and are there twice, a version or a file that is there twice, names that are
 * not UTF-8, anything that is not JSON. Bounds: PACKAGE_META_* below; beyond them ERR_LIMIT, else
 * ERR_INVALID. After a failure only package_meta_free(). */
#pragma once

#include "package_facts.h"

#define PACKAGE_META_BYTES (64U << 20)	   /* of a document */
#define PACKAGE_META_UNPACKED (256U << 20) /* of one that is gzip */
#define PACKAGE_META_FACTS 200000U
#define PACKAGE_META_TAGS 20000U
#define PACKAGE_META_MEMORY (48U << 20) /* of a table */

/* Which document it is. */
enum package_doc {
	DOC_NPM,	  /* all versions of a name, full or short form */
	DOC_PYPI_SIMPLE,  /* PEP 691 JSON */
	DOC_PYPI_LEGACY,  /* /pypi/NAME/json and /pypi/NAME/VERSION/json */
	DOC_CARGO_INDEX,  /* a JSON object a line */
	DOC_GO_LIST,	  /* @v/list */
	DOC_GO_INFO,	  /* @v/VERSION.info and @latest */
	DOC_APT_RELEASE,  /* InRelease, Release: facts are files of the suite, by path; it has the
			   * tag "by-hash" if they are there by their digests, too */
	DOC_APT_PACKAGES, /* Packages, plain or gzip; only package_meta_find_file(), by path */
	DOC_GEM_INFO,	  /* /info/NAME of the compact index */
	DOC_CHECKSUM,	  /* Maven's FILE.sha1 and the like: one fact, with the digest alone */
	DOC_GO_SUMDB,	  /* /lookup/MODULE@VERSION: VERSION and VERSION/go.mod with their hashes */
	PACKAGE_DOCS
};

struct package_meta;

struct package_meta_spec {
	enum package_doc doc;
	/* In normal form; npm and cargo documents that say another name are refused. "": any. */
	const char *name;
	/* May a file have this address (as the document writes it, maybe relative)? NULL: any. */
	bool (*url_allowed)(const char *url, void *arg);
	void *arg;
};

struct package_meta *package_meta_new(const struct package_meta_spec *spec, struct err *e) MUST_USE;
int package_meta_feed(struct package_meta *m, const void *bytes, size_t n, struct err *e) MUST_USE;
/* The document is complete. Fails if it is not. 1: there is more to do, it is to be called again;
 * each call is a bounded piece of work. */
int package_meta_end(struct package_meta *m, struct err *e) MUST_USE;
void package_meta_free(struct package_meta *m); /* also NULL */

/* All below: after package_meta_end(). Facts in the order of the document; false: no such. */
size_t package_meta_count(const struct package_meta *m);
void package_meta_get(const struct package_meta *m, size_t i, struct package_facts *ret);
/* The first file of a version, if the facts are files. */
bool package_meta_find_version(const struct package_meta *m, const char *version,
			       struct package_facts *ret);
/* By the last segment of its address (apt: by path); a name that two versions share is not found.
 */
bool package_meta_find_file(const struct package_meta *m, const char *file,
			    struct package_facts *ret);
/* npm: the version that a dist-tag names; apt: see DOC_APT_RELEASE. NULL: none. */
const char *package_meta_tag(const struct package_meta *m, const char *tag);
/* PyPI: the registry has put the project into quarantine (PEP 792): treat as denied. */
bool package_meta_quarantined(const struct package_meta *m);
size_t package_meta_memory(const struct package_meta *m); /* bytes */
