/* package_shape_private.h - what package_shape.c and the shapers of single documents (shape_*.c)
 * share. Places of containers are the shaper's own, as in the readers. */
#pragma once

#include "doc_writer.h"
#include "package_meta_private.h"
#include "package_shape.h"
#include "shape_tags.h"

/* PyPI's HTML: the file whose object is being read. */
struct html_file {
	char url[META_URL_MAX], python[512], yanked[512], metadata[DIGEST_TEXT_MAX];
	bool is_yanked, has_metadata;
};

struct package_shape {
	struct package_shape_spec spec;
	const struct package_meta *meta;
	uint8_t *shown; /* owned: one bit for each fact */
	/* Owned: of the first fact of a version, whether a file of it has an address in the
	 * registry. */
	uint8_t *here;
	size_t judged, nshown, nhidden;
	/* FACTS_NONE: none. The first is the highest version where versions have an order (npm,
	 * cargo, Go), else the newest by time, as the others. */
	uint32_t newest_hidden, newest_release, newest_any;
	struct shape_tags tags;
	struct package_shape_result one; /* SHAPE_NPM_ONE: of the whole, when it is judged */
	/* While it writes. */
	struct doc_json json;
	struct doc_writer writer;
	unsigned skip; /* the depth of the container that is left out; 0: none */
	bool drop;     /* the value that comes is left out */
	bool quiet;    /* the text that is being read is left out or written at its end */
	size_t nth;    /* objects of files, or lines, so far */
	uint32_t fact; /* of the version, file or line that is being read */
	bool added;    /* a member that is added at the end was there */
	bool header;   /* HTML: begun */
	struct html_file html;
	/* Lines of text: the first word, until it is decided. */
	char word[PACKAGE_VERSION_MAX + 8];
	size_t nword;
	bool decided, pass;
	struct err err;
};

bool shape_is_shown(const struct package_shape *s, uint32_t fact);
/* Has a version, by its first fact, a file in the registry? */
bool shape_is_here(const struct package_shape *s, uint32_t fact);
/* The version that a tag has when its own is hidden: shape_tags.h, and the newest release by time
 * where versions have no order. NULL: none. */
const char *shape_moved(const struct package_shape *s, const char *version);
bool shape_is_release(const char *version);
/* Why a fact is refused: printable ASCII without quotes, '<', '>', '&' and '\\'. */
void shape_reason(const struct package_shape *s, uint32_t fact, char ret[PACKAGE_SHAPE_REASON_MAX]);

/* Copying, for the shapers: each event ends here unless the shaper does something else. */
void shape_copy(struct package_shape *s, enum doc_event ev, const char *bytes, size_t n);

void shape_npm_on(struct doc_json *j, enum doc_event ev, const char *bytes, size_t n);
void shape_pypi_on(struct doc_json *j, enum doc_event ev, const char *bytes, size_t n);
void shape_html_on(struct doc_json *j, enum doc_event ev, const char *bytes, size_t n);
void shape_html_end(struct package_shape *s);
void shape_cargo_on(struct doc_json *j, enum doc_event ev, const char *bytes, size_t n);
void shape_lines_feed(struct package_shape *s, const char *bytes, size_t n);
void shape_lines_end(struct package_shape *s);
