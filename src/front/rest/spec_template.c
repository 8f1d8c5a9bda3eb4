#include "front/rest/spec_template.h"

#include <string.h>

#include "daemon/template/template_name.h"
#include "daemon/template/templates.h"
#include "front/web/json_members.h"
#include "front/web/spec_session.h"
#include "lib/base/str.h"
#include "lib/wire/cell_level.h"

/* Bounds of a template's lists and texts in a body. */
#define LAYERS_MAX 64
#define ENV_BYTES_MAX (256U << 10)
#define LINES_BYTES_MAX 65536
#define WORD_MAX 64

/* The part of the path after dir. A path outside dir is returned unchanged. */
static const char *spec_template_below(const char *dir, const char *path)
{
	size_t n = strlen(dir);

	while (n > 1 && dir[n - 1] == '/')
		n--;
	if (n == 0 || strncmp(path, dir, n) != 0 || path[n] != '/')
		return path;
	return path + n + strspn(path + n, "/");
}

/* Lines of names without a slash at the end. */
static void read_layers(struct json_members *m, const char *dir, struct buf *to)
{
	json_t *list = json_members_array(m, "layers", LAYERS_MAX);
	struct err e;

	if (json_array_size(list) == 0)
		(void)json_members_fail(m, "layers", "is missing");
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *text = json_string_value(json_array_get(list, i));
		const char *name = text == NULL ? "" : spec_template_below(dir, text);
		size_t n = strlen(name);

		while (n > 1 && name[n - 1] == '/')
			n--;
		if (text == NULL || strchr(text, '\n') != NULL)
			(void)json_members_fail(m, "layers", "must be names of directories");
		buf_printf(to, "%s%.*s", i == 0 ? "" : "\n", (int)n, name);
	}
	if (buf_check(to, &e) < 0)
		json_members_too_large(m, "layers", to->cap);
}

/* kind layers needs the list. kind host has none. */
static void read_root(struct json_members *outer, const char *dir, struct spec_template *s)
{
	static const char *const kinds[] = { "host", "layers" };
	json_t *object = json_members_object(outer, "root", JSON_MEMBERS_MAX);
	unsigned kind = TEMPLATE_LAYERS;
	struct json_members m;

	if (object == NULL) {
		(void)json_members_fail(outer, "root", "is missing");
		return;
	}
	json_members_begin(&m, object, "root", outer->e);
	json_members_choice(&m, "kind", kinds, COUNT(kinds), &kind);
	s->row.kind = kind;
	if (kind == TEMPLATE_LAYERS)
		read_layers(&m, dir, &s->layers);
	if (json_members_end(&m) < 0)
		outer->failed = true;
}

/* Read as a session's mounts, and kept as lines. */
static void read_mounts(struct json_members *m, struct buf *to)
{
	struct session_spec spec = { 0 };

	spec_session_mounts(m, &spec);
	for (unsigned i = 0; i < spec.nmounts; i++)
		buf_printf(to, "%s\t%s\t%s\n", spec.mounts[i].source, spec.mounts[i].target,
			   spec.mounts[i].writable ? "rw" : "ro");
}

/* level_given: a derived template takes the level of its origin otherwise. */
static void read_level(struct json_members *m, struct spec_template *ret)
{
	const char *name = NULL;
	const struct cell_level *level;

	json_members_text(m, "level", WORD_MAX - 1, &name);
	level = cell_level_find(name);
	if (level == NULL)
		(void)json_members_fail(m, "level", "must be " CELL_LEVEL_NAMES);
	else
		ret->row.level = level->id;
	ret->level_given = name != NULL && name[0] != '\0';
}

/* Texts are borrowed from the body's object. */
static void read_commands(struct json_members *m, struct store_template *row)
{
	row->start_command = row->ready_command = "";
	json_members_text(m, "start_command", TEMPLATES_TEXT_MAX, &row->start_command);
	json_members_text(m, "ready_command", TEMPLATES_TEXT_MAX, &row->ready_command);
	json_members_bool(m, "start_restart", &row->start_restart);
	json_members_bool(m, "interpreter", &row->interpreter);
	if (!m->failed && (row->start_restart || row->interpreter) && row->start_command[0] == '\0')
		(void)json_members_fail(m, "start_command", "is missing");
}

/* With `from` the other template gives root, mounts and environment. Those members are unknown
 * then, so a body that has them is refused. The store's row points into ret's buffers, so *ret must
 * not be moved. */
int spec_template_read(const void *body, size_t len, const char *template_dir,
		       struct spec_template *ret, struct err *e)
{
	const char *name = "";
	struct json_members m;

	memset(ret, 0, sizeof(*ret));
	buf_init(&ret->layers, LINES_BYTES_MAX);
	buf_init(&ret->mounts, LINES_BYTES_MAX);
	buf_init(&ret->env, ENV_BYTES_MAX);
	ret->root = json_members_parse(body, len, e);
	if (ret->root == NULL)
		return -1;
	json_members_begin(&m, ret->root, "", e);
	json_members_text(&m, "name", STORE_NAME_MAX - 1, &name);
	str_copy(ret->row.name, name);
	read_level(&m, ret);
	read_commands(&m, &ret->row);
	json_members_text(&m, "from", TEMPLATE_NAME_TEXT - 1, &ret->from);
	if (ret->from != NULL && ret->from[0] != '\0')
		return json_members_end(&m);
	ret->from = "";
	read_root(&m, template_dir, ret);
	read_mounts(&m, &ret->mounts);
	IGNORED(spec_env_read(&m, "env", SPEC_ENV_MAX, &ret->env), "json_members_end() fails");
	json_members_text(&m, "user", WORD_MAX - 1, &ret->row.user);
	json_members_text(&m, "workdir", TEMPLATES_TEXT_MAX, &ret->row.workdir);
	ret->row.layers = buf_text(&ret->layers);
	ret->row.mounts = buf_text(&ret->mounts);
	ret->row.env = ret->env.data;
	ret->row.env_len = ret->env.len;
	return json_members_end(&m);
}

/* Also after a failure at any place. */
void spec_template_release(struct spec_template *s)
{
	json_decref(s->root);
	buf_release(&s->layers);
	buf_release(&s->mounts);
	buf_release(&s->env);
}
