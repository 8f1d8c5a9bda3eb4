/* shape_npm.c - shapes npm's document of all versions. Hidden versions leave `versions` and `time`,
 * and tags that named them move or vanish. The short form keeps only the members that clients need
 * for installing, and gets a hasInstallScript of ours. One version is the value of its member,
 * without the rest. */
#include <string.h>

#include "lib/packages/package_shape_private.h"

enum shape_npm_place { OTHER, ROOT, VERSIONS, VERSION, TIME, TAGS };

/* The members of the short form, of the document and of a version. */
static const char *const short_root[] = { "name", "modified", "dist-tags", "versions" };
static const char *const short_version[] = {
	"name",
	"version",
	"deprecated",
	"dependencies",
	"devDependencies",
	"optionalDependencies",
	"peerDependencies",
	"peerDependenciesMeta",
	"bundleDependencies",
	"bundledDependencies",
	"acceptDependencies",
	"bin",
	"directories",
	"dist",
	"engines",
	"cpu",
	"os",
	"libc",
	"funding",
	"_hasShrinkwrap",
};

static bool key_in(const struct doc_json *j, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (doc_json_key_is(j, names[i]))
			return true;
	}
	return false;
}

/* ---- removed members */

/* Times of hidden versions would tell of them. */
static bool time_is_shown(struct package_shape *s)
{
	struct doc_json *j = &s->json;

	return doc_json_key_is(j, "created") || doc_json_key_is(j, "modified") ||
	       doc_json_key_is(j, "unpublished") ||
	       (!j->key_odd && shape_is_shown(s, facts_find_version(&s->meta->table, j->key)));
}

/* skip is 0 from the one version on, until on_close() sets it again. */
static void begin_version(struct package_shape *s)
{
	struct doc_json *j = &s->json;

	s->fact = j->key_odd ? FACTS_NONE : facts_find_version(&s->meta->table, j->key);
	s->drop = !shape_is_shown(s, s->fact);
	if (s->drop || s->spec.as != SHAPE_NPM_ONE)
		return;
	s->drop = s->one.one == NULL || strcmp(s->one.one, j->key) != 0;
	if (!s->drop)
		s->skip = 0;
}

static void on_key(struct package_shape *s)
{
	struct doc_json *j = &s->json;
	bool brief = s->spec.as == SHAPE_NPM_SHORT;

	switch ((enum shape_npm_place)j->place[j->depth]) {
	case ROOT:
		s->drop = brief && !key_in(j, short_root, COUNT(short_root));
		s->added = s->added || doc_json_key_is(j, "modified");
		break;
	case VERSION:
		s->drop = brief && !key_in(j, short_version, COUNT(short_version));
		break;
	case TIME:
		s->drop = !time_is_shown(s);
		break;
	case VERSIONS: /* members here must be objects: others are no versions */
	case TAGS:
		s->drop = true;
		break;
	case OTHER:
		break;
	}
}

/* As in the first pass (meta_npm.c): both must see the same versions. */
static enum shape_npm_place place_of(struct package_shape *s)
{
	struct doc_json *j = &s->json;

	if (j->depth == 1)
		return ROOT;
	if (j->array)
		return OTHER;
	if (j->place[j->depth - 1] == VERSIONS)
		return VERSION;
	if (j->place[j->depth - 1] != ROOT)
		return OTHER;
	if (doc_json_key_is(j, "versions"))
		return VERSIONS;
	if (doc_json_key_is(j, "time"))
		return TIME;
	return doc_json_key_is(j, "dist-tags") ? TAGS : OTHER;
}

/* SHAPE_NPM_ONE leaves out everything but the one version, which begin_version() lets through. */
static void on_open(struct package_shape *s)
{
	struct doc_json *j = &s->json;
	enum shape_npm_place p = place_of(s);

	j->place[j->depth] = (uint8_t)p;
	if (s->spec.as == SHAPE_NPM_ONE && p == ROOT)
		s->drop = true;
	if (p == VERSION)
		begin_version(s);
	shape_copy(s, DOC_OPEN, NULL, 0);
}

/* ---- added members
 *
 * Members of ours come last in their object, behind all that were copied. */

static void on_close(struct package_shape *s)
{
	struct doc_json *j = &s->json;
	bool brief = s->spec.as == SHAPE_NPM_SHORT && s->skip == 0;

	if (brief && j->place[j->depth] == VERSION &&
	    s->meta->table.facts[s->fact].code == INSTALL_CODE_YES) {
		doc_writer_member(&s->writer, "hasInstallScript");
		doc_writer_raw(&s->writer, "true", 4);
	}
	if (brief && j->depth == 1 && !s->added && s->meta->modified[0] != '\0') {
		doc_writer_member(&s->writer, "modified");
		doc_writer_text(&s->writer, s->meta->modified);
	}
	shape_copy(s, DOC_CLOSE, NULL, 0);
	/* The rest of the document is left out again. */
	if (s->spec.as == SHAPE_NPM_ONE && j->depth == 3 && j->place[3] == VERSION && s->skip == 0)
		s->skip = 1;
}

/* Write a tag: with its own version if shown, else with the version it moves to. */
static void end_tag(struct package_shape *s)
{
	struct doc_json *j = &s->json;
	const char *to = j->text;

	if (j->key_odd || j->odd || s->skip > 0)
		return;
	if (!shape_is_shown(s, facts_find_version(&s->meta->table, to))) {
		s->searches++;
		to = shape_moved(s, to);
	}
	if (to == NULL)
		return;
	doc_writer_value(&s->writer, j->raw, j->nraw);
	doc_writer_text(&s->writer, to);
}

void shape_npm_on(struct doc_json *j, enum doc_event ev, const char *bytes, size_t n)
{
	struct package_shape *s = j->arg;
	bool tag = j->place[j->depth] == TAGS;

	if (ev == DOC_OPEN) {
		on_open(s);
	} else if (ev == DOC_CLOSE) {
		on_close(s);
	} else if (ev == DOC_KEY) {
		on_key(s);
	} else {
		if (ev == DOC_STRING)
			j->want = tag;
		shape_copy(s, ev, bytes, n);
		if (ev == DOC_STRING_END && tag)
			end_tag(s);
	}
}
