/* build_stage.c - see build_stage.h. */
#include "build_stage.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "create.h"
#include "id_match.h"
#include "member.h"
#include "pack.h"
#include "transfer.h"

static bool keep_all(const char *path, bool is_dir, void *arg)
{
	(void)path;
	(void)is_dir;
	(void)arg;
	return true;
}

/* A file keeps its name, by way of a directory of its own on this machine. */
static int pack_file(struct api_call *a, const struct transfer_place *p, unsigned mode,
		     const char *name, int to, struct err *e)
{
	char dir[] = "/tmp/cordon-stage-XXXXXX", path[sizeof(dir) + NAME_MAX + 1];
	const struct timespec times[2] = { { 0 } };
	uint64_t files;
	int result;

	if (mkdtemp(dir) == NULL)
		return err_sys(e, "%s", dir);
	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	result = transfer_get_file(a, p, path, e);
	/* The same time each time: the hash of the archive is in the key of the cached step. */
	if (result == 0 &&
	    (chmod(path, mode & 0777) < 0 || utimensat(AT_FDCWD, path, times, 0) < 0))
		result = err_sys(e, "%s", path);
	if (result == 0)
		result = pack_write(to, dir, keep_all, NULL, &files, e);
	(void)unlink(path);
	(void)rmdir(dir);
	return result;
}

static int pack_place(struct api_call *a, const struct transfer_place *p, int to,
		      char ret_source[NAME_MAX + 1], struct err *e)
{
	const char *name = strrchr(p->path, '/') + 1;
	enum transfer_kind kind;
	unsigned mode;

	if (transfer_stat(a, p, &kind, &mode, e) < 0)
		return -1;
	(void)snprintf(ret_source, NAME_MAX + 1, "%s", kind == TRANSFER_FILE ? name : ".");
	if (kind == TRANSFER_DIRECTORY)
		return transfer_get_tar(a, p, to, e);
	if (kind == TRANSFER_FILE && strlen(name) <= NAME_MAX)
		return pack_file(a, p, mode, name, to, e);
	return err_set(e, ERR_NOT_FOUND, "COPY --from: %.150s is no file or directory of the stage",
		       p->path);
}

/* Absolute and without a slash at the end; relative paths are below the root directory. */
static void clean(const char *path, char ret[PATH_MAX])
{
	size_t n;

	(void)snprintf(ret, PATH_MAX, "/%s", path + strspn(path, "/"));
	for (n = strlen(ret); n > 1 && ret[n - 1] == '/'; n--)
		ret[n - 1] = '\0';
}

int build_stage_pack(struct api_call *a, const char *template, const char *path,
		     char ret_source[NAME_MAX + 1], struct err *e)
{
	OWN_JSON *body = json_pack("{s:s, s:s}", "template", template, "network", "none");
	OWN_JSON *session = NULL;
	OWN_FD fd = memfd_create("cordon-stage", MFD_CLOEXEC);
	struct transfer_place place = { .user = "root" };
	char absolute[PATH_MAX];
	struct err ignored;
	struct target t;
	int result;

	if (fd < 0 || body == NULL)
		return err_sys(e, "memory for the archive");
	clean(path, absolute);
	if (create_session(a, body, &session, e) < 0)
		return err_wrap(e, "COPY --from");
	place.session = member_text(session, "id", "");
	place.path = absolute;
	result = pack_place(a, &place, fd, ret_source, e);
	id_match_target(&t, place.session, NULL);
	IGNORED(api_call_json(a, "DELETE", &t, NULL, NULL, &ignored), "it ends by its timeout");
	return result < 0 ? -1 : TAKE_FD(fd);
}
