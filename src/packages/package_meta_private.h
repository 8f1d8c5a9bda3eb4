/* package_meta_private.h - what package_meta.c and the readers of single documents (meta_*.c)
 * share. Readers fill the table and report failures of it by meta_check(), those of the document by
 * doc_json_refuse(). */
#pragma once

#include "doc_json.h"
#include "doc_lines.h"
#include "facts_table.h"
#include "file_digests.h"
#include "package.h"
#include "package_meta.h"

#define META_URL_MAX DOC_JSON_TEXT

/* The file, version or line that is being read; its members as they come. */
struct meta_item {
	uint32_t fact;
	unsigned seen; /* bits: members that were there, by the reader's table */
	char version[PACKAGE_VERSION_MAX], file[PACKAGE_FILE_MAX], path[PACKAGE_FILE_MAX];
	struct digest digest, weak;
	uint64_t time_ms, size;
	bool has_time, yanked, code, foreign, bad;
};

struct package_meta {
	enum package_doc doc;
	char name[PACKAGE_NAME_MAX];
	bool (*url_allowed)(const char *url, void *arg);
	void *arg;
	struct facts_table table;
	struct file_digests files; /* apt's Packages */
	uint64_t bytes;
	bool quarantined, ended;
	bool is_read;	   /* all bytes were read; facts may have to be put in order */
	char modified[40]; /* npm's time.modified; "": none */
	/* While it is read. */
	struct doc_json json;
	struct doc_lines lines;
	unsigned seen_root;
	struct meta_item item;
	bool in_list;	       /* apt: in the list of SHA-256 */
	unsigned nlines;       /* of an answer of Go's checksum database; counted up to 6 */
	struct gunzip *gunzip; /* owned; NULL: the document is not gzip */
	struct err err;	       /* of the table */
};

/* Remembers a failure of the table and ends the reading. */
void meta_check(struct package_meta *m, int rc);
/* True if the member was not there before; else the document is refused. */
bool meta_once(struct package_meta *m, unsigned *seen, unsigned bit);
/* The text of a member that is read; NULL, and the document is refused, if it is odd or longer than
 * cap - 1. */
const char *meta_text(struct package_meta *m, size_t cap);
/* An item without anything. */
void meta_item_begin(struct meta_item *it);
/* The last segment of an address, without escapes; "" if it has none that is a file name. Also the
 * verdict on the address. */
void meta_item_url(struct package_meta *m, struct meta_item *it, const char *url);
/* The item becomes a fact (item->fact, or a new one). */
void meta_item_end(struct package_meta *m, struct meta_item *it);

/* Copies a text if it fits; else *to stays as it is. */
void meta_copy(char *to, size_t cap, const char *from);

/* Readers: events of JSON, or lines. */
void meta_npm_on(struct doc_json *j, enum doc_event ev, const char *bytes, size_t n);
void meta_pypi_on(struct doc_json *j, enum doc_event ev, const char *bytes, size_t n);
void meta_cargo_on(struct doc_json *j, enum doc_event ev, const char *bytes, size_t n);
void meta_go_on(struct doc_json *j, enum doc_event ev, const char *bytes, size_t n);
void meta_line_on(struct doc_lines *l, void *arg);
/* At the end of a document: apt's last stanza, checksums that are missing. */
void meta_line_end(struct package_meta *m);
/* meta_sums.c: lines of DOC_CHECKSUM and DOC_GO_SUMDB, and their end. */
void meta_sums_checksum(struct package_meta *m, const struct doc_lines *l);
void meta_sums_database(struct package_meta *m, const struct doc_lines *l);
void meta_sums_end(struct package_meta *m);
