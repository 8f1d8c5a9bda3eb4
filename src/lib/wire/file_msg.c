/* file_msg.c - theory of operation
 *
 * A layout is a list of fields for both directions (codec.h). A reader then checks the values.
 * Cells outlive an upgrade of the server, so a reader takes entries of the previous version, too.
 * Fields that version 1 lacks are empty. */
#include "lib/wire/file_msg.h"

#include <stdbool.h>
#include <string.h>

#include "lib/wire/codec.h"

/* The second byte of an EVENT. */
enum {
	EVENT_DIR = 1 << 0,
	EVENT_ENTRY = 1 << 1,
};

static void file_error(struct codec *c, struct err *v)
{
	codec_int(c, 1, v->code);
	codec_int(c, 2, v->sys);
	codec_text(c, sizeof(v->msg), v->msg);
}

static bool file_error_fits(struct err *v)
{
	if (v->code == ERR_NONE || v->code >= ERR_CODES || v->sys > 4095)
		return false;
	err_sanitize(v);
	return true;
}

static void file_pairs(struct codec *c, struct file_meta *m)
{
	codec_int(c, 2, m->len);
	codec_expect(c, m->len <= FILE_META_PACKED_MAX);
	codec_span(c, &m->bytes, m->len);
}

static void file_entry(struct codec *c, struct file_msg_entry *v)
{
	uint64_t version = codec_number(c, 1, FILE_MSG_ENTRY_VERSION);

	codec_expect(c, version >= 1 && version <= FILE_MSG_ENTRY_VERSION);
	codec_int(c, 1, v->type);
	codec_int(c, 2, v->flags);
	codec_int(c, 4, v->mode);
	codec_int(c, 4, v->uid);
	codec_int(c, 4, v->gid);
	codec_int(c, 8, v->size);
	codec_int(c, 8, v->mtime_ns);
	codec_string(c, FILE_MSG_NAME_MAX, &v->owner);
	codec_string(c, FILE_MSG_NAME_MAX, &v->group);
	codec_string(c, FILE_MSG_PATH_MAX, &v->path);
	codec_string(c, FILE_MSG_PATH_MAX, &v->target);
	if (version == 1) {
		v->resolved = v->abs = "";
		return;
	}
	codec_int(c, 1, v->target_type);
	codec_int(c, 4, v->target_mode);
	codec_string(c, FILE_MSG_PATH_MAX, &v->resolved);
	codec_string(c, FILE_MSG_PATH_MAX, &v->abs);
	file_pairs(c, &v->meta);
}

static bool file_target_fits(const struct file_msg_entry *v)
{
	if (*v->resolved == '\0' && (v->target_type != 0 || v->target_mode != 0))
		return false;
	return v->target_type < FILE_MSG_TYPES && v->target_mode <= 07777 &&
	       (*v->abs == '\0' || *v->abs == '/') &&
	       (*v->resolved == '\0' || (*v->resolved == '/' && v->type == FILE_MSG_SYMLINK));
}

static bool file_entry_fits(const struct file_msg_entry *v)
{
	return v->type < FILE_MSG_TYPES && (v->flags & ~(unsigned)FILE_MSG_ENTRY_FLAGS) == 0 &&
	       v->mode <= 07777 && v->size <= INT64_MAX && *v->path != '\0' &&
	       (v->type == FILE_MSG_SYMLINK || *v->target == '\0') && file_target_fits(v) &&
	       file_meta_valid(&v->meta);
}

static void file_end(struct codec *c, struct file_msg_end *v)
{
	codec_int(c, 4, v->flags);
	codec_int(c, 8, v->count);
	codec_int(c, 8, v->bytes);
	codec_int(c, 8, v->skipped);
}

/* Only events of files that exist can be followed by an ENTRY. */
static bool file_may_have_entry(uint8_t what, const char *to)
{
	return what == FILE_MSG_CREATE || what == FILE_MSG_WRITE || what == FILE_MSG_CHMOD ||
	       (what == FILE_MSG_RENAME && *to != '\0');
}

static void file_event(struct codec *c, struct file_msg_event *v)
{
	unsigned flags = (v->is_dir ? EVENT_DIR : 0U) | (v->has_entry ? EVENT_ENTRY : 0U);

	codec_int(c, 1, v->what);
	codec_int(c, 1, flags);
	codec_expect(c, (flags & ~(unsigned)(EVENT_DIR | EVENT_ENTRY)) == 0);
	v->is_dir = (flags & EVENT_DIR) != 0;
	v->has_entry = (flags & EVENT_ENTRY) != 0;
	codec_string(c, FILE_MSG_PATH_MAX, &v->path);
	codec_string(c, FILE_MSG_PATH_MAX, &v->to);
}

static bool file_event_fits(const struct file_msg_event *v)
{
	return v->what < FILE_MSG_WHATS && (v->what == FILE_MSG_RENAME || *v->to == '\0') &&
	       (!v->has_entry || file_may_have_entry(v->what, v->to));
}

static void file_process(struct codec *c, struct file_msg_process *v)
{
	codec_int(c, 4, v->pid);
	codec_int(c, 4, v->ppid);
	codec_int(c, 4, v->uid);
	codec_int(c, 1, v->state);
	codec_int(c, 8, v->start_ms);
	codec_int(c, 8, v->rss_bytes);
	codec_int(c, 8, v->cpu_us);
	codec_int(c, 8, v->mark);
	codec_string(c, FILE_MSG_NAME_MAX, &v->name);
	codec_string(c, FILE_MSG_PATH_MAX, &v->command);
}

static bool file_process_fits(const struct file_msg_process *v)
{
	return v->pid >= 1 && v->pid <= INT32_MAX && v->ppid <= INT32_MAX && v->state > ' ' &&
	       v->state < 0x7f;
}

/* The layout of a record's body, by its kind. */
static void file_body(struct codec *c, struct file_msg *m)
{
	switch (m->kind) {
	case FILE_MSG_ERROR:
		file_error(c, &m->error);
		return;
	case FILE_MSG_ENTRY:
		file_entry(c, &m->entry);
		return;
	case FILE_MSG_DATA:
		codec_int(c, 8, m->data.len);
		return;
	case FILE_MSG_END:
		file_end(c, &m->end);
		return;
	case FILE_MSG_EVENT:
		file_event(c, &m->event);
		return;
	case FILE_MSG_PROCESS:
		file_process(c, &m->process);
		return;
	case FILE_MSG_READY:
	case FILE_MSG_KINDS:
		return;
	}
}

static bool file_body_fits(struct file_msg *m)
{
	switch (m->kind) {
	case FILE_MSG_ERROR:
		return file_error_fits(&m->error);
	case FILE_MSG_ENTRY:
		return file_entry_fits(&m->entry);
	case FILE_MSG_DATA:
		return m->data.len <= INT64_MAX;
	case FILE_MSG_END:
		return (m->end.flags & ~(uint32_t)FILE_MSG_END_FLAGS) == 0;
	case FILE_MSG_EVENT:
		return file_event_fits(&m->event);
	case FILE_MSG_PROCESS:
		return file_process_fits(&m->process);
	case FILE_MSG_READY:
		return true;
	case FILE_MSG_KINDS:
		break;
	}
	return false;
}

int file_msg_next(const uint8_t *bytes, size_t len, struct file_msg *ret, struct err *e)
{
	struct codec c = codec_reader(bytes, len);
	struct file_msg m;
	size_t body;

	if (len < FILE_MSG_HEAD)
		return 0;
	body = codec_number(&c, 4, 0);
	memset(&m, 0, sizeof(m));
	codec_int(&c, 1, m.kind);
	if (body > FILE_MSG_BODY_MAX || m.kind == 0 || m.kind >= FILE_MSG_KINDS)
		return err_set(e, ERR_INVALID, "built-in sent a record of kind %u, %zu bytes",
			       (unsigned)m.kind, body);
	if (c.n < body)
		return 0;
	c.n = body;
	file_body(&c, &m);
	if (c.bad || c.n > 0 || !file_body_fits(&m))
		return err_set(e, ERR_INVALID, "built-in sent a malformed record of kind %u",
			       (unsigned)m.kind);
	*ret = m;
	return (int)(FILE_MSG_HEAD + body);
}

size_t file_msg_write(const struct file_msg *m, uint8_t *ret)
{
	struct codec head = codec_writer(ret, FILE_MSG_HEAD);
	struct codec body = codec_writer(ret + FILE_MSG_HEAD, FILE_MSG_BODY_MAX);
	struct file_msg copy = *m;
	size_t len;

	file_body(&body, &copy);
	if (body.bad)
		return 0;
	len = FILE_MSG_BODY_MAX - body.n;
	(void)codec_number(&head, 4, len);
	codec_int(&head, 1, copy.kind);
	return FILE_MSG_HEAD + len;
}

const char *file_msg_type_name(enum file_msg_type type)
{
	static const char *const names[FILE_MSG_TYPES] = { "file",   "directory", "symlink", "fifo",
							   "socket", "char",	  "block" };

	return type < FILE_MSG_TYPES ? names[type] : "unknown";
}

const char *file_msg_what_name(enum file_msg_what what)
{
	static const char *const names[FILE_MSG_WHATS] = { "create",  "write", "remove",
							   "rename",  "chmod", "overflow",
							   "limited", "gone" };

	return what < FILE_MSG_WHATS ? names[what] : "unknown";
}

void file_msg_chunk_write(uint8_t head[FILE_MSG_CHUNK_HEAD], uint32_t len)
{
	struct codec c = codec_writer(head, FILE_MSG_CHUNK_HEAD);

	(void)codec_number(&c, 4, len);
}

int64_t file_msg_chunk_read(const uint8_t head[FILE_MSG_CHUNK_HEAD])
{
	struct codec c = codec_reader(head, FILE_MSG_CHUNK_HEAD);
	uint64_t len = codec_number(&c, 4, 0);

	return len <= FILE_MSG_CHUNK_MAX ? (int64_t)len : -1;
}
