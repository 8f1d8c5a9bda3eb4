#include "front/e2b/envd/entry_info.h"

#include <stdio.h>
#include <string.h>

#include "front/e2b/base/rfc3339.h"

#define NUMBER_MAX 24

const char *entry_info_path(const struct file_msg_entry *m)
{
	return m->abs[0] != '\0' ? m->abs : m->path;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash == NULL || slash[1] == '\0' ? path : slash + 1;
}

/* Letters of the type first, in the order of Go's FileMode, then nine for the rights. */
void entry_info_permissions(const struct file_msg_entry *m, char ret[ENTRY_INFO_PERMISSIONS_MAX])
{
	static const char rwx[] = "rwxrwxrwx";
	bool device = m->type == FILE_MSG_CHAR || m->type == FILE_MSG_BLOCK;
	const struct {
		bool is;
		char letter;
	} letters[] = {
		{ m->type == FILE_MSG_DIR, 'd' },
		{ m->type == FILE_MSG_SYMLINK, 'L' },
		{ device, 'D' },
		{ m->type == FILE_MSG_FIFO, 'p' },
		{ m->type == FILE_MSG_SOCKET, 'S' },
		{ (m->mode & 04000) != 0, 'u' },
		{ (m->mode & 02000) != 0, 'g' },
		{ m->type == FILE_MSG_CHAR, 'c' },
		{ (m->mode & 01000) != 0, 't' },
	};
	size_t n = 0;

	for (size_t i = 0; i < COUNT(letters); i++)
		if (letters[i].is)
			ret[n++] = letters[i].letter;
	if (n == 0)
		ret[n++] = '-';
	for (unsigned i = 0; i < 9; i++)
		ret[n++] = '-';
	for (unsigned i = 0; i < 9; i++)
		if ((m->mode >> (8 - i) & 1) != 0)
			ret[n - 9 + i] = rwx[i];
	ret[n] = '\0';
}

/* The contract knows files and directories only. */
static const char *type_name(unsigned type)
{
	if (type == FILE_MSG_FILE)
		return "FILE_TYPE_FILE";
	return type == FILE_MSG_DIR ? "FILE_TYPE_DIRECTORY" : "FILE_TYPE_UNSPECIFIED";
}

/* An id without a name is shown as a number. */
static void shape_owner(struct json *j, const char *name, const char *owner, uint32_t id)
{
	char text[NUMBER_MAX];

	(void)snprintf(text, sizeof(text), "%u", id);
	json_text(j, name, owner[0] != '\0' ? owner : text);
}

/* Without metadata the member is left out. */
static void shape_meta(struct json *j, const struct file_meta *m)
{
	const char *key, *value;
	size_t at = 0;
	bool any = false;

	while (file_meta_next(m, &at, &key, &value)) {
		if (!any)
			json_open(j, "metadata", '{');
		any = true;
		json_text(j, key, value);
	}
	if (any)
		json_close(j, '}');
}

/* A link is shown with its target's type and mode. size is a text: it is an int64 in proto3 JSON.
 */
void entry_info_shape(struct json *j, const char *name, const struct file_msg_entry *m,
		      const char *path)
{
	bool link = m->type == FILE_MSG_SYMLINK, leads = link && m->resolved[0] != '\0';
	char permissions[ENTRY_INFO_PERMISSIONS_MAX], size[NUMBER_MAX], changed[RFC3339_MAX];

	entry_info_permissions(m, permissions);
	rfc3339_write_ns(m->mtime_ns, changed);
	(void)snprintf(size, sizeof(size), "%llu", (unsigned long long)(m->size & INT64_MAX));
	json_open(j, name, '{');
	json_text(j, "name", base_name(path));
	/* A link's target. */
	json_text(j, "type", type_name(leads ? m->target_type : m->type));
	json_text(j, "path", path);
	json_text(j, "size", size);
	json_uint(j, "mode", (leads ? m->target_mode : m->mode) & 0777U);
	json_text(j, "permissions", permissions);
	shape_owner(j, "owner", m->owner, m->uid);
	shape_owner(j, "group", m->group, m->gid);
	json_text(j, "modifiedTime", changed);
	if (link)
		json_text(j, "symlinkTarget", leads ? m->resolved : m->target);
	shape_meta(j, &m->meta);
	json_close(j, '}');
}

void entry_info_shape_written(struct json *j, const char *name, const struct file_msg_entry *m)
{
	const char *path = entry_info_path(m);

	json_open(j, name, '{');
	json_text(j, "path", path);
	json_text(j, "name", base_name(path));
	json_text(j, "type", m->type == FILE_MSG_DIR ? "dir" : "file");
	shape_meta(j, &m->meta);
	json_close(j, '}');
}
