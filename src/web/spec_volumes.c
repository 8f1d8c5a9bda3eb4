/* spec_volumes.c - the member `volumes` of a session: [{name, path, mode}]. It is read without a
 * look at the store, as the rest of the specification (spec_session.h); the names are looked up
 * when the tenant is known. */
#include <stdio.h>

#include "spec_session.h"

/* i: its place in the list, for errors. Unknown members are refused first: a path that is missing
 * is most likely there under another name. */
static int read_one(struct json_members *outer, json_t *object, size_t i, struct spec_session *s)
{
	static const char *const modes[] = { "rw", "ro" };
	const char *name = "", *path = "";
	unsigned mode = 0, n = s->spec.nmounts;
	struct json_members m;
	char where[32];

	if (!json_is_object(object))
		return json_members_fail(outer, "volumes", "must be an array of objects");
	if (n == CELL_MOUNTS_MAX)
		return json_members_fail(outer, "volumes",
					 "a session can have at most 8 mounts and volumes");
	(void)snprintf(where, sizeof(where), "volumes[%zu]", i);
	json_members_begin(&m, object, where, outer->e);
	json_members_text(&m, "name", VOLUME_NAME_MAX, &name);
	json_members_text(&m, "path", CELL_PATH_MAX - 1, &path);
	json_members_choice(&m, "mode", modes, COUNT(modes), &mode);
	if (json_members_end(&m) == 0 && !volume_line_is_name(name))
		(void)json_members_fail(&m, "name", "must be the name of a volume");
	if (!spec_session_is_place(path) || path[1] == '\0')
		(void)json_members_fail(&m, "path", "must be a plain absolute path, and not /");
	if (m.failed) {
		outer->failed = true;
		return -1;
	}
	s->spec.mounts[n].source = name;
	s->spec.mounts[n].target = path;
	s->spec.mounts[n].writable = mode == 0;
	s->spec.nmounts++;
	return 0;
}

void spec_volumes_read(struct json_members *m, struct spec_session *s)
{
	json_t *list = json_members_array(m, "volumes", CELL_MOUNTS_MAX);

	s->first_volume = s->spec.nmounts;
	for (size_t i = 0; list != NULL && i < json_array_size(list); i++)
		if (read_one(m, json_array_get(list, i), i, s) < 0)
			return;
}
