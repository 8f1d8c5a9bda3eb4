/* create.c - see create.h. The body is made first and sent by a second function, so that a verb
 * can add members in between, or refuse the command line before a session exists. */
#include "cmd/client/create.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd/base/options.h"
#include "cmd/client/compose.h"
#include "cmd/client/member.h"
#include "lib/base/io.h"
#include "lib/packages/lock_json.h"

/* ---- --lockfile: pins of a session. The file is read here and sent as pins, shorter than the
 * text. */

/* The object of that name, made if missing. NULL: another kind of value. */
static json_t *object_in(json_t *parent, const char *name)
{
	json_t *found = json_object_get(parent, name);

	if (found == NULL && json_object_set_new(parent, name, json_object()) == 0)
		found = json_object_get(parent, name);
	return json_is_object(found) ? found : NULL;
}

/* text is a buffer for one file, reused for each. The formats of lockfiles are in lib/packages. */
static int add_file(json_t *pins, const char *path, char *text, struct err *e)
{
	ssize_t n = io_read_file(AT_FDCWD, path, text, LOCK_TEXT_MAX + 2, e);

	if (n < 0 || lock_json_add(path, text, (size_t)n, pins, e) < 0)
		return err_wrap(e, "--lockfile");
	return 0;
}

/* Add the pins of lockfiles to the policy in body, which must have one, and the mode `pinned`,
 * unless the policy has another. Without a policy there are no registries, and pins would pin
 * nothing. Pins of several files add up. */
static int compose_lockfiles(json_t *body, const char *member, const struct option_list *files,
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

/* The table gives most members. Mounts, volumes and the policy need more than a table can say.
 * NULL with e set, else the caller owns the body. */
json_t *create_body(const struct verb *v, const void *fields, const struct create_options *o,
		    struct err *e)
{
	OWN_JSON *body = json_object();

	if (compose_options(body, v->options, v->noptions, fields, e) < 0 ||
	    compose_mounts(body, "mounts", &o->mounts, e) < 0 ||
	    compose_volumes(body, "volumes", &o->volumes, e) < 0 ||
	    compose_network(body, "network", &o->policy, &o->allow, e) < 0 ||
	    compose_lockfiles(body, "network", &o->lockfiles, e) < 0)
		return NULL;
	return json_incref(body);
}

/* An answer without an id cannot be used by any later request, so it is an error although a
 * session may exist. */
int create_session(struct api_call *a, const json_t *body, json_t **ret, struct err *e)
{
	struct target t;

	target_init(&t, "/v1/sessions");
	if (api_call_json(a, "POST", &t, body, ret, e) < 0)
		return -1;
	if (*member_text(*ret, "id", "") == '\0')
		return err_set(e, ERR_SYSTEM,
			       "the server created a session and did not report its id");
	return 0;
}
