/* shape_pypi.c - shapes PyPI's documents as JSON. Refused files are marked as yanked, with the
 * reason. So ranges choose another file, and an exact pin reaches the file, whose refusal tells the
 * reason. Files whose address leaves the registry are left out, and so are versions without any
 * other file. */
#include "lib/packages/package_shape_private.h"

enum shape_pypi_place { OTHER, ROOT, FILES, FILE_, RELEASES, NAMES };

static enum shape_pypi_place in_root(const struct package_shape *s)
{
	const struct doc_json *j = &s->json;
	bool simple = s->meta->doc == DOC_PYPI_SIMPLE;

	if (j->array && doc_json_key_is(j, simple ? "files" : "urls"))
		return FILES;
	if (j->array && simple && doc_json_key_is(j, "versions"))
		return NAMES;
	return !j->array && !simple && doc_json_key_is(j, "releases") ? RELEASES : OTHER;
}

static enum shape_pypi_place place_of(const struct package_shape *s)
{
	const struct doc_json *j = &s->json;
	enum shape_pypi_place in = j->place[j->depth - 1];

	if (j->depth == 1)
		return ROOT;
	if (in == ROOT)
		return in_root(s);
	if (in == RELEASES && j->array)
		return FILES;
	return in == FILES && !j->array ? FILE_ : OTHER;
}

static void begin_file(struct package_shape *s)
{
	const struct facts_table *t = &s->meta->table;

	s->fact = s->nth < t->norder ? t->order[s->nth] : FACTS_NONE;
	s->nth++;
	s->drop = s->fact == FACTS_NONE || t->facts[s->fact].foreign;
}

/* False also inside of a value left out, since nothing is written there. */
static bool is_refused(const struct package_shape *s)
{
	return s->skip == 0 && !shape_is_shown(s, s->fact);
}

/* The members that are written here were left out by is_left_out(). */
static void end_file(struct package_shape *s)
{
	char reason[PACKAGE_SHAPE_REASON_MAX];

	if (!is_refused(s))
		return;
	shape_reason(s, s->fact, reason);
	doc_writer_member(&s->writer, "yanked");
	if (s->meta->doc == DOC_PYPI_LEGACY) {
		doc_writer_raw(&s->writer, "true", 4);
		doc_writer_member(&s->writer, "yanked_reason");
	}
	doc_writer_text(&s->writer, reason);
}

/* Leave out a version if the document has files of it, and all of them lead elsewhere. */
static void end_name(struct package_shape *s)
{
	struct doc_json *j = &s->json;
	uint32_t fact = facts_find_version(&s->meta->table, j->text);

	if (j->odd || s->skip > 0 || j->ntext >= PACKAGE_VERSION_MAX ||
	    !package_version_ok(ECO_PYPI, j->text, j->ntext))
		return;
	if (fact != FACTS_NONE && !shape_is_here(s, fact))
		return;
	doc_writer_value(&s->writer, NULL, 0);
	doc_writer_text(&s->writer, j->text);
}

static void on_open(struct package_shape *s)
{
	struct doc_json *j = &s->json;

	j->place[j->depth] = (uint8_t)place_of(s);
	if (j->place[j->depth] == FILE_)
		begin_file(s);
	else
		s->drop = j->place[j->depth - 1] == FILES || j->place[j->depth - 1] == NAMES;
	shape_copy(s, DOC_OPEN, NULL, 0);
}

/* Leave out non-files in lists of files, and members written here instead. */
static bool is_left_out(const struct package_shape *s)
{
	const struct doc_json *j = &s->json;

	if (j->place[j->depth] == FILES || j->place[j->depth] == NAMES)
		return true;
	return j->place[j->depth] == FILE_ && is_refused(s) &&
	       (doc_json_key_is(j, "yanked") || doc_json_key_is(j, "yanked_reason"));
}

void shape_pypi_on(struct doc_json *j, enum doc_event ev, const char *bytes, size_t n)
{
	struct package_shape *s = j->arg;
	bool name = j->place[j->depth] == NAMES;

	if (ev == DOC_OPEN) {
		on_open(s);
		return;
	}
	if (ev == DOC_CLOSE && j->place[j->depth] == FILE_)
		end_file(s);
	if (ev == DOC_STRING || ev == DOC_WORD)
		s->drop = is_left_out(s);
	if (ev == DOC_STRING)
		j->want = name;
	shape_copy(s, ev, bytes, n);
	if (ev == DOC_STRING_END && name)
		end_name(s);
}
