/* package_shape_private.h - shared by package_shape.c and the shapers of single documents
 * (shape_*.c). Each shaper has its own places of containers, like each reader. */
#pragma once

#include "lib/packages/doc_writer.h"
#include "lib/packages/package_meta_private.h"
#include "lib/packages/package_shape.h"
#include "lib/packages/shape_tags.h"

/* PyPI's HTML: the file whose object is being read. */
struct html_file {
	char url[META_URL_MAX], python[512], yanked[512], metadata[DIGEST_TEXT_MAX];
	bool is_yanked, has_metadata;
};

/* A shaper: verdicts, then the state of writing. */
struct package_shape {
	struct package_shape_spec spec;
	const struct package_meta *meta;
	uint8_t *shown; /* owned: one bit for each fact */
	/* Owned: for the first fact of a version, whether any file of the version has an address in
	 * the registry. */
	uint8_t *here;
	size_t judged, nshown, nhidden;
	/* FACTS_NONE: none. newest_hidden is the highest version where versions have an order (npm,
	 * cargo, Go), else the newest by time, like the two others. */
	uint32_t newest_hidden, newest_release, newest_any;
	struct shape_tags tags;
	size_t searches; /* searches among the tags, since the last question */
	/* SHAPE_NPM_ONE: of the whole document, after all verdicts */
	struct package_shape_result one;
	/* While writing. */
	struct doc_json json;
	struct doc_writer writer;
	unsigned skip; /* depth of the container left out, 0: none */
	bool drop;     /* leave out the next value */
	bool quiet;    /* the current text is left out, or written at its end */
	size_t nth;    /* objects of files, or lines, so far */
	uint32_t fact; /* of the current version, file or line */
	bool added;    /* the document had the member that would be added at its end */
	bool header;   /* HTML: the page has begun */
	struct html_file html;
	/* Lines of text: the first word, until it is decided. */
	char word[PACKAGE_VERSION_MAX + 8];
	size_t nword;
	bool decided, pass;
	struct err err;
};

bool shape_is_shown(const struct package_shape *s, uint32_t fact);
/* Does a version, by its first fact, have a file in the registry? */
bool shape_is_here(const struct package_shape *s, uint32_t fact);
/* The version for a tag whose own version is hidden: see shape_tags.h. Where versions have no
 * order, the newest release by time. NULL: none. */
const char *shape_moved(const struct package_shape *s, const char *version);
bool shape_is_release(const char *version);
/* Write the reason of a refused fact: printable ASCII without quotes, '<', '>', '&' and '\\'. */
void shape_reason(const struct package_shape *s, uint32_t fact, char ret[PACKAGE_SHAPE_REASON_MAX]);

/* Copy an event to the output. Shapers pass on every event that they do not replace. */
void shape_copy(struct package_shape *s, enum doc_event ev, const char *bytes, size_t n);

void shape_npm_on(struct doc_json *j, enum doc_event ev, const char *bytes, size_t n);
void shape_pypi_on(struct doc_json *j, enum doc_event ev, const char *bytes, size_t n);
void shape_html_on(struct doc_json *j, enum doc_event ev, const char *bytes, size_t n);
void shape_html_end(struct package_shape *s);
void shape_cargo_on(struct doc_json *j, enum doc_event ev, const char *bytes, size_t n);
void shape_lines_feed(struct package_shape *s, const char *bytes, size_t n);
void shape_lines_end(struct package_shape *s);
