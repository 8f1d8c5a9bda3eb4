/* build_context.c - see build_context.h. */
#include "build_context.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "dockerfile.h"
#include "hex.h"
#include "io.h"
#include "pack.h"
#include "sha256.h"

#define PATHS_MAX 8192

/* *ret is the caller's to free. */
int build_context_read(const char *path, char **ret, size_t *ret_len, struct err *e)
{
	ssize_t n;

	*ret = malloc(DOCKERFILE_MAX + 1);
	if (*ret == NULL)
		return err_sys(e, "allocate");
	n = io_read_file(AT_FDCWD, path, *ret, DOCKERFILE_MAX + 1, e);
	if (n < 0)
		return err_wrap(e, "%.200s", path);
	*ret_len = (size_t)n;
	return 0;
}

int build_context_open(struct build_context *c, const char *dir, struct err *e)
{
	char path[PATHS_MAX];
	size_t len = 0;

	c->dir = dir;
	c->rules = calloc(1, sizeof(*c->rules));
	if (c->rules == NULL)
		return err_sys(e, "allocate");
	(void)snprintf(path, sizeof(path), "%s/.dockerignore", dir);
	if (access(path, F_OK) < 0)
		return 0;
	if (build_context_read(path, &c->rules_text, &len, e) < 0)
		return -1;
	if (!dockerignore_read(c->rules_text, len, c->rules))
		return err_set(e, ERR_LIMIT, "%.200s: too many rules", path);
	return 0;
}

void build_context_close(struct build_context *c)
{
	free(c->rules);
	free(c->rules_text);
}

static bool keeps(const char *path, bool is_dir, void *arg)
{
	const struct build_context *c = arg;
	enum dockerignore_fit fit = dockerignore_fits(c->source, path);

	if (fit == DOCKERIGNORE_NO || (fit == DOCKERIGNORE_ANCESTOR && !is_dir))
		return false;
	return !dockerignore_excludes(c->rules, path) ||
	       (is_dir && dockerignore_may_keep(c->rules));
}

/* The SHA-256 of an archive, which is its name. */
int build_context_hash(int fd, char ret_hash[65], struct err *e)
{
	static uint8_t piece[65536];
	uint8_t digest[SHA256_SIZE];
	struct sha256 h;
	ssize_t n;

	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(e, "archive");
	sha256_init(&h);
	while ((n = read(fd, piece, sizeof(piece))) > 0)
		sha256_add(&h, piece, (size_t)n);
	sha256_end(&h, digest);
	hex_encode(digest, sizeof(digest), ret_hash);
	if (n < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(e, "archive");
	return 0;
}

/* The archive of a COPY in memory. */
int build_context_pack(struct build_context *c, const char *source, struct err *e)
{
	OWN_FD fd = memfd_create("cordon-build", MFD_CLOEXEC);
	uint64_t files;

	if (fd < 0)
		return err_sys(e, "memory for the archive");
	c->source = source;
	if (pack_write(fd, c->dir, keeps, c, &files, e) < 0)
		return -1;
	if (files == 0 && strpbrk(source, "*?[") != NULL)
		return err_set(e, ERR_NOT_FOUND, "COPY %.100s: no file matches", source);
	return TAKE_FD(fd);
}

/* A source that is not there would be an empty archive. */
int build_context_check(const char *dir, const char *source, unsigned line, struct err *e)
{
	char path[PATHS_MAX];
	struct stat st;

	if (strpbrk(source, "*?[") != NULL)
		return 0;
	(void)snprintf(path, sizeof(path), "%s/%s", dir, source);
	if (lstat(path, &st) == 0)
		return 0;
	return err_set(e, ERR_NOT_FOUND, "Dockerfile:%u: COPY %.100s: there is no such file", line,
		       source);
}
