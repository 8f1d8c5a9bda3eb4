/* package_lockfiles.c - turns the lockfiles of a packages member into pins when the document of an
 * author is read: by cordond, or for `cordon run`. A merged document has no lockfiles, so the
 * cordon-egress of a server never reads one. Called by packages_read.c. The texts come from the
 * author of the policy, never from the cell: programs in the cell could otherwise choose the
 * packages of the session. */
#include "lib/policy/package_pins.h"

#include <stdio.h>
#include <string.h>

#include "lib/packages/lock.h"
#include "lib/packages/lock_json.h"

/* All files of a document share one bound, so their number cannot multiply the work. */
int package_lockfile_check(const char *name, size_t n, const char *at, size_t *left, struct err *e)
{
	if (!lock_knows(name))
		return policy_value_fail(e, at, "name",
					 "must be the name of a lockfile such as package-lock.json "
					 "or requirements.txt");
	if (n > *left)
		return policy_value_fail(e, at, "text",
					 "all files together have more than %u bytes",
					 LOCKFILES_TEXT_MAX);
	*left -= n;
	return 0;
}

int package_lockfile_fail(const char *name, const char *at, struct err *e)
{
	return err_wrap(e, "%.60s (%.80s)", at, name);
}

/* {"name": "package-lock.json", "text": "..."} */
static int read_one(json_t *pins, const json_t *v, const char *at, size_t *left, struct err *e)
{
	static const char *const members[] = { "name", "text" };
	const char *name = NULL;
	const json_t *text = json_object_get(v, "text");
	size_t n = json_string_length(text);

	if (policy_value_known(v, members, COUNT(members), at, e) < 0 ||
	    policy_value_text(json_object_get(v, "name"), 255, at, "name", &name, e) < 0)
		return -1;
	if (!json_is_string(text))
		return policy_value_fail(e, at, "text", "must be text");
	if (name == NULL)
		name = "";
	if (package_lockfile_check(name, n, at, left, e) < 0)
		return -1;
	return lock_json_add(name, json_string_value(text), n, pins, e) < 0
		       ? package_lockfile_fail(name, at, e)
		       : 0;
}

static int read_all(json_t *pins, const json_t *list, const char *at, struct err *e)
{
	size_t left = LOCKFILES_TEXT_MAX;

	for (size_t i = 0; i < json_array_size(list); i++) {
		char place[64];

		(void)snprintf(place, sizeof(place), "%s.lockfiles[%zu]", at, i);
		if (read_one(pins, json_array_get(list, i), place, &left, e) < 0)
			return -1;
	}
	return 0;
}

/* Add the pins that lockfiles_fold.c made from the files. They are read like other pins. */
static int add_folded(json_t *pins, json_t *more, const char *at, struct err *e)
{
	const char *key;
	json_t *versions;

	json_object_foreach(more, key, versions)
	{
		json_t *have = json_object_get(pins, key);

		if (have != NULL && (!json_is_array(have) || !json_is_array(versions)))
			return policy_value_fail(e, at, "pins", "must have lists of versions");
		if ((have == NULL ? json_object_set(pins, key, versions)
				  : json_array_extend(have, versions)) < 0)
			return policy_no_memory(e);
	}
	return 0;
}

/* The pins of the member, created if absent. NULL: with the error set. */
static json_t *find_pins(json_t *packages, const char *at, struct err *e)
{
	json_t *pins = json_object_get(packages, "pins");

	if (pins == NULL && json_object_set_new(packages, "pins", json_object()) < 0)
		IGNORED(policy_no_memory(e), "reported by NULL");
	else if (pins != NULL && !json_is_object(pins))
		IGNORED(policy_value_fail(e, at, "pins", "must be an object"), "reported by NULL");
	else
		return json_object_get(packages, "pins");
	return NULL;
}

/* The member is an object after lockfiles_fold.c, and a list otherwise. */
int package_lockfiles_expand(json_t *packages, const char *at, struct err *e)
{
	json_t *list = json_object_get(packages, "lockfiles"), *pins;

	if (list == NULL)
		return 0;
	if (!json_is_object(list) &&
	    (!json_is_array(list) || json_array_size(list) > LOCKFILES_MAX))
		return policy_value_fail(e, at, "lockfiles", "must be a list of at most %d files",
					 LOCKFILES_MAX);
	pins = find_pins(packages, at, e);
	if (pins == NULL || (json_is_object(list) ? add_folded(pins, list, at, e)
						  : read_all(pins, list, at, e)) < 0)
		return -1;
	(void)json_object_del(packages, "lockfiles");
	return 0;
}
