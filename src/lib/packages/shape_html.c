/* shape_html.c - writes PyPI's simple page as HTML (PEP 503, 592, 658) from the JSON, because only
 * the JSON has times. Every byte of the document is escaped in the page. */
#include <stdio.h>
#include <string.h>

#include "lib/base/str.h"
#include "lib/packages/package_shape_private.h"

enum shape_html_place { OTHER, ROOT, FILES, FILE_, METADATA };

/* Control characters are left out: no attribute needs one. */
static void put_escaped(struct buf *out, const char *text)
{
	for (const char *p = text; *p != '\0'; p++) {
		if (*p == '&')
			buf_put_text(out, "&amp;");
		else if (*p == '<')
			buf_put_text(out, "&lt;");
		else if (*p == '>')
			buf_put_text(out, "&gt;");
		else if (*p == '"')
			buf_put_text(out, "&#34;");
		else if ((unsigned char)*p >= ' ')
			buf_put(out, p, 1);
	}
}

static void put_attribute(struct buf *out, const char *name, const char *value)
{
	buf_put_text(out, " ");
	buf_put_text(out, name);
	buf_put_text(out, "=\"");
	put_escaped(out, value);
	buf_put_text(out, "\"");
}

/* Written before the first file, or at the end of a page without files. */
static void begin_page(struct package_shape *s)
{
	if (s->header)
		return;
	s->header = true;
	buf_put_text(s->writer.out,
		     "<!DOCTYPE html>\n<html>\n<head>\n"
		     "<meta name=\"pypi:repository-version\" content=\"1.0\">\n<title>Links for ");
	put_escaped(s->writer.out, s->meta->name);
	buf_put_text(s->writer.out, "</title>\n</head>\n<body>\n");
}

void shape_html_end(struct package_shape *s)
{
	begin_page(s);
	buf_put_text(s->writer.out, "</body>\n</html>\n");
}

/* Write the address. All clients read the digest behind '#'. */
static void put_address(struct package_shape *s)
{
	struct buf *out = s->writer.out;
	const struct fact *f = &s->meta->table.facts[s->fact];
	char hex[2 * DIGEST_SIZE_MAX + 1];

	buf_put_text(out, "<a href=\"");
	s->html.url[strcspn(s->html.url, "#")] = '\0';
	put_escaped(out, s->html.url);
	if (f->alg != DIGEST_NONE) {
		struct digest d = { .alg = f->alg };
		char text[DIGEST_TEXT_MAX];

		memcpy(d.bytes, f->digest, sizeof(d.bytes));
		digest_write(&d, text);
		str_copy(hex, strchr(text, ':') + 1);
		buf_put_text(out, "#");
		buf_put_text(out, digest_alg_name(d.alg));
		buf_put_text(out, "=");
		buf_put_text(out, hex);
	}
	buf_put_text(out, "\"");
}

/* A refused file is marked as yanked, as in the JSON. */
static void end_file(struct package_shape *s)
{
	struct buf *out = s->writer.out;
	char reason[PACKAGE_SHAPE_REASON_MAX];

	if (s->fact == FACTS_NONE || s->meta->table.facts[s->fact].foreign)
		return;
	begin_page(s);
	put_address(s);
	if (s->html.python[0] != '\0')
		put_attribute(out, "data-requires-python", s->html.python);
	if (s->html.has_metadata) {
		put_attribute(out, "data-dist-info-metadata", s->html.metadata);
		put_attribute(out, "data-core-metadata", s->html.metadata);
	}
	if (!shape_is_shown(s, s->fact)) {
		shape_reason(s, s->fact, reason);
		put_attribute(out, "data-yanked", reason);
	} else if (s->html.is_yanked) {
		put_attribute(out, "data-yanked", s->html.yanked);
	}
	buf_put_text(out, ">");
	put_escaped(out, facts_text(&s->meta->table, s->meta->table.facts[s->fact].file));
	buf_put_text(out, "</a><br>\n");
}

/* ---- reading */

/* The order of files is the same as in the first pass, so the nth object has the nth fact. */
static void begin_file(struct package_shape *s)
{
	const struct facts_table *t = &s->meta->table;

	s->html.url[0] = s->html.python[0] = s->html.yanked[0] = '\0';
	s->html.is_yanked = s->html.has_metadata = false;
	(void)snprintf(s->html.metadata, sizeof(s->html.metadata), "true");
	s->fact = s->nth < t->norder ? t->order[s->nth] : FACTS_NONE;
	s->nth++;
}

/* The standard renamed the member, and registries send either. */
static bool is_metadata(const struct doc_json *j)
{
	return doc_json_key_is(j, "core-metadata") || doc_json_key_is(j, "dist-info-metadata");
}

/* As in the first pass (meta_pypi.c), so that the nth file is the same. */
static enum shape_html_place on_open(struct package_shape *s)
{
	struct doc_json *j = &s->json;
	enum shape_html_place in = j->place[j->depth - 1];

	if (j->depth == 1)
		return ROOT;
	if (in == ROOT)
		return j->array && doc_json_key_is(j, "files") ? FILES : OTHER;
	if (in == FILES && !j->array) {
		begin_file(s);
		return FILE_;
	}
	if (in == FILE_ && !j->array && is_metadata(j)) {
		s->html.has_metadata = true;
		return METADATA;
	}
	return OTHER;
}

/* A text that does not fit is left out, as if the document had none. */
static void on_text(struct package_shape *s)
{
	struct doc_json *j = &s->json;
	struct digest d;

	if (j->place[j->depth] == METADATA) {
		if (doc_json_key_is(j, "sha256") &&
		    digest_read_hex(DIGEST_SHA256, j->text, j->ntext, &d))
			(void)snprintf(s->html.metadata, sizeof(s->html.metadata), "sha256=%.64s",
				       j->text);
	} else if (doc_json_key_is(j, "url")) {
		meta_copy(s->html.url, sizeof(s->html.url), j->text);
	} else if (doc_json_key_is(j, "requires-python")) {
		meta_copy(s->html.python, sizeof(s->html.python), j->text);
	} else if (doc_json_key_is(j, "yanked")) {
		s->html.is_yanked = j->ntext > 0;
		meta_copy(s->html.yanked, sizeof(s->html.yanked), j->text);
	}
}

static void on_word(struct package_shape *s, const char *word)
{
	struct doc_json *j = &s->json;

	if (j->place[j->depth] != FILE_ || strcmp(word, "true") != 0)
		return;
	if (is_metadata(j))
		s->html.has_metadata = true;
	else if (doc_json_key_is(j, "yanked"))
		s->html.is_yanked = true;
}

void shape_html_on(struct doc_json *j, enum doc_event ev, const char *bytes, size_t n)
{
	struct package_shape *s = j->arg;

	switch (ev) {
	case DOC_OPEN:
		j->place[j->depth] = (uint8_t)on_open(s);
		break;
	case DOC_CLOSE:
		if (j->place[j->depth] == FILE_)
			end_file(s);
		break;
	case DOC_STRING:
		j->want = j->place[j->depth] == FILE_ || j->place[j->depth] == METADATA;
		break;
	case DOC_STRING_END:
		if (j->want && !j->odd)
			on_text(s);
		break;
	case DOC_WORD:
		on_word(s, bytes);
		break;
	case DOC_KEY:
	case DOC_RAW:
		break;
	}
}
