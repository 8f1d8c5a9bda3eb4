/* file_msg.c - theory of operation
 *
 * Both directions go through a cursor that remembers the first thing that did not fit, so that a
 * layout is one list of fields, in the same order in its reader and its writer. A string is u16
 * length, bytes, NUL: the NUL lets the reader hand out pointers into what it was given. */
#include "file_msg.h"

#include <stdbool.h>
#include <string.h>

struct reader {
	const uint8_t *p;
	size_t n;
	bool bad;
};

struct writer {
	uint8_t *p;
	size_t n;
	bool bad;
};

static uint64_t get(struct reader *r, size_t width)
{
	uint64_t v = 0;

	if (r->n < width) {
		r->bad = true;
		return 0;
	}
	for (size_t i = 0; i < width; i++)
		v |= (uint64_t)r->p[i] << (8 * i);
	r->p += width;
	r->n -= width;
	return v;
}

static const char *get_string(struct reader *r, size_t cap)
{
	size_t len = get(r, 2);
	const char *s = (const char *)r->p;

	if (r->bad || len >= cap || r->n < len + 1 || memchr(s, '\0', len + 1) != s + len) {
		r->bad = true;
		return "";
	}
	r->p += len + 1;
	r->n -= len + 1;
	return s;
}

static void put(struct writer *w, size_t width, uint64_t v)
{
	if (w->n < width) {
		w->bad = true;
		return;
	}
	for (size_t i = 0; i < width; i++)
		w->p[i] = (uint8_t)(v >> (8 * i));
	w->p += width;
	w->n -= width;
}

static void put_string(struct writer *w, size_t cap, const char *s)
{
	size_t len = strlen(s);

	if (len >= cap || w->n < 2 + len + 1) {
		w->bad = true;
		return;
	}
	put(w, 2, len);
	memcpy(w->p, s, len + 1);
	w->p += len + 1;
	w->n -= len + 1;
}

static bool read_error(struct reader *r, struct err *v)
{
	const char *msg;

	memset(v, 0, sizeof(*v));
	v->code = (enum err_code)get(r, 1);
	v->sys = (int)get(r, 2);
	msg = get_string(r, sizeof(v->msg));
	memcpy(v->msg, msg, strlen(msg) + 1);
	if (v->code == ERR_NONE || v->code >= ERR_CODES || v->sys > 4095)
		return false;
	err_sanitize(v);
	return true;
}

static void write_error(struct writer *w, const struct err *v)
{
	put(w, 1, v->code);
	put(w, 2, (uint64_t)v->sys);
	put_string(w, sizeof(v->msg), v->msg);
}

static bool read_entry(struct reader *r, struct file_msg_entry *v)
{
	if (get(r, 1) != FILE_MSG_ENTRY_VERSION)
		return false;
	v->type = (uint8_t)get(r, 1);
	v->flags = (uint16_t)get(r, 2);
	v->mode = (uint32_t)get(r, 4);
	v->uid = (uint32_t)get(r, 4);
	v->gid = (uint32_t)get(r, 4);
	v->size = get(r, 8);
	v->mtime_ns = (int64_t)get(r, 8);
	v->owner = get_string(r, FILE_MSG_NAME_MAX);
	v->group = get_string(r, FILE_MSG_NAME_MAX);
	v->path = get_string(r, FILE_MSG_PATH_MAX);
	v->target = get_string(r, FILE_MSG_PATH_MAX);
	return v->type < FILE_MSG_TYPES && (v->flags & ~(unsigned)FILE_MSG_ENTRY_FLAGS) == 0 &&
	       v->mode <= 07777 && v->size <= INT64_MAX && *v->path != '\0' &&
	       (v->type == FILE_MSG_SYMLINK || *v->target == '\0');
}

static void write_entry(struct writer *w, const struct file_msg_entry *v)
{
	put(w, 1, FILE_MSG_ENTRY_VERSION);
	put(w, 1, v->type);
	put(w, 2, v->flags);
	put(w, 4, v->mode);
	put(w, 4, v->uid);
	put(w, 4, v->gid);
	put(w, 8, v->size);
	put(w, 8, (uint64_t)v->mtime_ns);
	put_string(w, FILE_MSG_NAME_MAX, v->owner);
	put_string(w, FILE_MSG_NAME_MAX, v->group);
	put_string(w, FILE_MSG_PATH_MAX, v->path);
	put_string(w, FILE_MSG_PATH_MAX, v->target);
}

static bool read_end(struct reader *r, struct file_msg_end *v)
{
	v->flags = (uint32_t)get(r, 4);
	v->count = get(r, 8);
	v->bytes = get(r, 8);
	v->skipped = get(r, 8);
	return (v->flags & ~(uint32_t)FILE_MSG_END_FLAGS) == 0;
}

static void write_end(struct writer *w, const struct file_msg_end *v)
{
	put(w, 4, v->flags);
	put(w, 8, v->count);
	put(w, 8, v->bytes);
	put(w, 8, v->skipped);
}

static bool read_event(struct reader *r, struct file_msg_event *v)
{
	v->what = (uint8_t)get(r, 1);
	v->is_dir = (uint8_t)get(r, 1);
	v->path = get_string(r, FILE_MSG_PATH_MAX);
	v->to = get_string(r, FILE_MSG_PATH_MAX);
	return v->what < FILE_MSG_WHATS && v->is_dir <= 1 &&
	       (v->what == FILE_MSG_RENAME || *v->to == '\0');
}

static void write_event(struct writer *w, const struct file_msg_event *v)
{
	put(w, 1, v->what);
	put(w, 1, v->is_dir);
	put_string(w, FILE_MSG_PATH_MAX, v->path);
	put_string(w, FILE_MSG_PATH_MAX, v->to);
}

static bool read_process(struct reader *r, struct file_msg_process *v)
{
	v->pid = (uint32_t)get(r, 4);
	v->ppid = (uint32_t)get(r, 4);
	v->uid = (uint32_t)get(r, 4);
	v->state = (uint8_t)get(r, 1);
	v->start_ms = (int64_t)get(r, 8);
	v->rss_bytes = get(r, 8);
	v->cpu_us = get(r, 8);
	v->mark = get(r, 8);
	v->name = get_string(r, FILE_MSG_NAME_MAX);
	v->command = get_string(r, FILE_MSG_PATH_MAX);
	return v->pid >= 1 && v->pid <= INT32_MAX && v->ppid <= INT32_MAX && v->state > ' ' &&
	       v->state < 0x7f;
}

static void write_process(struct writer *w, const struct file_msg_process *v)
{
	put(w, 4, v->pid);
	put(w, 4, v->ppid);
	put(w, 4, v->uid);
	put(w, 1, v->state);
	put(w, 8, (uint64_t)v->start_ms);
	put(w, 8, v->rss_bytes);
	put(w, 8, v->cpu_us);
	put(w, 8, v->mark);
	put_string(w, FILE_MSG_NAME_MAX, v->name);
	put_string(w, FILE_MSG_PATH_MAX, v->command);
}

static bool read_body(struct reader *r, struct file_msg *m)
{
	switch (m->kind) {
	case FILE_MSG_ERROR:
		return read_error(r, &m->error);
	case FILE_MSG_ENTRY:
		return read_entry(r, &m->entry);
	case FILE_MSG_DATA:
		m->data.len = get(r, 8);
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
	struct reader r = { bytes, len, false };
	struct file_msg m;
	size_t body;

	if (len < FILE_MSG_HEAD)
		return 0;
	body = get(&r, 4);
	memset(&m, 0, sizeof(m));
	m.kind = (enum file_msg_kind)get(&r, 1);
	if (body > FILE_MSG_BODY_MAX || m.kind == 0 || m.kind >= FILE_MSG_KINDS)
		return err_set(e, ERR_INVALID, "built-in said a record of kind %u, %zu bytes",
			       (unsigned)m.kind, body);
	if (r.n < body)
		return 0;
	r.n = body;
	if (!read_body(&r, &m) || r.bad || r.n > 0)
		return err_set(e, ERR_INVALID, "built-in said a malformed record of kind %u",
			       (unsigned)m.kind);
	*ret = m;
	return (int)(FILE_MSG_HEAD + body);
}

static void write_body(struct writer *w, const struct file_msg *m)
{
	switch (m->kind) {
	case FILE_MSG_ERROR:
		write_error(w, &m->error);
		return;
	case FILE_MSG_ENTRY:
		write_entry(w, &m->entry);
		return;
	case FILE_MSG_DATA:
		put(w, 8, m->data.len);
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
	struct writer head = { ret, FILE_MSG_HEAD, false };
	struct writer body = { ret + FILE_MSG_HEAD, FILE_MSG_BODY_MAX, false };
	size_t len;

	write_body(&body, m);
	if (body.bad)
		return 0;
	len = FILE_MSG_BODY_MAX - body.n;
	put(&head, 4, len);
	put(&head, 1, m->kind);
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
	struct writer w = { head, FILE_MSG_CHUNK_HEAD, false };

	put(&w, 4, len);
}

int64_t file_msg_chunk_read(const uint8_t head[FILE_MSG_CHUNK_HEAD])
{
	struct reader r = { head, FILE_MSG_CHUNK_HEAD, false };
	uint64_t len = get(&r, 4);

	return len <= FILE_MSG_CHUNK_MAX ? (int64_t)len : -1;
}
