/* file_audit.c - see file_audit.h. */
#include "front/web/file_audit.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/audit/audit_flood.h"
#include "daemon/audit/fact_lines.h"
#include "front/web/request.h"
#include "lib/base/hex.h"
#include "lib/base/log.h"
#include "lib/base/own.h"
#include "lib/base/str.h"

#define FILE_AUDIT_PATH_MAX 512 /* bytes of a path in a record */
#define HASHED "... sha256:"

/* Built-ins whose calls are on record: the type, if content passes, and if there is a second path.
 */
static const struct {
	const char *builtin, *type;
	bool has_content, has_target;
} file_audit_types[] = {
	{ "read", "file.read", true, false },	     { "write", "file.written", true, false },
	{ "mkdir", "file.made", false, false },	     { "move", "file.moved", false, true },
	{ "join", "file.written", false, false },    { "remove", "file.removed", false, false },
	{ "tar-out", "file.exported", true, false }, { "tar-in", "file.imported", true, false },
};

/* A long path is its first bytes and the hash of all. */
static void file_audit_shorten(char *path)
{
	size_t len = strlen(path), n = FILE_AUDIT_PATH_MAX;
	uint8_t hash[SHA256_SIZE];

	if (len <= FILE_AUDIT_PATH_MAX)
		return;
	sha256_of(path, len, hash);
	while (n > 0 && ((unsigned char)path[n] & 0xc0) == 0x80)
		n--;
	memcpy(path + n, HASHED, strlen(HASHED));
	hex_encode(hash, sizeof(hash), path + n + strlen(HASHED));
}

/* s: whose secrets are covered, or NULL. */
static char *copy_path(const struct session *s, const char *path)
{
	size_t len = strlen(path);
	char *copy = malloc(len + sizeof(HASHED) + 2 * SHA256_SIZE);

	if (copy == NULL)
		return NULL;
	memcpy(copy, path, len + 1);
	if (s != NULL)
		session_redact(s, copy);
	file_audit_shorten(copy);
	return copy;
}

/* Calls of other built-ins leave f empty, and the functions below do nothing. */
void file_audit_begin(struct file_audit *f, const struct session *s, const char *const *argv,
		      unsigned argc)
{
	*f = (struct file_audit){ 0 };
	while (argc > 2 && strncmp(argv[0], "--", 2) == 0) {
		argv += 2;
		argc -= 2;
	}
	for (size_t i = 0; argc > 1 && i < COUNT(file_audit_types); i++) {
		if (strcmp(file_audit_types[i].builtin, argv[0]) != 0)
			continue;
		f->type = file_audit_types[i].type;
		f->has_content = file_audit_types[i].has_content;
		f->path = copy_path(s, argv[1]);
		if (file_audit_types[i].has_target && argc > 2)
			f->to = copy_path(s, argv[2]);
		str_copy(f->session, session_row(s)->id);
		str_copy(f->tenant, session_row(s)->tenant);
		sha256_init(&f->sum);
		return;
	}
}

/* Bytes in the order in which they pass, in either direction. */
void file_audit_add(struct file_audit *f, const void *bytes, size_t n)
{
	if (f->type == NULL || !f->has_content)
		return;
	sha256_add(&f->sum, bytes, n);
	f->bytes += n;
}

/* Paths and the hash are sealed: they can be erased later. */
static int file_audit_append(struct file_audit *f, struct request *r, const char *how,
			     struct err *e)
{
	struct audit_record record = { .tenant = f->tenant,
				       .session = f->session,
				       .type = f->type,
				       .actor = request_actor(r),
				       .sealed = { { "path", f->path }, { "to", f->to } } };
	uint8_t hash[SHA256_SIZE];
	char hex[2 * SHA256_SIZE + 1], facts[256];

	(void)fact_lines_print(facts, sizeof(facts), "result\t%s\n", how);
	if (f->has_content) {
		sha256_end(&f->sum, hash);
		hex_encode(hash, sizeof(hash), hex);
		(void)fact_lines_print(facts, sizeof(facts), "result\t%s\nbytes\t%llu\n", how,
				       (unsigned long long)f->bytes);
		record.sealed[2] = (struct audit_sealed){ "sha256", hex };
	}
	return audit_flood_append(core_audit(r->core), &record, facts, strcmp(how, "done") != 0,
				  f->bytes, e);
}

/* Repeatable. Only the first call writes. */
void file_audit_end(struct file_audit *f, struct request *r, const char *how)
{
	struct err e = { 0 };

	if (f->type != NULL && r != NULL && file_audit_append(f, r, how, &e) < 0)
		log_error("a record of the audit log could not be written",
			  "session_id=%s type=%s error=%s", f->session, f->type, e.msg);
	f->type = NULL;
	free(f->path);
	free(f->to);
	f->path = f->to = NULL;
}

/* Written before the operation, so a failure to write refuses it. */
int file_audit_volume(struct request *r, const struct store_volume *v, const char *op,
		      const char *path, struct err *e)
{
	OWN_MEM char *shown = copy_path(NULL, path);
	const struct audit_record record = { .tenant = v->tenant,
					     .type = "volume.content",
					     .actor = request_actor(r),
					     .sealed = { { "path", shown } } };
	char facts[256];

	(void)fact_lines_print(facts, sizeof(facts), "op\t%s\nvolume\t%s\n", op, v->id);
	return audit_flood_append(core_audit(r->core), &record, facts, false, 0, e);
}
