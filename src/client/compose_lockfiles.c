/* compose_lockfiles.c - see compose_lockfiles.h. The file is read here and sent as pins, which are
 * shorter than the text. */
#include "compose_lockfiles.h"

#include <fcntl.h>
#include <stdlib.h>

#include "io.h"
#include "lock_json.h"

/* The object of that name, which is made if it is not there. NULL: it is something else. */
static json_t *object_in(json_t *parent, const char *name)
{
	json_t *found = json_object_get(parent, name);

	if (found == NULL && json_object_set_new(parent, name, json_object()) == 0)
		found = json_object_get(parent, name);
	return json_is_object(found) ? found : NULL;
}

static int add_file(json_t *pins, const char *path, char *text, struct err *e)
{
	ssize_t n = io_read_file(AT_FDCWD, path, text, LOCK_TEXT_MAX + 2, e);

	if (n < 0 || lock_json_add(path, text, (size_t)n, pins, e) < 0)
		return err_wrap(e, "--lockfile");
	return 0;
}

int compose_lockfiles(json_t *body, const char *member, const struct option_list *files,
		      struct err *e)
{
	json_t *policy = json_object_get(body, member), *packages, *pins;
	OWN_MEM char *text = files->n == 0 ? NULL : malloc(LOCK_TEXT_MAX + 2);

	if (files->n == 0)
		return 0;
	if (policy == NULL)
		return err_set(e, ERR_INVALID,
			       "--lockfile: give a --policy that has registries, such as packages");
	packages = object_in(policy, "packages");
	pins = packages == NULL ? NULL : object_in(packages, "pins");
	if (pins == NULL)
		return err_set(e, ERR_INVALID,
			       "--lockfile: packages or pins of the policy is not an object");
	if (json_object_get(packages, "mode") == NULL &&
	    json_object_set_new(packages, "mode", json_string("pinned")) < 0)
		return err_set(e, ERR_SYSTEM, "out of memory");
	if (text == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	for (size_t i = 0; i < files->n; i++)
		if (add_file(pins, files->items[i], text, e) < 0)
			return -1;
	return 0;
}
