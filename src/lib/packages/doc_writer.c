/* doc_writer.c - see doc_writer.h. */
#include "lib/packages/doc_writer.h"

#include <string.h>

/* Place a comma, unless the value is the first in its container. */
static void doc_writer_comma(struct doc_writer *w)
{
	if (w->depth == 0)
		return;
	if ((w->filled >> w->depth & 1) != 0)
		buf_put(w->out, ",", 1);
	w->filled |= 1ULL << w->depth;
}

/* The bytes of the value follow by doc_writer_open(), _raw() or _text(). */
void doc_writer_value(struct doc_writer *w, const char *name, size_t n)
{
	doc_writer_comma(w);
	if (name == NULL || w->depth == 0)
		return;
	buf_put(w->out, name, n);
	buf_put(w->out, ":", 1);
}

/* The reader bounds the depth, so its bit fits `filled`. */
void doc_writer_open(struct doc_writer *w, bool array)
{
	buf_put(w->out, array ? "[" : "{", 1);
	w->depth++;
	w->filled &= ~(1ULL << w->depth);
}

void doc_writer_close(struct doc_writer *w, bool array)
{
	buf_put(w->out, array ? "]" : "}", 1);
	w->depth--;
}

void doc_writer_raw(struct doc_writer *w, const char *bytes, size_t n)
{
	buf_put(w->out, bytes, n);
}

void doc_writer_member(struct doc_writer *w, const char *name)
{
	doc_writer_comma(w);
	doc_writer_text(w, name);
	buf_put(w->out, ":", 1);
}

/* The caller passes printable ASCII only, so no other bytes need an escape. */
void doc_writer_text(struct doc_writer *w, const char *text)
{
	buf_put(w->out, "\"", 1);
	for (const char *p = text; *p != '\0'; p++) {
		if (*p == '"' || *p == '\\')
			buf_put(w->out, "\\", 1);
		buf_put(w->out, p, 1);
	}
	buf_put(w->out, "\"", 1);
}
