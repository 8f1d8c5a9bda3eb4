/* Goal: a server that is started elsewhere finds the cgroups of its cells where they were made. */
#include "cell/cellctl/cgroups.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "cell/cellctl/cgroups_group.h"
#include "lib/base/io.h"
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

/* As a server does at its start: what the file says, or else what was found. */
static int settle(struct cgroups *c, const char *name, struct err *e)
{
	return cgroups_recall(c, top_fd, name) ? 0 : cgroups_remember(c, top_fd, name, e);
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
	CHECK(settle(&first, "file", &e) == 0);
	CHECK(same(first.dirs[0], "a") && same(first.dirs[2], "b"));
	CHECK(settle(&second, "file", &e) == 0);
	CHECK(same(second.dirs[0], "a") && same(second.dirs[2], "b") && second.dirs[1] == -1);
	CHECK(count_fds() == before);
	/* Gone, so there can be no cell below it: begins anew. */
	CHECK(unlinkat(top_fd, "b", AT_REMOVEDIR) == 0);
	third = (struct cgroups){ .version = 1, .dirs = { folder("e"), -1, folder("f"), -1, -1 } };
	CHECK(settle(&third, "file", &e) == 0);
	CHECK(same(third.dirs[0], "e") && same(third.dirs[2], "f"));
	CHECK(settle(&second, "file", &e) == 0);
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
	CHECK(settle(&first, "file", &e) == 0);
	CHECK(settle(&second, "file", &e) == 0);
	CHECK(same(second.dirs[0], "c"));
	end();
}

/* Where v2 counts the time of processors, cells have no directory in cpuacct. */
static void cpuacct_is_left_out_beside_v2(void)
{
	struct cgroups c, without_v2;
	struct err e = { 0 };
	int before;

	begin();
	c = (struct cgroups){ .version = 1,
			      .dirs = { folder("a"), folder("b"), folder("c"), folder("d"),
					folder("e") } };
	without_v2 =
		(struct cgroups){ .version = 1, .dirs = { folder("f"), folder("g"), -1, -1, -1 } };
	before = count_fds();
	cgroups_leave_out_cpuacct(&without_v2);
	CHECK(same(without_v2.dirs[1], "g") && count_fds() == before);
	CHECK(settle(&c, "earlier", &e) == 0 && same(c.dirs[1], "b"));
	cgroups_leave_out_cpuacct(&c);
	CHECK(c.dirs[1] == -1 && same(c.dirs[0], "a") && same(c.dirs[4], "e"));
	CHECK(count_fds() == before - 1);
	CHECK(!cgroups_recall(&c, top_fd, "earlier"));
	CHECK(settle(&c, "file", &e) == 0 && cgroups_recall(&c, top_fd, "file"));
	CHECK(c.dirs[1] == -1 && same(c.dirs[0], "a") && same(c.dirs[4], "e"));
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
		CHECK(settle(&c, "file", &e) == 0);
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
	CHECK(settle(&first, "file", &e) == 0);
	CHECK(fchmodat(top_fd, "file", 0620, 0) == 0);
	CHECK(settle(&second, "file", &e) == 0 && same(second.dirs[0], "b"));
	CHECK(fstatat(top_fd, "file", &st, 0) == 0 && (st.st_mode & 0777) == 0600);
	CHECK(linkat(top_fd, "file", top_fd, "twin", 0) == 0);
	CHECK(settle(&first, "file", &e) == 0 && same(first.dirs[0], "a"));
	CHECK(unlinkat(top_fd, "file", 0) == 0 && symlinkat("twin", top_fd, "file") == 0);
	CHECK(settle(&first, "file", &e) == 0 && same(first.dirs[0], "a"));
	CHECK(fstatat(top_fd, "file", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode));
	/* A folder of another file system is not the hierarchy that was found. */
	CHECK(settle(&third, "file", &e) == 0 && third.dirs[0] == proc);
	end();
}

static void says_when_it_cannot(void)
{
	struct cgroups c = { .version = 0, .dirs = { -1, -1, -1, -1, -1 } };
	struct err e = { 0 };

	begin();
	CHECK(settle(&c, "none/file", &e) == -1 && e.code == ERR_SYSTEM);
	CHECK(settle(&c, "file", &e) == 0);
	CHECK(settle(&c, "file", &e) == 0 && c.dirs[0] == -1);
	end();
}

/* Directories stand in for cgroups: what the group makes, and that only groups are limited. */
static void a_group_is_around_cells_only(void)
{
	const struct cgroups_sums sums = { .memory_bytes = 12345678, .pids = 77 };
	struct cgroups c;
	struct err e = { 0 };
	char text[32];
	bool bounded = true;

	begin();
	c = (struct cgroups){ .version = 1,
			      .limits = CELL_LIMIT_ALL,
			      .dirs = { folder("cpu"), -1, folder("memory"), folder("pids"), -1 } };
	CHECK(cgroups_group_bound(&c, &sums, &bounded, &e) == 0 && !bounded);
	CHECK(cgroups_group_make(&c, "1-2", &e) == 0);
	CHECK(same(c.dirs[0], "cpu/cordon.server-1-2"));
	CHECK(same(c.dirs[2], "memory/cordon.server-1-2"));
	/* No such file, as no cgroup has it: a limit that cannot be set is an error. */
	CHECK(cgroups_group_bound(&c, &sums, &bounded, &e) == -1);
	close(openat(c.dirs[2], "memory.limit_in_bytes", O_CREAT | O_CLOEXEC, 0600));
	close(openat(c.dirs[3], "pids.max", O_CREAT | O_CLOEXEC, 0600));
	CHECK(cgroups_group_bound(&c, &sums, &bounded, &e) == 0 && bounded);
	CHECK(io_read_file(c.dirs[2], "memory.limit_in_bytes", text, sizeof(text), &e) >= 0);
	CHECK_STR(text, "12345678");
	CHECK(io_read_file(c.dirs[3], "pids.max", text, sizeof(text), &e) >= 0);
	CHECK_STR(text, "77");
	cgroups_group_remove(&c); /* of empty directories only */
	CHECK(faccessat(top_fd, "cpu/cordon.server-1-2", F_OK, 0) < 0);
	CHECK(faccessat(top_fd, "pids/cordon.server-1-2", F_OK, 0) == 0);
	end();
}

static const struct keeper_limit_file *file_of(const struct keeper_cgroups *c, const char *name)
{
	for (uint32_t i = 0; i < c->nfiles; i++)
		if (strcmp(c->files[i].name, name) == 0)
			return &c->files[i];
	return NULL;
}

/* The keeper knows no version: it writes these files, and PID 1 enters by this one. */
static void the_keeper_is_told_how_to_limit(void)
{
	const struct cgroups none = { .version = 0 }, v1 = { .version = 1 }, v2 = { .version = 2 };
	const struct keeper_limit_file *f;
	struct keeper_cgroups c;

	cgroups_describe(&v1, &c);
	CHECK(c.unified == CELL_CGROUP_UNIFIED && strcmp(c.enter, "tasks") == 0 && c.nfiles == 5);
	f = file_of(&c, "memory.limit_in_bytes");
	CHECK(f != NULL && f->dir == 2 && f->times == 1 && f->optional == 0);
	CHECK(f != NULL && f->limit == offsetof(struct cell_limits, memory_bytes));
	f = file_of(&c, "cpu.cfs_quota_us");
	CHECK(f != NULL && f->dir == 0 && f->times == 100 && f->optional == 0);
	CHECK(f != NULL && f->limit == offsetof(struct cell_limits, cpu_millis));
	f = file_of(&c, "pids.max");
	CHECK(f != NULL && f->dir == 3 && f->limit == offsetof(struct cell_limits, pids));

	cgroups_describe(&v2, &c);
	CHECK(c.unified == 0 && c.enter[0] == '\0' && c.nfiles == 4);
	f = file_of(&c, "memory.max");
	CHECK(f != NULL && f->dir == 0 && f->times == 1 && f->optional == 0);
	f = file_of(&c, "memory.swap.max");
	CHECK(f != NULL && f->times == 0 && f->optional != 0);
	f = file_of(&c, "cpu.max");
	CHECK(f != NULL && f->times == 100 && f->optional == 0);
	CHECK(file_of(&c, "pids.max") != NULL);

	cgroups_describe(&none, &c);
	CHECK(c.unified == 0 && c.enter[0] == '\0' && c.nfiles == 0);
}

TEST_MAIN({ "the keeper is told how to limit", the_keeper_is_told_how_to_limit },
	  { "a group is around cells only", a_group_is_around_cells_only },
	  { "remembers where it began", remembers_where_it_began },
	  { "another set of controllers begins anew", another_set_of_controllers_begins_anew },
	  { "a broken file is written again", a_broken_file_is_written_again },
	  { "cpuacct is left out beside v2", cpuacct_is_left_out_beside_v2 },
	  { "what others could write is not believed", what_others_could_write_is_not_believed },
	  { "says when it cannot", says_when_it_cannot })
