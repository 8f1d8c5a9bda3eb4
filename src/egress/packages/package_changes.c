/* package_changes.c - see package_changes.h. Pure but for memory. */
#include "egress/packages/package_changes.h"

#include <stdlib.h>
#include <string.h>

void package_changes_release(struct package_changes *c)
{
	for (unsigned i = 0; i < c->nchanged; i++)
		free(c->changed[i]);
	for (unsigned i = 0; i < c->nbackdated; i++)
		free(c->backdated[i].file);
	*c = (struct package_changes){ 0 };
}

const char *package_changes_name(const struct package_facts *f)
{
	return f->file[0] != '\0' ? f->file : f->version;
}

/* ---- files that changed */

bool package_changes_is_changed(const struct package_changes *c, const char *file)
{
	for (unsigned i = 0; i < c->nchanged; i++)
		if (strcmp(c->changed[i], file) == 0)
			return true;
	return c->all_changed;
}

/* A fact that one of both documents lacks is no change. Neither are digests by two algorithms. */
static bool is_same(const struct package_facts *was, const struct package_facts *is)
{
	if (was->digest.alg == is->digest.alg && was->digest.alg != DIGEST_NONE &&
	    !digest_equal(&was->digest, &is->digest))
		return false;
	return !was->has_time || !is->has_time || was->time_ms == is->time_ms;
}

/* Without room or memory all files count as changed: that refuses too much, and nothing too little.
 */
static void remember_changed(struct package_changes *c, const char *file)
{
	if (package_changes_is_changed(c, file))
		return;
	if (c->nchanged < PACKAGE_CHANGES_MAX)
		c->changed[c->nchanged] = strdup(file);
	if (c->nchanged == PACKAGE_CHANGES_MAX || c->changed[c->nchanged] == NULL)
		c->all_changed = true;
	else
		c->nchanged++;
}

/* ---- files that claim to be old */

uint64_t package_changes_backdated(const struct package_changes *c, const char *file)
{
	for (unsigned i = 0; i < c->nbackdated; i++)
		if (strcmp(c->backdated[i].file, file) == 0)
			return c->backdated[i].seen_ms;
	return c->all_backdated_ms;
}

/* True: it was not known. */
static bool remember_backdated(struct package_changes *c, const char *file, uint64_t now_ms)
{
	struct package_backdated *b = &c->backdated[c->nbackdated];

	if (package_changes_backdated(c, file) != 0)
		return false;
	if (c->nbackdated < PACKAGE_CHANGES_MAX)
		*b = (struct package_backdated){ strdup(file), now_ms };
	if (c->nbackdated == PACKAGE_CHANGES_MAX || b->file == NULL)
		c->all_backdated_ms = now_ms;
	else
		c->nbackdated++;
	return true;
}

/* ---- both */

static bool package_changes_find(const struct package_meta *in, const struct package_facts *f,
				 struct package_facts *ret)
{
	return f->file[0] != '\0' ? package_meta_find_file(in, f->file, ret)
				  : package_meta_find_version(in, f->version, ret);
}

static bool is_new(const struct package_changes_pair *p, const struct package_facts *f)
{
	struct package_facts old;

	return !(p->by_version ? package_meta_find_version(p->was, f->version, &old)
			       : package_changes_find(p->was, f, &old));
}

/* The registry's former and present facts about a file. */
static void compare_old(struct package_changes *c, const struct package_changes_pair *p, size_t i)
{
	struct package_facts old, new;

	package_meta_get(p->was, i, &old);
	if (package_changes_find(p->is, &old, &new) && !is_same(&old, &new))
		remember_changed(c, package_changes_name(&old));
}

/* True: the file was not there before, claims to be older, and was not known. */
static bool is_backdated(struct package_changes *c, const struct package_changes_pair *p, size_t i,
			 struct package_facts *ret)
{
	package_meta_get(p->is, i, ret);
	return ret->has_time && ret->time_ms + PACKAGE_CHANGES_DELAY_MS < p->was_ms &&
	       is_new(p, ret) && remember_backdated(c, package_changes_name(ret), p->now_ms);
}

bool package_changes_compare(struct package_changes *c, const struct package_changes_pair *p,
			     size_t *at,
			     void (*on_backdated)(const struct package_facts *f, void *arg),
			     void *arg)
{
	size_t was = package_meta_count(p->was), all = was + package_meta_count(p->is);
	struct package_facts new;

	for (size_t i = 0; i < PACKAGE_CHANGES_AT_ONCE && *at < all; i++, (*at)++) {
		if (*at < was)
			compare_old(c, p, *at);
		else if (is_backdated(c, p, *at - was, &new))
			on_backdated(&new, arg);
	}
	return *at < all;
}
