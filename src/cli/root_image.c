/* root_image.c - see root_image.h.
 *
 * The image is written by cordon-storage, started for this one job with the caller's rights. A kept
 * image has the fingerprint of all files in its name: their numbers, sizes and times of change. It
 * is made under no name and linked when it is whole. When a new one is made, older ones are
 * removed; a guest that uses one keeps it open. */
#include "root_image.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "cache_dir.h"
#include "child_process.h"
#include "fnv.h"

#define FORMAT 1 /* raise it when images are written in another way */
#define DEPTH_MAX 64
#define SLACK (64ULL << 20) /* directories, and what is added meanwhile */
#define EROFS_MAGIC 0xe0f5e1e2U
#define EROFS_MAGIC_AT 1024
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW)

/* ---- fingerprint */

struct print {
	uint64_t hash, bytes;
};

static void add_stat(struct print *p, const struct stat *st)
{
	const uint64_t parts[] = { st->st_ino, st->st_mode, (uint64_t)st->st_size,
				   (uint64_t)st->st_ctim.tv_sec, (uint64_t)st->st_ctim.tv_nsec };

	p->hash = fnv_add(p->hash, parts, sizeof(parts));
	p->bytes += 512 + (S_ISREG(st->st_mode) ? ((uint64_t)st->st_size + 4095) / 4096 * 4096 : 0);
}

/* A file that is replaced, changed or removed changes its own times or those of its directory. */
static int add_tree(struct print *p, int parent, const char *name, unsigned depth, struct err *e)
{
	int fd = openat(parent, name, DIR_FLAGS | O_CLOEXEC), result = 0;
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	struct stat st;

	if (list == NULL) {
		fd_close(fd);
		return err_sys(e, "read %.120s", name);
	}
	for (struct dirent *d; result == 0 && (d = readdir(list)) != NULL;) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		if (fstatat(fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue; /* removed meanwhile */
		add_stat(p, &st);
		p->hash = fnv_add(p->hash, d->d_name, strlen(d->d_name));
		if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
			result = add_tree(p, fd, d->d_name, depth + 1, e);
	}
	(void)closedir(list);
	return result;
}

static int fingerprint(const struct template *t, struct print *ret, struct err *e)
{
	*ret = (struct print){ .hash = FNV_START + FORMAT };
	for (uint32_t i = 0; i < t->nlayers; i++) {
		ret->hash = fnv_add(ret->hash, t->at[i], strlen(t->at[i]));
		if (add_tree(ret, t->fds[i], ".", 0, e) < 0)
			return -1;
	}
	return 0;
}

/* ---- making */

static int wait_for_tool(pid_t pid, struct err *e)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_sys(e, "make a root image");
	/* What went wrong is on standard error already. */
	return status == 0 ? 0 : err_set(e, ERR_SYSTEM, "the root image could not be made");
}

/* The layers of the template, "/" first, into the file. */
static int make_image(const struct template *t, uint64_t max, int image, struct err *e)
{
	int fds[CELL_LAYERS_MAX + 1] = { image };
	char word[32 + CELL_LAYERS_MAX * CELL_PLACE_MAX];
	int n = snprintf(word, sizeof(word), "--image=%llu", (unsigned long long)max);
	pid_t pid;

	for (uint32_t i = 0; i < t->nlayers; i++) {
		const char *at = t->at[i] + strspn(t->at[i], "/");

		fds[1 + i] = t->fds[i];
		if (i > 0)
			n += snprintf(word + n, sizeof(word) - (size_t)n, ":%s", at);
	}
	if (child_process_start(&(struct child_process_start){ .name = "cordon-storage",
							       .word = word,
							       .fds = fds,
							       .nfds = 1 + t->nlayers },
				&pid, e) < 0)
		return err_wrap(e, "start cordon-storage");
	return wait_for_tool(pid, e);
}

static int reopen(int fd, int *ret, struct err *e)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	*ret = open(path, O_RDONLY | O_CLOEXEC);
	return *ret < 0 ? err_sys(e, "open the root image") : 0;
}

static int make_in(int cache, const struct template *t, uint64_t max, int *ret, struct err *e)
{
	*ret = openat(cache, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (*ret < 0)
		return err_sys(e, "make a file in the cache directory");
	return make_image(t, max, *ret, e);
}

/* ---- where it comes from */

static void remove_others(int folder, const char *name)
{
	int fd = openat(folder, ".", DIR_FLAGS | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);

	if (list == NULL) {
		fd_close(fd);
		return;
	}
	for (struct dirent *d; (d = readdir(list)) != NULL;)
		if (strncmp(d->d_name, "root-", 5) == 0 && strcmp(d->d_name, name) != 0)
			(void)unlinkat(folder, d->d_name, 0);
	(void)closedir(list);
}

static int open_kept(const struct template *host, int *ret, struct err *e)
{
	char name[32], path[32];
	struct statvfs v;
	struct print print;
	int folder = -1, made = -1;

	if (cache_dir_open(&folder, e) < 0)
		return -1;
	OWN_FD cache = folder;
	if (fingerprint(host, &print, e) < 0)
		return -1;
	(void)snprintf(name, sizeof(name), "root-%016" PRIx64, print.hash);
	*ret = openat(cache, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (*ret >= 0)
		return 0;
	if (errno != ENOENT)
		return err_sys(e, "open the root image");
	if (fstatvfs(cache, &v) == 0 && print.bytes > v.f_bavail * v.f_frsize)
		return err_set(e, ERR_LIMIT,
			       "a root image of this machine has %" PRIu64
			       " MiB, and there is no room for that in the cache directory; "
			       "--template DIR may have less",
			       print.bytes >> 20);
	int result = make_in(cache, host, print.bytes + SLACK, &made, e);
	OWN_FD image = made;
	if (result < 0)
		return -1;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", image);
	if (linkat(AT_FDCWD, path, cache, name, AT_SYMLINK_FOLLOW) < 0 && errno != EEXIST)
		return err_sys(e, "keep the root image");
	remove_others(cache, name);
	return reopen(image, ret, e);
}

static int open_directory(int dir, int *ret, struct err *e)
{
	struct template t = { .nlayers = 1, .fds = { dir } };
	int folder = -1, made = -1;

	if (cache_dir_open(&folder, e) < 0)
		return -1;
	OWN_FD cache = folder;
	int result = make_in(cache, &t, ROOT_IMAGE_MAX, &made, e);
	OWN_FD image = made;
	return result < 0 ? -1 : reopen(image, ret, e);
}

static int open_path(const char *path, int *ret, struct err *e)
{
	uint32_t magic = 0;
	struct stat st;
	OWN_FD fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "--template: %.120s", path);
	if (S_ISDIR(st.st_mode))
		return open_directory(fd, ret, e);
	if (!S_ISREG(st.st_mode) ||
	    pread(fd, &magic, sizeof(magic), EROFS_MAGIC_AT) != sizeof(magic) ||
	    magic != EROFS_MAGIC)
		return err_set(e, ERR_INVALID,
			       "--template: %.120s is neither a directory nor an erofs image",
			       path);
	*ret = TAKE_FD(fd);
	return 0;
}

int root_image_open(const char *from, const struct template *host, int *ret_fd, struct err *e)
{
	if (strcmp(from, "host") == 0)
		return open_kept(host, ret_fd, e);
	if (from[0] == '/')
		return open_path(from, ret_fd, e);
	return err_set(e, ERR_NOT_FOUND,
		       "--template: '%.40s' is not known; level microvm takes host, or the path of "
		       "a directory or an erofs image",
		       from);
}
