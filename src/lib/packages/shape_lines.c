/* shape_lines.c - shapes documents of lines. In cargo's index, a refused version is marked as
 * yanked. In Go's list, its line is removed. The first word of a line decides, and the rest is
 * passed on or dropped with it. */
#include <string.h>

#include "lib/packages/package_shape_private.h"

/* ---- cargo: one object a line */

/* Foreign lines are dropped, since their address leaves the registry. */
static void begin_line(struct package_shape *s)
{
	const struct facts_table *t = &s->meta->table;

	s->fact = s->nth < t->norder ? t->order[s->nth] : FACTS_NONE;
	s->nth++;
	s->drop = s->fact == FACTS_NONE || t->facts[s->fact].foreign;
}

void shape_cargo_on(struct doc_json *j, enum doc_event ev, const char *bytes, size_t n)
{
	struct package_shape *s = j->arg;
	bool refused = s->skip == 0 && !shape_is_shown(s, s->fact);
	bool outer = j->depth == 1;

	if (ev == DOC_OPEN && outer)
		begin_line(s);
	if (ev == DOC_KEY && outer)
		s->drop = refused && doc_json_key_is(j, "yanked");
	if (ev == DOC_CLOSE && outer && refused) {
		doc_writer_member(&s->writer, "yanked");
		doc_writer_raw(&s->writer, "true", 4);
	}
	outer = outer && s->skip == 0;
	shape_copy(s, ev, bytes, n);
	if (ev == DOC_CLOSE && outer)
		doc_writer_raw(&s->writer, "\n", 1);
}

/* ---- Go */

/* A word that is too long is no version, and is compared as "". */
static void shape_lines_decide(struct package_shape *s)
{
	s->word[s->nword < sizeof(s->word) ? s->nword : 0] = '\0';
	s->decided = true;
	s->pass = shape_is_shown(s, facts_find_version(&s->meta->table, s->word));
}

/* Collect the first word of a line. Return how many bytes were taken. */
static size_t first_word(struct package_shape *s, const char *p, size_t n)
{
	size_t i = 0;

	while (i < n && p[i] != '\n' && p[i] != '\r' && p[i] != ' ') {
		if (p[i] == '\0')
			s->nword = sizeof(s->word); /* no version has a NUL */
		if (s->nword < sizeof(s->word))
			s->word[s->nword++] = p[i];
		i++;
	}
	if (i == n)
		return i;
	shape_lines_decide(s);
	if (s->pass)
		buf_put(s->writer.out, s->word, strlen(s->word));
	return i;
}

/* The line end belongs to the rest, so a dropped line leaves none. */
static size_t rest_of_line(struct package_shape *s, const char *p, size_t n)
{
	const char *nl = memchr(p, '\n', n);
	size_t len = nl == NULL ? n : (size_t)(nl - p) + 1;

	if (s->pass)
		buf_put(s->writer.out, p, len);
	if (nl != NULL) {
		s->decided = false;
		s->nword = 0;
	}
	return len;
}

void shape_lines_feed(struct package_shape *s, const char *bytes, size_t n)
{
	for (size_t i = 0; i < n;)
		i += s->decided ? rest_of_line(s, bytes + i, n - i)
				: first_word(s, bytes + i, n - i);
}

/* End the last line, if the document did not. */
void shape_lines_end(struct package_shape *s)
{
	if (s->nword == 0)
		return;
	if (!s->decided)
		shape_lines_feed(s, "\n", 1);
	else if (s->pass)
		buf_put(s->writer.out, "\n", 1);
}
