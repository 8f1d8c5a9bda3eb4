/* Goal: a server that is started elsewhere finds the cgroups of its cells where they were made. */
#include "cgroups.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "support.h"

static char top[] = "/tmp/cordon-cgroups-XXXXXX";
static int top_fd = -1;

static int folder(const char *name)
{
	CHECK(mkdirat(top_fd, name, 0755) == 0);
	return openat(top_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void begin(void)
{
	CHECK(mkdtemp(top) != NULL);
	top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(top_fd >= 0);
}

static void end(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)execl("/bin/rm", "rm", "-rf", top, (char *)NULL);
		_exit(1);
	}
	(void)waitpid(pid, NULL, 0);
}

static bool same(int fd, const char *name)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && fstatat(top_fd, name, &b, 0) == 0 && a.st_ino == b.st_ino;
}

static void remembers_where_it_began(void)
{
	struct cgroups first, second, third;
	struct err e = { 0 };
	int before;

	begin();
	first = (struct cgroups){ .version = 1, .dirs = { folder("a"), -1, folder("b"), -1, -1 } };
	second = (struct cgroups){ .version = 1, .dirs = { folder("c"), -1, folder("d"), -1, -1 } };
	before = count_fds();
	CHECK(cgroups_remember(&first, top_fd, "file", &e) == 0);
	CHECK(same(first.dirs[0], "a") && same(first.dirs[2], "b"));
	CHECK(cgroups_remember(&second, top_fd, "file", &e) == 0);
	CHECK(same(second.dirs[0], "a") && same(second.dirs[2], "b") && second.dirs[1] == -1);
	CHECK(count_fds() == before);
	/* Gone, so there can be no cell below it: begins anew. */
	CHECK(unlinkat(top_fd, "b", AT_REMOVEDIR) == 0);
	third = (struct cgroups){ .version = 1, .dirs = { folder("e"), -1, folder("f"), -1, -1 } };
	CHECK(cgroups_remember(&third, top_fd, "file", &e) == 0);
	CHECK(same(third.dirs[0], "e") && same(third.dirs[2], "f"));
	CHECK(cgroups_remember(&second, top_fd, "file", &e) == 0);
	CHECK(same(second.dirs[0], "e") && same(second.dirs[2], "f"));
	end();
}

static void another_set_of_controllers_begins_anew(void)
{
	struct cgroups first, second;
	struct err e = { 0 };

	begin();
	first = (struct cgroups){ .version = 1, .dirs = { folder("a"), -1, folder("b"), -1, -1 } };
	second = (struct cgroups){ .version = 2, .dirs = { folder("c"), -1, -1, -1, -1 } };
	CHECK(cgroups_remember(&first, top_fd, "file", &e) == 0);
	CHECK(cgroups_remember(&second, top_fd, "file", &e) == 0);
	CHECK(same(second.dirs[0], "c"));
	end();
}

static void a_broken_file_is_written_again(void)
{
	static const char *const texts[] = { "", "\n", "x\n\n\n\n\n", "/nowhere\n\n\n\n\n",
					     "\n\n\n\n\n" };

	begin();
	int a = folder("a");

	for (size_t i = 0; i < COUNT(texts); i++) {
		struct cgroups c = { .version = 2, .dirs = { a, -1, -1, -1, -1 } };
		struct err e = { 0 };
		OWN_FD fd = openat(top_fd, "file", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		CHECK(fd >= 0 && write(fd, texts[i], strlen(texts[i])) >= 0);
		CHECK(cgroups_remember(&c, top_fd, "file", &e) == 0);
		CHECK_CASE(texts[i], c.dirs[0] == a);
	}
	end();
}

/* The folder belongs to cordond, who may be taken over. */
static void what_others_could_write_is_not_believed(void)
{
	struct cgroups first, second, third;
	struct err e = { 0 };
	struct stat st;
	int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	begin();
	first = (struct cgroups){ .version = 2, .dirs = { folder("a"), -1, -1, -1, -1 } };
	second = (struct cgroups){ .version = 2, .dirs = { folder("b"), -1, -1, -1, -1 } };
	third = (struct cgroups){ .version = 2, .dirs = { proc, -1, -1, -1, -1 } };
	CHECK(cgroups_remember(&first, top_fd, "file", &e) == 0);
	CHECK(fchmodat(top_fd, "file", 0620, 0) == 0);
	CHECK(cgroups_remember(&second, top_fd, "file", &e) == 0 && same(second.dirs[0], "b"));
	CHECK(fstatat(top_fd, "file", &st, 0) == 0 && (st.st_mode & 0777) == 0600);
	CHECK(linkat(top_fd, "file", top_fd, "twin", 0) == 0);
	CHECK(cgroups_remember(&first, top_fd, "file", &e) == 0 && same(first.dirs[0], "a"));
	CHECK(unlinkat(top_fd, "file", 0) == 0 && symlinkat("twin", top_fd, "file") == 0);
	CHECK(cgroups_remember(&first, top_fd, "file", &e) == 0 && same(first.dirs[0], "a"));
	CHECK(fstatat(top_fd, "file", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode));
	/* A folder of another file system is not the hierarchy that was found. */
	CHECK(cgroups_remember(&third, top_fd, "file", &e) == 0 && third.dirs[0] == proc);
	end();
}

static void says_when_it_cannot(void)
{
	struct cgroups c = { .version = 0, .dirs = { -1, -1, -1, -1, -1 } };
	struct err e = { 0 };

	begin();
	CHECK(cgroups_remember(&c, top_fd, "none/file", &e) == -1 && e.code == ERR_SYSTEM);
	CHECK(cgroups_remember(&c, top_fd, "file", &e) == 0);
	CHECK(cgroups_remember(&c, top_fd, "file", &e) == 0 && c.dirs[0] == -1);
	end();
}

TEST_MAIN({ "remembers where it began", remembers_where_it_began },
	  { "another set of controllers begins anew", another_set_of_controllers_begins_anew },
	  { "a broken file is written again", a_broken_file_is_written_again },
	  { "what others could write is not believed", what_others_could_write_is_not_believed },
	  { "says when it cannot", says_when_it_cannot })
