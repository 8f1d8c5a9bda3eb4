/* file_msg.c - theory of operation
 *
 * A layout is a list of fields (codec.h), in the same order in its reader and its writer. Cells
 * outlive an upgrade of the server, so entries of the previous version are read, too; fields that
 * they do not have are empty. */
#include "file_msg.h"

#include <stdbool.h>
#include <string.h>

#include "codec.h"

/* The second byte of an EVENT. */
enum {
	EVENT_DIR = 1 << 0,
	EVENT_ENTRY = 1 << 1,
};

static bool read_error(struct codec_reader *r, struct err *v)
{
	const char *msg;

	memset(v, 0, sizeof(*v));
	v->code = (enum err_code)codec_get(r, 1);
	v->sys = (int)codec_get(r, 2);
	msg = codec_get_string(r, sizeof(v->msg));
	memcpy(v->msg, msg, strlen(msg) + 1);
	if (v->code == ERR_NONE || v->code >= ERR_CODES || v->sys > 4095)
		return false;
	err_sanitize(v);
	return true;
}

static void write_error(struct codec_writer *w, const struct err *v)
{
	codec_put(w, 1, v->code);
	codec_put(w, 2, (uint64_t)v->sys);
	codec_put_string(w, sizeof(v->msg), v->msg);
}

/* What version 2 added. */
static bool read_entry_more(struct codec_reader *r, struct file_msg_entry *v)
{
	v->target_type = (uint8_t)codec_get(r, 1);
	v->target_mode = (uint32_t)codec_get(r, 4);
	v->resolved = codec_get_string(r, FILE_MSG_PATH_MAX);
	v->abs = codec_get_string(r, FILE_MSG_PATH_MAX);
	v->meta.len = codec_get(r, 2);
	v->meta.bytes = r->p;
	if (r->bad || r->n < v->meta.len || !file_meta_valid(&v->meta))
		return false;
	r->p += v->meta.len;
	r->n -= v->meta.len;
	if (*v->resolved == '\0' && (v->target_type != 0 || v->target_mode != 0))
		return false;
	return v->target_type < FILE_MSG_TYPES && v->target_mode <= 07777 &&
	       (*v->abs == '\0' || *v->abs == '/') &&
	       (*v->resolved == '\0' || (*v->resolved == '/' && v->type == FILE_MSG_SYMLINK));
}

static bool read_entry(struct codec_reader *r, struct file_msg_entry *v)
{
	uint64_t version = codec_get(r, 1);

	if (version < 1 || version > FILE_MSG_ENTRY_VERSION)
		return false;
	v->type = (uint8_t)codec_get(r, 1);
	v->flags = (uint16_t)codec_get(r, 2);
	v->mode = (uint32_t)codec_get(r, 4);
	v->uid = (uint32_t)codec_get(r, 4);
	v->gid = (uint32_t)codec_get(r, 4);
	v->size = codec_get(r, 8);
	v->mtime_ns = (int64_t)codec_get(r, 8);
	v->owner = codec_get_string(r, FILE_MSG_NAME_MAX);
	v->group = codec_get_string(r, FILE_MSG_NAME_MAX);
	v->path = codec_get_string(r, FILE_MSG_PATH_MAX);
	v->target = codec_get_string(r, FILE_MSG_PATH_MAX);
	v->resolved = v->abs = "";
	if (version > 1 && !read_entry_more(r, v))
		return false;
	return v->type < FILE_MSG_TYPES && (v->flags & ~(unsigned)FILE_MSG_ENTRY_FLAGS) == 0 &&
	       v->mode <= 07777 && v->size <= INT64_MAX && *v->path != '\0' &&
	       (v->type == FILE_MSG_SYMLINK || *v->target == '\0');
}

static void write_meta(struct codec_writer *w, const struct file_meta *m)
{
	codec_put(w, 2, m->len);
	if (w->n < m->len || m->len > FILE_META_PACKED_MAX)
		w->bad = true;
	if (w->bad || m->len == 0)
		return;
	memcpy(w->p, m->bytes, m->len);
	w->p += m->len;
	w->n -= m->len;
}

static void write_entry(struct codec_writer *w, const struct file_msg_entry *v)
{
	codec_put(w, 1, FILE_MSG_ENTRY_VERSION);
	codec_put(w, 1, v->type);
	codec_put(w, 2, v->flags);
	codec_put(w, 4, v->mode);
	codec_put(w, 4, v->uid);
	codec_put(w, 4, v->gid);
	codec_put(w, 8, v->size);
	codec_put(w, 8, (uint64_t)v->mtime_ns);
	codec_put_string(w, FILE_MSG_NAME_MAX, v->owner);
	codec_put_string(w, FILE_MSG_NAME_MAX, v->group);
	codec_put_string(w, FILE_MSG_PATH_MAX, v->path);
	codec_put_string(w, FILE_MSG_PATH_MAX, v->target);
	codec_put(w, 1, v->target_type);
	codec_put(w, 4, v->target_mode);
	codec_put_string(w, FILE_MSG_PATH_MAX, v->resolved);
	codec_put_string(w, FILE_MSG_PATH_MAX, v->abs);
	write_meta(w, &v->meta);
}

static bool read_end(struct codec_reader *r, struct file_msg_end *v)
{
	v->flags = (uint32_t)codec_get(r, 4);
	v->count = codec_get(r, 8);
	v->bytes = codec_get(r, 8);
	v->skipped = codec_get(r, 8);
	return (v->flags & ~(uint32_t)FILE_MSG_END_FLAGS) == 0;
}

static void write_end(struct codec_writer *w, const struct file_msg_end *v)
{
	codec_put(w, 4, v->flags);
	codec_put(w, 8, v->count);
	codec_put(w, 8, v->bytes);
	codec_put(w, 8, v->skipped);
}

/* Only events of files that exist can be followed by an ENTRY. */
static bool may_have_entry(uint8_t what, const char *to)
{
	return what == FILE_MSG_CREATE || what == FILE_MSG_WRITE || what == FILE_MSG_CHMOD ||
	       (what == FILE_MSG_RENAME && *to != '\0');
}

static bool read_event(struct codec_reader *r, struct file_msg_event *v)
{
	unsigned flags;

	v->what = (uint8_t)codec_get(r, 1);
	flags = (unsigned)codec_get(r, 1);
	v->is_dir = (flags & EVENT_DIR) != 0;
	v->has_entry = (flags & EVENT_ENTRY) != 0;
	v->path = codec_get_string(r, FILE_MSG_PATH_MAX);
	v->to = codec_get_string(r, FILE_MSG_PATH_MAX);
	return v->what < FILE_MSG_WHATS && (flags & ~(unsigned)(EVENT_DIR | EVENT_ENTRY)) == 0 &&
	       (v->what == FILE_MSG_RENAME || *v->to == '\0') &&
	       (!v->has_entry || may_have_entry(v->what, v->to));
}

static void write_event(struct codec_writer *w, const struct file_msg_event *v)
{
	codec_put(w, 1, v->what);
	codec_put(w, 1,
		  (unsigned)(v->is_dir ? EVENT_DIR : 0) |
			  (unsigned)(v->has_entry ? EVENT_ENTRY : 0));
	codec_put_string(w, FILE_MSG_PATH_MAX, v->path);
	codec_put_string(w, FILE_MSG_PATH_MAX, v->to);
}

static bool read_process(struct codec_reader *r, struct file_msg_process *v)
{
	v->pid = (uint32_t)codec_get(r, 4);
	v->ppid = (uint32_t)codec_get(r, 4);
	v->uid = (uint32_t)codec_get(r, 4);
	v->state = (uint8_t)codec_get(r, 1);
	v->start_ms = (int64_t)codec_get(r, 8);
	v->rss_bytes = codec_get(r, 8);
	v->cpu_us = codec_get(r, 8);
	v->mark = codec_get(r, 8);
	v->name = codec_get_string(r, FILE_MSG_NAME_MAX);
	v->command = codec_get_string(r, FILE_MSG_PATH_MAX);
	return v->pid >= 1 && v->pid <= INT32_MAX && v->ppid <= INT32_MAX && v->state > ' ' &&
	       v->state < 0x7f;
}

static void write_process(struct codec_writer *w, const struct file_msg_process *v)
{
	codec_put(w, 4, v->pid);
	codec_put(w, 4, v->ppid);
	codec_put(w, 4, v->uid);
	codec_put(w, 1, v->state);
	codec_put(w, 8, (uint64_t)v->start_ms);
	codec_put(w, 8, v->rss_bytes);
	codec_put(w, 8, v->cpu_us);
	codec_put(w, 8, v->mark);
	codec_put_string(w, FILE_MSG_NAME_MAX, v->name);
	codec_put_string(w, FILE_MSG_PATH_MAX, v->command);
}

static bool read_body(struct codec_reader *r, struct file_msg *m)
{
	switch (m->kind) {
	case FILE_MSG_ERROR:
		return read_error(r, &m->error);
	case FILE_MSG_ENTRY:
		return read_entry(r, &m->entry);
	case FILE_MSG_DATA:
		m->data.len = codec_get(r, 8);
		return m->data.len <= INT64_MAX;
	case FILE_MSG_END:
		return read_end(r, &m->end);
	case FILE_MSG_READY:
		return true;
	case FILE_MSG_EVENT:
		return read_event(r, &m->event);
	case FILE_MSG_PROCESS:
		return read_process(r, &m->process);
	case FILE_MSG_KINDS:
		break;
	}
	return false;
}

int file_msg_next(const uint8_t *bytes, size_t len, struct file_msg *ret, struct err *e)
{
	struct codec_reader r = { bytes, len, false };
	struct file_msg m;
	size_t body;

	if (len < FILE_MSG_HEAD)
		return 0;
	body = codec_get(&r, 4);
	memset(&m, 0, sizeof(m));
	m.kind = (enum file_msg_kind)codec_get(&r, 1);
	if (body > FILE_MSG_BODY_MAX || m.kind == 0 || m.kind >= FILE_MSG_KINDS)
		return err_set(e, ERR_INVALID, "built-in sent a record of kind %u, %zu bytes",
			       (unsigned)m.kind, body);
	if (r.n < body)
		return 0;
	r.n = body;
	if (!read_body(&r, &m) || r.bad || r.n > 0)
		return err_set(e, ERR_INVALID, "built-in sent a malformed record of kind %u",
			       (unsigned)m.kind);
	*ret = m;
	return (int)(FILE_MSG_HEAD + body);
}

static void write_body(struct codec_writer *w, const struct file_msg *m)
{
	switch (m->kind) {
	case FILE_MSG_ERROR:
		write_error(w, &m->error);
		return;
	case FILE_MSG_ENTRY:
		write_entry(w, &m->entry);
		return;
	case FILE_MSG_DATA:
		codec_put(w, 8, m->data.len);
		return;
	case FILE_MSG_END:
		write_end(w, &m->end);
		return;
	case FILE_MSG_EVENT:
		write_event(w, &m->event);
		return;
	case FILE_MSG_PROCESS:
		write_process(w, &m->process);
		return;
	case FILE_MSG_READY:
	case FILE_MSG_KINDS:
		return;
	}
}

size_t file_msg_write(const struct file_msg *m, uint8_t *ret)
{
	struct codec_writer head = { ret, FILE_MSG_HEAD, false };
	struct codec_writer body = { ret + FILE_MSG_HEAD, FILE_MSG_BODY_MAX, false };
	size_t len;

	write_body(&body, m);
	if (body.bad)
		return 0;
	len = FILE_MSG_BODY_MAX - body.n;
	codec_put(&head, 4, len);
	codec_put(&head, 1, m->kind);
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
	struct codec_writer w = { head, FILE_MSG_CHUNK_HEAD, false };

	codec_put(&w, 4, len);
}

int64_t file_msg_chunk_read(const uint8_t head[FILE_MSG_CHUNK_HEAD])
{
	struct codec_reader r = { head, FILE_MSG_CHUNK_HEAD, false };
	uint64_t len = codec_get(&r, 4);

	return len <= FILE_MSG_CHUNK_MAX ? (int64_t)len : -1;
}
