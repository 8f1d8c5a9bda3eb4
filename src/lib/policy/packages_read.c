/* packages_read.c - reads the packages member of a document: the member of one layer, or in a
 * merged document one member for each layer. Called by policy_read.c. Strict as the rest of the
 * document: unknown members, malformed names and members without effect are errors that name the
 * place. All kept values are copied, so that the merged document need not be kept. */
#include "lib/policy/packages_private.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/units.h"

#define NEW_NAMES_DEFAULT 200U
/* Ten years. A longer age is probably a mistake. */
#define AGE_MAX_MS (3650ULL * 86400000ULL)

/* The member being read. */
struct packages_reader {
	struct policy *p;
	struct package_arena arena;
	const json_t *v;
	const char *at; /* "packages", or "packages.tenant" */
};

static int read_word(const struct packages_reader *r, const char *name, const char *const *words,
		     size_t n, size_t *ret, struct err *e)
{
	return policy_value_word(json_object_get(r->v, name), words, n, r->at, name, ret, e);
}

/* Read one of two words. The second sets *ret. */
static int read_switch(const struct packages_reader *r, const char *name, const char *off,
		       const char *on, bool *ret, struct err *e)
{
	const char *const words[] = { off, on };
	size_t word = 0;

	if (read_word(r, name, words, COUNT(words), &word, e) < 0)
		return -1;
	*ret = word == 1;
	return 0;
}

static int read_choice(const struct packages_reader *r, const char *name, enum packages_choice *ret,
		       struct err *e)
{
	static const char *const words[] = { "allow", "ask", "deny" };
	size_t word = 0;

	if (read_word(r, name, words, COUNT(words), &word, e) < 0)
		return -1;
	*ret = (enum packages_choice)word;
	return 0;
}

/* The members with a fixed set of words. Absent members keep 0, the default. */
static int read_words(const struct packages_reader *r, struct packages_layer *l, struct err *e)
{
	static const char *const modes[] = { "open", "pinned", "offline", "offline-cache" };
	size_t mode = 0;

	if (read_word(r, "mode", modes, COUNT(modes), &mode, e) < 0 ||
	    read_choice(r, "scripts", &l->scripts, e) < 0 ||
	    read_choice(r, "sources", &l->sources, e) < 0 ||
	    read_switch(r, "unknown_age", "deny", "allow", &l->unknown_age, e) < 0 ||
	    read_switch(r, "search", "deny", "allow", &l->search, e) < 0 ||
	    read_switch(r, "audit", "deny", "allow", &l->audit, e) < 0 ||
	    read_switch(r, "publish", "deny", "allow", &l->publish, e) < 0 ||
	    read_switch(r, "direct", "judge", "deny", &l->no_direct, e) < 0 ||
	    read_switch(r, "advisories", "deny", "ignore", &l->no_advisories, e) < 0 ||
	    read_switch(r, "cache", "shared", "private", &l->cache_private, e) < 0 ||
	    packages_unverified_read(r->v, r->at, &l->unverified, e) < 0)
		return -1;
	l->mode = (enum packages_mode)mode;
	return 0;
}

/* Read "2G", or a number of bytes. */
static int read_bytes(const struct packages_reader *r, const char *name, uint64_t *ret,
		      struct err *e)
{
	const json_t *v = json_object_get(r->v, name);
	struct err why = { 0 };

	if (v == NULL)
		return 0;
	if (json_is_integer(v) && json_integer_value(v) > 0) {
		*ret = (uint64_t)json_integer_value(v);
		return 0;
	}
	if (json_is_string(v) && units_bytes(json_string_value(v), 1, INT64_MAX, ret, &why) == 0)
		return 0;
	return policy_value_fail(e, r->at, name, "must be a size such as 512M, above 0");
}

static int read_age(const struct packages_reader *r, uint64_t *ret, struct err *e)
{
	const json_t *v = json_object_get(r->v, "min_age");
	struct err why = { 0 };

	if (v == NULL)
		return 0;
	if (json_is_string(v) && units_time_ms(json_string_value(v), 0, AGE_MAX_MS, ret, &why) == 0)
		return 0;
	return policy_value_fail(e, r->at, "min_age", "must be a time such as 7d, at most 3650d");
}

static int read_limits(const struct packages_reader *r, struct packages_layer *l, struct err *e)
{
	const json_t *names = json_object_get(r->v, "new_names");

	l->limits.new_names = NEW_NAMES_DEFAULT;
	if (names != NULL) {
		if (!json_is_integer(names) || json_integer_value(names) < 1 ||
		    json_integer_value(names) > 1000000)
			return policy_value_fail(e, r->at, "new_names",
						 "must be a number from 1 to 1000000");
		l->limits.new_names = (uint64_t)json_integer_value(names);
	}
	if (read_bytes(r, "bytes", &l->limits.bytes, e) < 0 ||
	    read_bytes(r, "file_bytes", &l->limits.file_bytes, e) < 0)
		return -1;
	return read_age(r, &l->min_age_ms, e);
}

/* A document checked before is read again without its long lists: only their presence counts. */
static int read_patterns(struct packages_reader *r, const char *name, struct package_patterns *ret,
			 struct err *e)
{
	if (r->p->checked) {
		ret->given = json_object_get(r->v, name) != NULL;
		return 0;
	}
	return package_patterns_read(r->p, &r->arena, json_object_get(r->v, name), r->at, name, ret,
				     e);
}

/* A preset may have the other member. Then the merged document is checked. */
static int check_effects(const struct packages_reader *r, const struct packages_layer *l,
			 struct err *e)
{
	if (!r->p->merged && json_object_get(r->p->root, "extends") != NULL)
		return 0;
	if (l->min_age_except.given && l->min_age_ms == 0)
		return policy_value_fail(e, r->at, "min_age_except",
					 "has no effect without min_age");
	if (l->scripts_except.given && l->scripts == PACKAGES_PASS)
		return policy_value_fail(e, r->at, "scripts_except",
					 "has no effect if scripts are allowed");
	return 0;
}

static int read_lists(struct packages_reader *r, struct packages_layer *l, struct err *e)
{
	if (read_patterns(r, "allow", &l->allow, e) < 0 ||
	    read_patterns(r, "deny", &l->deny, e) < 0 || read_patterns(r, "own", &l->own, e) < 0 ||
	    read_patterns(r, "min_age_except", &l->min_age_except, e) < 0 ||
	    read_patterns(r, "scripts_except", &l->scripts_except, e) < 0)
		return -1;
	if (check_effects(r, l, e) < 0)
		return -1;
	if (packages_registry_read(r->p, &r->arena, json_object_get(r->v, "registries"), r->at,
				   &l->registries, e) < 0)
		return -1;
	if (r->p->checked)
		return 0;
	return package_pins_read(r->p, &r->arena, json_object_get(r->v, "pins"), r->at, &l->pins,
				 e);
}

/* Read the member of one layer. */
static int read_layer(struct policy *p, const json_t *v, const char *at, struct packages_layer *l,
		      struct err *e)
{
	static const char *const members[] = {
		"registries", "mode",	   "min_age",	 "min_age_except", "unknown_age", "allow",
		"deny",	      "own",	   "scripts",	 "scripts_except", "sources",	  "pins",
		"bytes",      "search",	   "file_bytes", "advisories",	   "audit",	  "publish",
		"direct",     "new_names", "cache",	 "unverified"
	};
	struct packages_reader r = { .p = p, .v = v, .at = at };

	if (policy_value_known(v, members, COUNT(members), at, e) < 0)
		return -1;
	l->given = true;
	if (read_words(&r, l, e) < 0 || read_limits(&r, l, e) < 0)
		return -1;
	return read_lists(&r, l, e);
}

/* {"node": {...}, "tenant": {...}, "session": {...}} */
static int read_merged(struct policy *p, const json_t *v, struct packages_policy *all,
		       struct err *e)
{
	if (policy_value_known(v, policy_layer_names, POLICY_LAYERS, "packages", e) < 0)
		return -1;
	for (size_t i = 0; i < POLICY_LAYERS; i++) {
		const json_t *one = json_object_get(v, policy_layer_names[i]);
		char at[32];

		(void)snprintf(at, sizeof(at), "packages.%s", policy_layer_names[i]);
		if (one != NULL && read_layer(p, one, at, &all->layers[i], e) < 0)
			return -1;
	}
	return 0;
}

int packages_read(struct policy *p, enum policy_layer layer, struct err *e)
{
	json_t *v = json_object_get(p->root, "packages");
	struct packages_policy *all;

	if (v == NULL)
		return 0;
	all = policy_alloc(p, 1, sizeof(*all));
	if (all == NULL)
		return policy_no_memory(e);
	if (p->merged) {
		if (read_merged(p, v, all, e) < 0)
			return -1;
	} else if (package_lockfiles_expand(v, "packages", e) < 0 ||
		   read_layer(p, v, "packages", &all->layers[layer], e) < 0) {
		return -1;
	}
	if (packages_layers_join(p, all, e) < 0)
		return -1;
	p->packages = all;
	return 0;
}
