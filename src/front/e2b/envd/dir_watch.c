#include "front/e2b/envd/dir_watch.h"

#include <errno.h>
#include <string.h>

#include "front/e2b/base/e2b_private.h"
#include "front/e2b/envd/entry_info.h"
#include "lib/base/str.h"

#define CREATE "EVENT_TYPE_CREATE"

/* The call may have no request, so the watch is found by its first member. */
static struct dir_watch *watch_of(struct file_call *c)
{
	return (struct dir_watch *)(void *)c; /* its first member */
}

/* The name as inotify reports it. "." for the directory itself. */
static const char *dir_watch_shown(const char *name)
{
	return name[0] == '\0' ? "." : name;
}

/* The caller may not release the watch in this call. */
static void dir_watch_end(struct dir_watch *w, enum rpc_code code, const char *why)
{
	w->ended = true;
	w->events->on_end(w, code, why);
}

/* Report the event, or wait for its entry. */
static void dir_watch_report(struct dir_watch *w, const char *type, const char *name,
			     bool has_entry)
{
	if (!has_entry) {
		w->events->on_event(w, type, dir_watch_shown(name), NULL);
		return;
	}
	w->held = type;
	str_copy(w->name, dir_watch_shown(name));
}

/* One record becomes one event, or two for a rename within the directory. */
static void take_event(struct dir_watch *w, const struct file_msg_event *v)
{
	bool has_entry = v->has_entry != 0;

	switch ((enum file_msg_what)v->what) {
	case FILE_MSG_CREATE:
		dir_watch_report(w, CREATE, v->path, has_entry);
		break;
	case FILE_MSG_WRITE:
		dir_watch_report(w, "EVENT_TYPE_WRITE", v->path, has_entry);
		break;
	case FILE_MSG_REMOVE:
		dir_watch_report(w, "EVENT_TYPE_REMOVE", v->path, has_entry);
		break;
	case FILE_MSG_CHMOD:
		dir_watch_report(w, "EVENT_TYPE_CHMOD", v->path, has_entry);
		break;
	case FILE_MSG_RENAME: /* as two events, as inotify reports it */
		w->events->on_event(w, "EVENT_TYPE_RENAME", dir_watch_shown(v->path), NULL);
		if (v->to[0] != '\0')
			dir_watch_report(w, CREATE, v->to, has_entry);
		break;
	case FILE_MSG_OVERFLOW:
		dir_watch_end(w, RPC_INTERNAL,
			      "watcher error: events were lost, too many at a time");
		break;
	case FILE_MSG_LIMITED:
		dir_watch_end(w, RPC_RESOURCE_EXHAUSTED,
			      "watcher error: too many directories to watch");
		break;
	case FILE_MSG_GONE:
		dir_watch_end(w, RPC_OK, "");
		break;
	case FILE_MSG_WHATS:
		break;
	}
}

/* READY first, then events. An event with an entry is followed by the entry. */
static int on_record(struct file_call *c, const struct file_msg *m, struct err *e)
{
	struct dir_watch *w = watch_of(c);

	if (w->ended)
		return 0;
	if (m->kind == FILE_MSG_READY && !w->begun) {
		w->begun = true;
		w->events->on_ready(w);
		return 0;
	}
	if (m->kind == FILE_MSG_EVENT && w->begun && w->held == NULL) {
		take_event(w, &m->event);
		return 0;
	}
	if (m->kind == FILE_MSG_ENTRY && w->held != NULL) {
		w->events->on_event(w, w->held, w->name, &m->entry);
		w->held = NULL;
		return 0;
	}
	return file_call_refuse(e);
}

/* Records after the end are read and dropped. */
static bool is_ready(struct file_call *c)
{
	struct dir_watch *w = watch_of(c);

	return !w->begun || w->ended || w->events->has_room == NULL || w->events->has_room(w);
}

/* The built-in has ended. A watch that had ended before reports only a sandbox that is gone. */
static void on_end(struct file_call *c, int status, const struct err *e)
{
	struct dir_watch *w = watch_of(c);
	struct err silent;

	IGNORED(err_set(&silent, ERR_SYSTEM, "the cell stopped watching"), "reported by e");
	if (w->ended && (e == NULL || !cell_file_is_gone(e)))
		return; /* was reported already */
	w->ended = true;
	w->events->on_failure(w, e == NULL ? &silent : e);
}

/* An empty path is the home directory. */
int dir_watch_read(struct dir_watch *w, struct request *r, const json_t *message, struct err *e)
{
	const char *path = "";

	if (envd_user_of_rpc(r, w->file.user, e) < 0 || rpc_text(message, "path", &path, e) < 0 ||
	    rpc_bool(message, "recursive", &w->recursive, e) < 0 ||
	    rpc_bool(message, "includeEntry", &w->entries, e) < 0)
		return -1;
	if (strlen(path) >= sizeof(w->path))
		return err_set(e, ERR_INVALID, "path: is too long");
	str_copy(w->path, path[0] == '\0' ? "." : path);
	return 0;
}

int dir_watch_start(struct dir_watch *w, struct request *r, struct session *s,
		    const struct dir_watch_events *events, struct err *e)
{
	static const struct file_call_events call_events = { .on_record = on_record,
							     .is_ready = is_ready,
							     .on_end = on_end };

	w->events = events;
	cell_file_init(&w->file, "watch");
	cell_file_add(&w->file, w->path);
	cell_file_add(&w->file, w->recursive ? "recursive" : "-");
	if (w->entries)
		cell_file_add(&w->file, "entries");
	return cell_file_start(&w->file, &w->call, r, s, false, &call_events, e);
}

void dir_watch_release(struct dir_watch *w)
{
	file_call_release(&w->call);
}

/* E2B's words for a watch. */
void dir_watch_fail(struct dir_watch *w, struct request *r, const struct err *e)
{
	if (e->sys == ENOENT)
		rpc_fail(r, RPC_NOT_FOUND, "path %.200s not found", w->path);
	else if (e->sys == ENOTDIR)
		rpc_fail(r, RPC_INVALID_ARGUMENT, "path %.200s not a directory", w->path);
	else
		cell_file_fail_rpc(r, &w->file, w->path, e);
}

void dir_watch_shape(struct json *j, const char *member, const char *type, const char *name,
		     const struct file_msg_entry *entry)
{
	json_open(j, member, '{');
	json_text(j, "name", name);
	json_text(j, "type", type);
	if (entry != NULL)
		entry_info_shape(j, "entry", entry, entry_info_path(entry));
	json_close(j, '}');
}
