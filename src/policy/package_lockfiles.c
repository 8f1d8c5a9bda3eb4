/* package_lockfiles.c - lockfiles of a packages member become pins, when a document is read that
 * its author wrote: by cordond, or for `cordon run`. A merged document has none, so cordon-egress
 * of a server never reads one. Called by packages_read.c. The texts come from whoever writes the
 * policy, never from the cell, whose programs could write themselves what they may install. */
#include "package_pins.h"

#include <stdio.h>
#include <string.h>

#include "lock.h"
#include "lock_json.h"

#define LOCKFILES_MAX 16
#define LOCKFILES_TEXT_MAX (4U << 20) /* of all */

static int read_one(json_t *pins, const json_t *v, const char *at, size_t *left, struct err *e)
{
	static const char *const members[] = { "name", "text" };
	const char *name = NULL;
	const json_t *text = json_object_get(v, "text");

	if (policy_value_known(v, members, COUNT(members), at, e) < 0 ||
	    policy_value_text(json_object_get(v, "name"), 255, at, "name", &name, e) < 0)
		return -1;
	if (name == NULL || !lock_knows(name))
		return policy_value_fail(e, at, "name",
					 "must be the name of a lockfile such as package-lock.json "
					 "or requirements.txt");
	if (!json_is_string(text) || json_string_length(text) > *left)
		return policy_value_fail(e, at, "text",
					 "must be text, of all files at most %u bytes",
					 LOCKFILES_TEXT_MAX);
	*left -= json_string_length(text);
	if (lock_json_add(name, json_string_value(text), json_string_length(text), pins, e) < 0)
		return err_wrap(e, "%.60s (%.80s)", at, name);
	return 0;
}

static int read_all(json_t *packages, const json_t *list, const char *at, struct err *e)
{
	json_t *pins = json_object_get(packages, "pins");
	size_t left = LOCKFILES_TEXT_MAX;

	if (pins == NULL) {
		pins = json_object();
		if (json_object_set_new(packages, "pins", pins) < 0)
			return policy_no_memory(e);
	} else if (!json_is_object(pins)) {
		return policy_value_fail(e, at, "pins", "must be an object");
	}
	for (size_t i = 0; i < json_array_size(list); i++) {
		char place[64];

		(void)snprintf(place, sizeof(place), "%s.lockfiles[%zu]", at, i);
		if (read_one(pins, json_array_get(list, i), place, &left, e) < 0)
			return -1;
	}
	return 0;
}

int package_lockfiles_expand(json_t *packages, const char *at, struct err *e)
{
	const json_t *list = json_object_get(packages, "lockfiles");

	if (list == NULL)
		return 0;
	if (!json_is_array(list) || json_array_size(list) > LOCKFILES_MAX)
		return policy_value_fail(e, at, "lockfiles", "must be a list of at most %d files",
					 LOCKFILES_MAX);
	if (read_all(packages, list, at, e) < 0)
		return -1;
	(void)json_object_del(packages, "lockfiles");
	return 0;
}
