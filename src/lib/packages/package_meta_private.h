/* package_meta_private.h - shared by package_meta.c and the readers of single documents (meta_*.c).
 * Readers fill the table. They report failures of the table by meta_check(), those of the document
 * by doc_json_refuse(). */
#pragma once

#include "lib/packages/doc_json.h"
#include "lib/packages/package_meta.h"
#include "lib/packages/facts_table.h"
#include "lib/packages/file_digests.h"
#include "lib/packages/package.h"

#define META_URL_MAX DOC_JSON_TEXT

/* The current file, version or line, with the members read so far. */
struct meta_item {
	uint32_t fact;
	unsigned seen; /* bits of members seen, by the reader's table */
	char version[PACKAGE_VERSION_MAX], file[PACKAGE_FILE_MAX], path[PACKAGE_FILE_MAX];
	struct digest digest, weak;
	uint64_t time_ms, size;
	bool has_time, yanked, code, foreign, bad;
};

/* A table of facts, and the state of its reader. */
struct package_meta {
	enum package_doc doc;
	char name[PACKAGE_NAME_MAX];
	bool (*url_allowed)(const char *url, void *arg);
	void *arg;
	struct facts_table table;
	struct file_digests files; /* apt's Packages */
	uint64_t bytes;
	bool quarantined, ended;
	bool is_read;	   /* all bytes were read, but facts may still have to be put in order */
	char modified[40]; /* npm's time.modified, "": none */
	/* While the document is read. */
	struct doc_json json;
	struct doc_lines lines;
	unsigned seen_root;
	struct meta_item item;
	bool in_list;	       /* apt: in the list of SHA-256 */
	unsigned nlines;       /* of an answer of Go's checksum database, counted up to 6 */
	struct gunzip *gunzip; /* owned, NULL: the document is not gzip */
	struct err err;	       /* of the table */
};

/* Remember a failure of the table, and end the reading. */
void meta_check(struct package_meta *m, int rc);
/* Mark a member as seen. False: it was seen before, and the document is refused. */
bool meta_once(struct package_meta *m, unsigned *seen, unsigned bit);
/* The text of the current member. NULL: it is odd or longer than cap - 1, and the document is
 * refused. */
const char *meta_text(struct package_meta *m, size_t cap);
/* Begin an empty item. */
void meta_item_begin(struct meta_item *it);
/* Take the last segment of an address, without escapes. "": it is no file name. Also judge the
 * address. */
void meta_item_url(struct package_meta *m, struct meta_item *it, const char *url);
/* Make a fact of the item (item->fact, or a new one). */
void meta_item_end(struct package_meta *m, struct meta_item *it);

/* Copy a text if it fits. Otherwise *to does not change. */
void meta_copy(char *to, size_t cap, const char *from);

/* The readers, called with events of JSON or lines. */
void meta_npm_on(struct doc_json *j, enum doc_event ev, const char *bytes, size_t n);
void meta_pypi_on(struct doc_json *j, enum doc_event ev, const char *bytes, size_t n);
void meta_cargo_on(struct doc_json *j, enum doc_event ev, const char *bytes, size_t n);
void meta_go_on(struct doc_json *j, enum doc_event ev, const char *bytes, size_t n);
void meta_line_on(struct doc_lines *l, void *arg);
/* End a document of lines: apt's last stanza, missing checksums. */
void meta_line_end(struct package_meta *m);
/* meta_lines.c: lines of DOC_CHECKSUM and DOC_GO_SUMDB, and their end. */
void meta_sums_checksum(struct package_meta *m, const struct doc_lines *l);
void meta_sums_database(struct package_meta *m, const struct doc_lines *l);
void meta_sums_end(struct package_meta *m);
