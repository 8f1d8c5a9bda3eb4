/* export_cursor.c - see export_cursor.h. Called by verb_export.c only. The invariant: the file
 * on disk is a position up to which the receiver has every item. */
#include "cmd/client/export_cursor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "cmd/client/member.h"
#include "lib/base/fd.h"
#include "lib/base/io.h"
#include "lib/base/str.h"

/* ---- the cursor. The file has three facts: which audit log, which record of it comes next, and
 * which network record was last. The lock is on a file beside it, because the cursor itself is
 * replaced by rename(2), and a lock would stay with the old file. */

#define TEXT_MAX 1024

/* The path with an ending for the lock or the new text. */
static int name_with(const char *path, const char *end, char ret[PATH_MAX], struct err *e)
{
	int n = snprintf(ret, PATH_MAX, "%s%s", path, end);

	return n < 0 || n >= PATH_MAX ? err_set(e, ERR_INVALID, "--cursor: the path is too long")
				      : 0;
}

/* Held until the process ends. A second export with the same cursor would send items twice and
 * could move the cursor back. */
static int cursor_lock(struct export_cursor *c, struct err *e)
{
	char path[PATH_MAX];

	if (name_with(c->path, ".lock", path, e) < 0)
		return -1;
	c->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (c->lock < 0)
		return err_sys(e, "%.150s", path);
	if (flock(c->lock, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno != EWOULDBLOCK)
		return err_sys(e, "%.150s", path);
	return err_set(e, ERR_CONFLICT, "%.150s: another export has this cursor", c->path);
}

/* A cursor of another form is refused: to begin again would send the whole log a second time. */
static int cursor_take(struct export_cursor *c, const char *text, struct err *e)
{
	OWN_JSON *j = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	const json_t *audit = member_group(j, "audit");
	const char *log = member_text(audit, "log", "");

	if (member_number(j, "cordon_export", 0) != 1 || strlen(log) >= sizeof(c->log))
		return err_set(e, ERR_INVALID, "%.150s: not a cursor of cordon export", c->path);
	str_copy(c->log, log);
	c->epoch = member_number(audit, "epoch", 0);
	c->next = member_number(audit, "next", 0);
	c->network = member_number(member_group(j, "network"), "after", 0);
	return 0;
}

/* A missing file is a beginning. The lock is taken first, so that two first starts do not both
 * begin. */
int export_cursor_open(struct export_cursor *c, const char *path, struct err *e)
{
	char text[TEXT_MAX];

	*c = (struct export_cursor){ .path = path, .lock = -1 };
	if (cursor_lock(c, e) < 0)
		return -1;
	if (access(path, F_OK) < 0 && errno == ENOENT)
		return 0;
	if (io_read_file(AT_FDCWD, path, text, sizeof(text), e) < 0)
		return err_wrap(e, "--cursor");
	return cursor_take(c, text, e);
}

/* The entry in the folder is on disk, too. */
static int sync_folder(const char *path, struct err *e)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];
	OWN_FD fd = -1;

	(void)snprintf(folder, sizeof(folder), "%.*s", slash == NULL ? 1 : (int)(slash - path) + 1,
		       slash == NULL ? "." : path);
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 || fsync(fd) < 0 ? err_sys(e, "%.150s", folder) : 0;
}

/* First the new text to disk, then the rename, then the folder. After a crash the cursor is the
 * old one or the new one. With the old one some items are sent twice, and none is lost. */
int export_cursor_save(const struct export_cursor *c, struct err *e)
{
	char part[PATH_MAX], text[TEXT_MAX];
	OWN_FD fd = -1;

	if (name_with(c->path, ".part", part, e) < 0)
		return -1;
	(void)snprintf(
		text, sizeof(text),
		"{\"cordon_export\":1,\"audit\":{\"log\":\"%s\",\"epoch\":%llu,\"next\":%llu},"
		"\"network\":{\"after\":%llu}}\n",
		c->log, (unsigned long long)c->epoch, (unsigned long long)c->next,
		(unsigned long long)c->network);
	fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_sys(e, "%.150s", part);
	if (io_write_all(fd, text, strlen(text), e) < 0)
		return err_wrap(e, "%.150s", part);
	if (fdatasync(fd) < 0 || rename(part, c->path) < 0)
		return err_sys(e, "%.150s", c->path);
	return sync_folder(c->path, e);
}

void export_cursor_close(struct export_cursor *c)
{
	fd_close(c->lock);
	c->lock = -1;
}
