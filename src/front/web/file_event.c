#include "front/web/file_event.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/session/session.h"
#include "daemon/tenant/event_log.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/log.h"
#include "lib/base/str.h"
#include "lib/base/utf8.h"

/* Made when a call begins, and written when it has ended well. */
struct file_event {
	char session[STORE_ID_MAX];
	const char *op; /* a constant */
	char path[FILE_EVENT_PATH_MAX], to[FILE_EVENT_PATH_MAX];
};

/* Built-ins of doc/file-protocol.md that change files, and the word of the event. */
static const struct {
	const char *name, *op;
	bool moves; /* its second argument is a path, too */
} changes[] = {
	{ "write", "written", false },	  { "mkdir", "made", false },
	{ "move", "moved", true },	  { "remove", "removed", false },
	{ "tar-in", "extracted", false }, { "join", "written", false },
};

/* A path as one line without tabs, whole characters only. */
static void put_path(const struct session *s, const char *path, char ret[FILE_EVENT_PATH_MAX])
{
	size_t n = session_redact_len(s, path, FILE_EVENT_PATH_MAX);
	OWN_MEM char *copy = strndup(path, n);

	ret[0] = '\0';
	if (copy == NULL)
		return;
	session_redact(s, copy);
	n = strnlen(copy, FILE_EVENT_PATH_MAX - 1);
	while (n > 0 && copy[n] != '\0' && ((unsigned char)copy[n] & 0xc0) == 0x80)
		n--;
	copy[n] = '\0';
	str_copy_to(ret, FILE_EVENT_PATH_MAX, copy);
}

/* NULL: the built-in changes nothing, or there is no memory. */
struct file_event *file_event_new(const struct session *s, const char *const *argv, unsigned argc)
{
	struct file_event *v = NULL;

	/* Options with a value come first. */
	while (argc > 2 && argv[0][0] == '-') {
		argv += 2;
		argc -= 2;
	}
	for (size_t i = 0; v == NULL && argc > 1 && i < COUNT(changes); i++) {
		if (strcmp(argv[0], changes[i].name) != 0 || (changes[i].moves && argc < 3))
			continue;
		v = calloc(1, sizeof(*v));
		if (v == NULL)
			return NULL; /* the change itself needs no memory of ours */
		v->op = changes[i].op;
		put_path(s, argv[1], v->path);
		if (changes[i].moves)
			put_path(s, argv[2], v->to);
		str_copy(v->session, session_row(s)->id);
	}
	return v;
}

void file_event_append(struct request *r, const struct file_event *v)
{
	static struct log_limit limit = { .burst = 1, .interval_ms = 60000 };
	unsigned long long dropped;
	struct err e;

	if (event_log_append(r->core, request_actor(r), tenant_row(r->tenant)->id, v->session, "",
			     "file.changed", &e, "op\t%s\npath\t%s\n?to\t%s\n", v->op, v->path,
			     v->to) < 0 &&
	    log_limit(&limit, &dropped))
		log_warn("the event of a changed file could not be written",
			 "session_id=%s error=%s dropped=%llu", v->session, e.msg, dropped);
}
