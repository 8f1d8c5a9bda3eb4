/* api_template_files.c - GET /v1/templates/{template}/files: what is in a directory of a template,
 * for those that are made of layers only. cordon-storage reads the layers. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api_handlers.h"
#include "json_view.h"
#include "reply.h"
#include "request.h"
#include "storage_link.h"
#include "template_stack.h"
#include "templates.h"
#include "tenant.h"

#define DEADLINE_MS 60000
#define JSON_MAX (8U << 20)

struct files_state {
	struct storage_job job;
	int fd; /* owned: the result */
	char path[STORAGE_FILES_PATH];
	uint64_t limit;
};

static void release(struct request *r, bool answered)
{
	struct files_state *s = r->state;

	(void)answered;
	storage_link_cancel(core_storage(r->core), &s->job);
	fd_close(s->fd);
}

static const char *type_of(uint32_t mode)
{
	return S_ISREG(mode)   ? "file"
	       : S_ISDIR(mode) ? "directory"
	       : S_ISLNK(mode) ? "symlink"
			       : "other";
}

static void show(struct json *j, struct storage_file *f)
{
	char mode[8];

	f->name[sizeof(f->name) - 1] = f->link[sizeof(f->link) - 1] = '\0';
	(void)snprintf(mode, sizeof(mode), "%04o", f->mode & 07777U);
	json_open(j, NULL, '{');
	json_text(j, "name", f->name);
	json_text(j, "type", type_of(f->mode));
	json_uint(j, "size", f->size);
	json_text(j, "mode", mode);
	json_uint(j, "uid", f->uid);
	json_uint(j, "gid", f->gid);
	json_view_time(j, "modified_at", f->mtime < 0 ? 0 : (uint64_t)f->mtime * 1000);
	json_text(j, "target", S_ISLNK(f->mode) ? f->link : NULL);
	json_close(j, '}');
}

static void on_listed(struct completion *c, const struct err *e)
{
	struct request *r = c->arg;
	struct files_state *s = r->state;
	struct storage_file f;
	struct json j;
	uint64_t n = 0;

	if (e != NULL) {
		reply_error(r, e);
		return;
	}
	json_init_heap(&j, JSON_MAX);
	json_open(&j, NULL, '{');
	json_text(&j, "path", s->path);
	json_open(&j, "entries", '[');
	while (n < s->limit && pread(s->fd, &f, sizeof(f), (off_t)(n * sizeof(f))) == sizeof(f)) {
		show(&j, &f);
		n++;
	}
	json_close(&j, ']');
	json_bool(&j, "truncated", n == s->limit);
	json_close(&j, '}');
	reply_json(r, 200, &j);
}

static int compose(const struct request *r, const struct files_state *s, struct storage_files *ret,
		   struct err *e)
{
	const struct template_version *v = templates_find(r->core, r->tenant, r->id);
	struct template_stack stack;
	const char *path = s->path + strspn(s->path, "/");

	if (v == NULL)
		return templates_missing(r->core, r->tenant, r->id, e);
	if (template_stack_read(template_row(v), &stack, e) < 0)
		return -1;
	if (stack.base != TEMPLATE_BASE_NONE)
		return err_set(e, ERR_UNSUPPORTED,
			       "files of the machine are in this template, and are not listed");
	ret->head = (struct storage_head){ .op = STORAGE_FILES, .deadline_ms = DEADLINE_MS };
	ret->nlower = (uint32_t)stack.nlayers;
	ret->limit = (uint32_t)s->limit;
	for (size_t i = 0; i < stack.nlayers; i++)
		(void)snprintf(ret->lower[i], sizeof(ret->lower[i]), "%s", stack.layers[i]);
	(void)snprintf(ret->path, sizeof(ret->path), "%s", path);
	for (size_t n = strlen(ret->path); n > 0 && ret->path[n - 1] == '/'; n--)
		ret->path[n - 1] = '\0';
	if (strstr(s->path, "..") != NULL)
		return err_set(e, ERR_INVALID, "path: must not have '..' in it");
	return 0;
}

void api_template_files(struct request *r)
{
	struct files_state *s = request_state(r, sizeof(*s), release);
	struct storage_files *q;
	struct err e = { 0 };
	int result = -1;

	if (s == NULL)
		return;
	s->fd = s->job.fd = -1;
	s->limit = 1000;
	q = calloc(1, sizeof(*q));
	if (q == NULL || request_text(r, "path", s->path, sizeof(s->path), &e) < 0 ||
	    request_number(r, "limit", 1, STORAGE_FILES_MAX, &s->limit, &e) < 0 ||
	    compose(r, s, q, &e) < 0) {
		free(q);
		reply_error(r, &e);
		return;
	}
	s->fd = openat(core_options(r->core)->state_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (s->fd >= 0)
		result = fcntl(s->fd, F_DUPFD_CLOEXEC, 3);
	if (result < 0) {
		(void)err_sys(&e, "make a file in the state folder");
		reply_error(r, &e);
	} else {
		s->job.done = (struct completion){ .on_done = on_listed, .arg = r };
		s->job.tenant = tenant_row(r->tenant)->id;
		storage_link_ask(core_storage(r->core), &s->job, q, sizeof(*q), &result, 1);
	}
	free(q);
}
