/* copy_in.c - the built-in copy-in: extracts an archive aside and puts one entry of it at its
 * place, as COPY of a build does (doc/file-protocol.md). Run as root of the cell, for the user of
 * the build.
 *
 * The archive is untrusted, but so is everything in the cell: what matters is that nothing outside
 * of the temporary directory is changed by names in the archive (tar_in.c sees to it), and that the
 * temporary directory is gone in the end, whatever happens. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "builtin.h"
#include "builtin_io.h"
#include "builtin_table.h"
#include "copy_place.h"
#include "file_names.h"
#include "file_resolve.h"
#include "file_user.h"
#include "inflate.h"
#include "open_path.h"
#include "io.h"
#include "kernel.h"
#include "rmtree.h"
#include "tar_in.h"
#include "units.h"

#define STAGE "/.cordon-copy-XXXXXX"
#define ENTRY_BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)

/* ---- gzip: a child decompresses into a pipe */

static ssize_t read_packed(void *arg, const uint8_t **ret, struct err *e)
{
	static uint8_t bytes[BUILTIN_IO_BUFFER];

	(void)arg;
	*ret = bytes;
	return builtin_io_read(bytes, sizeof(bytes), e);
}

static int write_plain(void *arg, const uint8_t *bytes, size_t len, struct err *e)
{
	return io_write_all(*(int *)arg, bytes, len, e);
}

static NORETURN void decompress(int to)
{
	struct err e = { 0 };

	_exit(inflate_gzip(&(struct inflate_io){ read_packed, write_plain, &to }, &e) < 0);
}

/* From now on input is what the child writes. Returns its pid. */
static pid_t start_inflate(struct err *e)
{
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return builtin_io_fail(e, "copy", "pipe");
	pid = fork();
	if (pid == 0) {
		fd_close(ends[0]);
		decompress(ends[1]);
	}
	fd_close(ends[1]);
	if (pid < 0) {
		fd_close(ends[0]);
		return builtin_io_fail(e, "copy", "fork");
	}
	builtin_io_take_plain(ends[0]);
	return pid;
}

static int finish_inflate(pid_t pid, int rc, struct err *e)
{
	int status = 0;

	fd_close(builtin_io_take_plain(-1));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (rc == 0 && status == 0)
		return 0;
	if (rc == 0)
		return err_set(e, ERR_INVALID, "the archive is not valid gzip");
	return -1;
}

static int extract(int top, bool gzip, const char *max_bytes, const char *max_entries,
		   struct file_msg_end *ret, struct err *e)
{
	uint64_t bytes, entries;
	pid_t pid;

	if (units_count(max_bytes, 0, INT64_MAX, &bytes, e) < 0 ||
	    units_count(max_entries, 0, UINT32_MAX, &entries, e) < 0)
		return -1;
	if (!gzip)
		return tar_in_extract(top, bytes, entries, ret, e);
	pid = start_inflate(e);
	if (pid < 0)
		return -1;
	return finish_inflate(pid, tar_in_extract(top, bytes, entries, ret, e), e);
}

/* ---- owner and mode of the entry */

static int read_owner(const char *text, struct copy_owner *ret, struct err *e)
{
	uint32_t uid = 0, gid = 0;
	char both[2 * FILE_MSG_NAME_MAX + 2];

	*ret = (struct copy_owner){ 0 };
	if (strcmp(text, "-") == 0) {
		ret->set = file_user_owner(&ret->uid, &ret->gid);
		return 0;
	}
	(void)snprintf(both, sizeof(both), strchr(text, ':') == NULL ? "%s:%s" : "%s", text, text);
	/* A user may have no group of its own name. */
	if (!file_names_owner(both, &uid, &gid) && !file_names_owner(text, &uid, &gid))
		return err_set(e, ERR_NOT_FOUND, "invalid owner: '%s'", text);
	*ret = (struct copy_owner){ .set = true, .uid = uid, .gid = gid };
	return 0;
}

static int place(int top, char **argv, struct err *e)
{
	const char *entry = argv[2][0] == '\0' ? "." : argv[2];
	OWN_FD at = open_path(top, entry, O_PATH | O_NOFOLLOW | O_CLOEXEC, ENTRY_BENEATH);
	struct copy_owner owner;
	uint32_t mode = COPY_MODE_KEPT;

	if (at < 0)
		return err_set(e, ERR_NOT_FOUND, "the archive has no '%s'", argv[2]);
	if (read_owner(argv[3], &owner, e) < 0 || builtin_io_mode(argv[4], &mode, e) < 0 ||
	    copy_place_prepare(at, &owner, mode, e) < 0)
		return -1;
	return copy_place_put(top, entry, at, argv[0], strchr(argv[1], '/') != NULL, e);
}

/* DEST FLAGS ENTRY OWNER|- MODE|- MAX_BYTES MAX_ENTRIES */
int copy_in(int argc, char **argv, struct err *e)
{
	char stage[] = STAGE;
	struct file_msg_end end = { 0 };
	OWN_FD top = -1;
	int rc;

	(void)argc;
	if (mkdtemp(stage) == NULL)
		return builtin_io_fail(e, "copy: make", stage);
	top = open(stage, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (top < 0 || fchmod(top, 0755) < 0)
		rc = builtin_io_fail(e, "copy: open", stage);
	else
		rc = extract(top, strchr(argv[1], 'z') != NULL, argv[5], argv[6], &end, e);
	if (rc == 0)
		rc = place(top, argv, e);
	rmtree(AT_FDCWD, stage);
	if (rc == 0 && access(stage, F_OK) == 0)
		rc = err_set(e, ERR_SYSTEM, "copy: the temporary directory cannot be removed");
	if (rc < 0)
		return -1;
	return builtin_io_record(&(struct file_msg){ .kind = FILE_MSG_END, .end = end }, e);
}
