/* shape_copy.c - writes the events of a document as the same document, without white space and
 * without the values that the shaper leaves out by setting s->drop in front of them. */
#include "lib/packages/package_shape_private.h"

/* parent: the depth of the container around the value. The name of a member comes with its value,
 * so a value left out leaves no name behind. */
static void begin_value(struct package_shape *s, unsigned parent)
{
	struct doc_json *j = &s->json;

	if (parent == 0 || (j->arrays >> parent & 1) != 0)
		doc_writer_value(&s->writer, NULL, 0);
	else
		doc_writer_value(&s->writer, j->raw, j->nraw);
}

/* Is the next value left out? */
static bool left_out(struct package_shape *s)
{
	bool out = s->skip > 0 || s->drop;

	s->drop = false;
	return out;
}

static void on_open(struct package_shape *s)
{
	bool begins = s->skip == 0;

	if (left_out(s)) {
		if (begins)
			s->skip = s->json.depth;
		return;
	}
	begin_value(s, s->json.depth - 1);
	doc_writer_open(&s->writer, s->json.array);
}

/* The container that began the gap ends it. */
static void on_close(struct package_shape *s)
{
	if (s->skip == 0)
		doc_writer_close(&s->writer, s->json.array);
	else if (s->skip == s->json.depth)
		s->skip = 0;
}

void shape_copy(struct package_shape *s, enum doc_event ev, const char *bytes, size_t n)
{
	switch (ev) {
	case DOC_OPEN:
		on_open(s);
		break;
	case DOC_CLOSE:
		on_close(s);
		break;
	case DOC_STRING:
		s->quiet = left_out(s);
		if (!s->quiet)
			begin_value(s, s->json.depth);
		break;
	case DOC_RAW:
		if (!s->quiet)
			doc_writer_raw(&s->writer, bytes, n);
		break;
	case DOC_WORD:
		if (!left_out(s)) {
			begin_value(s, s->json.depth);
			doc_writer_raw(&s->writer, bytes, n);
		}
		break;
	case DOC_KEY:
	case DOC_STRING_END:
		break;
	}
}
