/* Goal: the walk of open_path.c opens what openat2 opens, and fails where and as it fails: for
 * links that are relative, absolute, dangling, endless and magic, with and without a slash at the
 * end. */
#include "cell/init/files/open_path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/kernel.h"
#include "lib/base/own.h"
#include "support.h"

static char top[] = "/tmp/cordon-open-path-XXXXXX";
static int top_fd;

static const char *const links[][2] = {
	{ "d/e/up", "../../f" }, { "toward", "d/e" },
	{ "chain", "toward" },	 { "none", "nowhere/at" },
	{ "loop", "loop" },	 { "root", "/" },
	{ "out", "/proc/self" }, { "magic", "/proc/self/fd/0" },
	{ "dot", "." },		 { "slash", "d/" },
	{ "file", "f" },
};

static void make(void)
{
	CHECK(mkdtemp(top) != NULL);
	top_fd = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK(top_fd >= 0 && mkdirat(top_fd, "d", 0755) == 0 && mkdirat(top_fd, "d/e", 0755) == 0);
	CHECK(mknodat(top_fd, "f", S_IFREG | 0644, 0) == 0 &&
	      mknodat(top_fd, "d/e/g", S_IFREG | 0644, 0) == 0 &&
	      mknodat(top_fd, "d/fifo", S_IFIFO | 0644, 0) == 0);
	for (size_t i = 0; i < COUNT(links); i++)
		CHECK(symlinkat(links[i][1], top_fd, links[i][0]) == 0);
}

static void clean_up(void)
{
	static const char *const files[] = { "f", "d/e/g", "d/fifo" };

	for (size_t i = 0; i < COUNT(links); i++)
		CHECK(unlinkat(top_fd, links[i][0], 0) == 0);
	for (size_t i = 0; i < COUNT(files); i++)
		CHECK(unlinkat(top_fd, files[i], 0) == 0);
	CHECK(unlinkat(top_fd, "d/e", AT_REMOVEDIR) == 0 &&
	      unlinkat(top_fd, "d", AT_REMOVEDIR) == 0);
	CHECK(rmdir(top) == 0 && close(top_fd) == 0);
}

static void compare(const char *path, uint64_t flags, uint64_t resolve)
{
	OWN_FD want = kernel_openat2(top_fd, path, flags, resolve);
	int want_errno = want < 0 ? errno : 0;
	OWN_FD got = open_path_walk(top_fd, path, flags, resolve);
	int got_errno = got < 0 ? errno : 0;
	struct stat a = { 0 }, b = { 0 };

	if (want >= 0 && got >= 0)
		CHECK(fstat(want, &a) == 0 && fstat(got, &b) == 0);
	if (want_errno != got_errno || a.st_ino != b.st_ino || a.st_dev != b.st_dev)
		printf("# '%s' flags %llx resolve %llx: openat2 %d, walk %d\n", path,
		       (unsigned long long)flags, (unsigned long long)resolve, want_errno,
		       got_errno);
	CHECK(want_errno == got_errno && a.st_ino == b.st_ino && a.st_dev == b.st_dev);
}

/* ".." is not here where paths are beneath a directory: the walk refuses it always. */
static void as_openat2(void)
{
	static const char *const paths[] = {
		"f",
		"f/",
		"d",
		"d/",
		"d/e/g",
		"./d//e/./g",
		"d/e/up",
		"toward",
		"toward/",
		"toward/g",
		"chain/g",
		"chain/up",
		"none",
		"none/x",
		"loop",
		"loop/x",
		"root/proc",
		"out",
		"out/status",
		"magic",
		"dot/d/e",
		"slash/e",
		"file",
		"file/",
		"f/x",
		"x",
		"d/x/y",
		".",
		"/proc/self/exe",
		"/proc/self/fd/0",
		"/proc/mounts",
		"/",
		"d/fifo",
		"/proc/self/ns/net",
	};
	static const uint64_t flags[] = { O_PATH | O_CLOEXEC, O_PATH | O_NOFOLLOW | O_CLOEXEC,
					  O_PATH | O_DIRECTORY | O_CLOEXEC,
					  O_RDONLY | O_DIRECTORY | O_CLOEXEC };
	static const uint64_t resolve[] = { RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS,
					    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
					    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
						    RESOLVE_NO_MAGICLINKS };

	make();
	for (size_t p = 0; p < COUNT(paths); p++)
		for (size_t f = 0; f < COUNT(flags); f++)
			for (size_t r = 0; r < COUNT(resolve); r++)
				compare(paths[p], flags[f], resolve[r]);
	compare("d/e/../../f", O_PATH | O_CLOEXEC, RESOLVE_NO_MAGICLINKS);
	compare("toward/../e/g", O_PATH | O_CLOEXEC, RESOLVE_NO_MAGICLINKS);
	compare("../../../../..", O_PATH | O_CLOEXEC, RESOLVE_NO_MAGICLINKS);
	clean_up();
}

static void does_not_leave(void)
{
	make();
	CHECK(open_path_walk(top_fd, "d/../f", O_PATH, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS) < 0);
	CHECK(errno == EXDEV);
	CHECK(open_path_walk(top_fd, "/", O_PATH, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS) < 0);
	CHECK(errno == EXDEV);
	CHECK(open_path_walk(top_fd, "", O_PATH, 0) < 0 && errno == ENOENT);
	clean_up();
}

#define LINKS_MAX 40 /* of open_path.c, and of the kernel */

/* Link n leads to link n - 1, and the first one to a directory. */
static void as_many_links_as_there_may_be(void)
{
	char name[32], target[32];

	make();
	for (unsigned i = 1; i <= LINKS_MAX + 1; i++) {
		(void)snprintf(name, sizeof(name), "l%u", i);
		(void)snprintf(target, sizeof(target), "l%u", i - 1);
		CHECK(symlinkat(i == 1 ? "d" : target, top_fd, name) == 0);
		(void)snprintf(target, sizeof(target), "l%u/e/g", i);
		compare(target, O_PATH | O_CLOEXEC, RESOLVE_NO_MAGICLINKS);
		OWN_FD fd = open_path_walk(top_fd, target, O_PATH | O_CLOEXEC, 0);

		CHECK(i <= LINKS_MAX ? fd >= 0 : fd < 0 && errno == ELOOP);
	}
	for (unsigned i = 1; i <= LINKS_MAX + 1; i++) {
		(void)snprintf(name, sizeof(name), "l%u", i);
		CHECK(unlinkat(top_fd, name, 0) == 0);
	}
	clean_up();
}

TEST_MAIN({ "opens and fails as openat2 does", as_openat2 },
	  { "as many links as there may be", as_many_links_as_there_may_be },
	  { "does not leave the directory", does_not_leave })
