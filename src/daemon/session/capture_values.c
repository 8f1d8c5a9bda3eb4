/* capture_values.c - see capture_values.h. */
#include "daemon/session/capture_values.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/audit/fact_lines.h"
#include "daemon/node/core_private.h"
#include "daemon/session/session.h"
#include "daemon/session/session_hooks.h"
#include "daemon/template/template_stack.h"
#include "daemon/tenant/event_log.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/base/log.h"

#define VALUES_MAX (4U << 20) /* a session has 512 KiB of values at a time, and old values */

static void put_text(struct buf *b, const char *text)
{
	uint32_t n = (uint32_t)strlen(text);

	buf_put(b, &n, sizeof(n));
	buf_put(b, text, n);
}

/* The directories at which the layers of the host template are mounted. Other templates have one
 * layer root. */
static void put_places(const struct core *c, struct buf *b)
{
	for (uint32_t i = 0; i < STORAGE_HOST_MAX; i++)
		put_text(b, i > 0 && i < c->o.host.nlayers ? c->o.host.layers[i].at : "");
}

/* cordon-storage gets the values as a sealed file, so that it reads the same bytes as cordond
 * wrote. */
static int make_file(const struct buf *b, int *ret, struct err *e)
{
	OWN_FD fd = memfd_create("values", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return err_sys(e, "memfd");
	for (size_t at = 0; at < b->len;) {
		ssize_t n = write(fd, b->data + at, b->len - at);

		if (n < 0)
			return err_sys(e, "write values");
		at += (size_t)n;
	}
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		return err_sys(e, "seal values");
	*ret = TAKE_FD(fd);
	return 0;
}

/* The stricter setting, the node's or the tenant's. Their values are in this order. */
static enum config_captured captured_of(const struct session *s)
{
	unsigned node = s->core->o.config->captured_secrets;
	unsigned own = tenant_row(s->tenant)->captured_secrets;

	return (enum config_captured)(own > 0 && own - 1 < node ? own - 1 : node);
}

/* Layers of a pause, or of the fork that made the session, were not searched when they were
 * written. They may hold values and would become part of the result. */
static int check_earlier(const struct session *s, bool *ret_unsearched, struct err *e)
{
	*ret_unsearched = s->own != NULL && s->own->nlayers > 0;
	if (!*ret_unsearched || captured_of(s) == CAPTURED_NAME)
		return 0;
	return err_set_reason(
		e, REASON_SECRETS_IN_FILES,
		"files from before a pause without memory, or from the session that this one was "
		"forked from, cannot be searched for values of secrets: use a new session, or set "
		"captured_secrets to name");
}

static int find_values(struct capture_values *v, struct session *s, const char *kind, struct err *e)
{
	struct buf b = BUF_INIT(VALUES_MAX);
	size_t places;
	int result;

	if (strcmp(kind, "pause") == 0 || captured_of(s) == CAPTURED_ALLOW)
		return 0;
	b.secret = true;
	put_places(s->core, &b);
	places = b.len;
	result = session_parts_add_values(s, strcmp(kind, "fork") == 0, &b, e);
	if (result == 0 && b.len > places)
		result = check_earlier(s, &v->unsearched, e);
	if (result == 0 && b.len > places)
		result = make_file(&b, &v->values, e);
	buf_release(&b);
	return result;
}

int capture_values_find(struct capture_values *v, struct session *s, const char *kind,
			struct err *e)
{
	if (find_values(v, s, kind, e) < 0)
		return -1;
	if (v->values < 0 || captured_of(s) != CAPTURED_NAME)
		return 0;
	v->found = memfd_create("found", MFD_CLOEXEC);
	return v->found < 0 ? err_sys(e, "memfd") : 0;
}

void capture_values_give(struct capture_values *v, int *ret_values, int *ret_found)
{
	*ret_values = TAKE_FD(v->values);
	*ret_found = v->found < 0 ? -1 : fcntl(v->found, F_DUPFD_CLOEXEC, 0);
}

void capture_values_release(struct capture_values *v)
{
	io_close_all(&v->values, 1);
	io_close_all(&v->found, 1);
}

/* ---- files with values */

static void put_found(struct buf *b, const struct session_capture_found *f)
{
	size_t n = f->files.count < STORAGE_FOUND_MAX ? (size_t)f->files.count : STORAGE_FOUND_MAX;

	for (size_t i = 0; i < n; i++)
		buf_printf(b, "%s%s", i == 0 ? "" : ", ", f->files.paths[i]);
}

static void record_found(const struct session *s, const char *kind,
			 const struct session_capture_found *f)
{
	struct buf names = BUF_INIT(sizeof(f->files.paths) + 2ULL * STORAGE_FOUND_MAX);
	char lines[2000], files[1900];
	const struct event_more more = { .event = lines, .sealed = { { "files", files } } };
	struct err e;

	put_found(&names, f);
	(void)snprintf(files, sizeof(files), "%.*s", (int)names.len,
		       names.len == 0 ? "" : (const char *)names.data);
	(void)fact_lines_print(lines, sizeof(lines), "files\t%s\n", files);
	if (event_log_append_more(
		    s->core, NULL, s->row.tenant, s->row.id, "", "session.secrets_captured", &more,
		    &e, "kind\t%s\nfiles_found\t%llu\n%s", kind, (unsigned long long)f->files.count,
		    f->unsearched ? "unsearched\ttrue\n" : "") < 0)
		log_warn("event could not be written", "session_id=%s error=%s", s->row.id, e.msg);
	buf_release(&names);
}

/* The paths are a cell's. A control character would end the line of an event. */
static void make_plain(char path[static STORAGE_FOUND_PATH_MAX])
{
	path[STORAGE_FOUND_PATH_MAX - 1] = '\0';
	for (char *at = path; *at != '\0'; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = '?';
}

int capture_values_take(const struct capture_values *v, const struct session *s, const char *kind,
			struct session_capture_found *ret, struct err *e)
{
	if (v->found < 0)
		return 0;
	ret->unsearched = v->unsearched;
	if (pread(v->found, &ret->files, sizeof(ret->files), 0) != (ssize_t)sizeof(ret->files))
		return err_set(e, ERR_SYSTEM, "cordon-storage did not list files with values");
	for (size_t i = 0; i < STORAGE_FOUND_MAX; i++)
		make_plain(ret->files.paths[i]);
	if (ret->files.count > 0 || ret->unsearched)
		record_found(s, kind, ret);
	return 0;
}
