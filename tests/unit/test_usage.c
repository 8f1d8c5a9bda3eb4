/* Goal: the kernel's numbers are found in its files, and in no other place of them. */
#include "cell/cellctl/usage.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "support.h"

static void finds_fields(void)
{
	static const struct {
		const char *text, *word;
		uint64_t want;
	} cases[] = {
		{ "42\n", "", 42 },
		{ "18446744073709551615\n", "", UINT64_MAX },
		{ "max\n", "", 0 },
		{ "", "", 0 },
		{ "max 3\n", "max", 3 },
		{ "low 1\nhigh 2\nmax 3\noom 4\noom_kill 5\n", "oom_kill", 5 },
		{ "low 1\nhigh 2\nmax 3\noom 4\noom_kill 5\n", "oom", 4 },
		{ "oom_kill_disable 7\nunder_oom 8\noom_kill 9", "oom_kill", 9 },
		{ "oom_kill_disable 7\nunder_oom 8\n", "oom_kill", 0 },
		{ "usage_usec 12\nuser_usec 3\n", "user_usec", 3 },
		{ "a oom_kill 9\n", "oom_kill", 0 },
		{ "\n\nmax 3\n", "max", 3 },
		{ "max\n3\n", "max", 0 },
		{ "", "max", 0 },
		{ "\n", "max", 0 },
	};

	for (size_t i = 0; i < COUNT(cases); i++)
		CHECK_CASE(cases[i].text,
			   usage_field(cases[i].text, cases[i].word) == cases[i].want);
}

static int folder(const char *path)
{
	char cell[128];
	int fd;

	CHECK(mkdir(path, 0755) == 0);
	(void)snprintf(cell, sizeof(cell), "%s/cordon-x", path);
	CHECK(mkdir(cell, 0755) == 0);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

static void put(int dir, const char *file, const char *text)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "cordon-x/%s", file);
	OWN_FD fd = openat(dir, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static char top[] = "/tmp/cordon-usage-XXXXXX";

static void clean(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)execl("/bin/rm", "rm", "-rf", top, (char *)NULL);
		_exit(1);
	}
	(void)waitpid(pid, NULL, 0);
}

static void fill_v1(int cpuacct, int memory, int pids)
{
	put(cpuacct, "cpuacct.usage", "5000999\n");
	put(memory, "memory.usage_in_bytes", "100\n");
	put(memory, "memory.max_usage_in_bytes", "200\n");
	put(memory, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
	put(pids, "pids.current", "4\n");
	put(pids, "pids.events", "max 6\n");
}

/* Also where cpu and cpuacct are one hierarchy, and pids.peak is not in the kernel. */
static void reads_v1(void)
{
	char path[64];
	struct cgroups c = { .version = 1, .dirs = { -1, -1, -1, -1, -1 } };
	struct usage u;

	CHECK(mkdtemp(top) != NULL);
	for (unsigned i = 0; i < 4; i++) {
		(void)snprintf(path, sizeof(path), "%s/%u", top, i);
		c.dirs[i] = folder(path);
	}
	fill_v1(c.dirs[1], c.dirs[2], c.dirs[3]);
	usage_read(&c, "x", USAGE_ALL, &u);
	CHECK(u.cpu_us == 5000 && u.memory_bytes == 100 && u.memory_peak_bytes == 200);
	CHECK(u.oom_kills == 3 && u.pids == 4 && u.pids_peak == 0 && u.pids_refused == 6);
	put(c.dirs[0], "cpuacct.usage", "7000\n");
	put(c.dirs[3], "pids.peak", "5\n");
	(void)close(c.dirs[1]);
	c.dirs[1] = -1;
	usage_read(&c, "x", USAGE_ALL, &u);
	CHECK(u.cpu_us == 7 && u.pids_peak == 5);
	/* A v2 hierarchy beside them counts the time. An older cell is only in cpuacct. */
	(void)snprintf(path, sizeof(path), "%s/4", top);
	c.dirs[CELL_CGROUP_UNIFIED] = folder(path);
	put(c.dirs[CELL_CGROUP_UNIFIED], "cpu.stat", "usage_usec 12\nuser_usec 1\n");
	usage_read(&c, "x", USAGE_ALL, &u);
	CHECK(u.cpu_us == 12);
	CHECK(unlinkat(c.dirs[CELL_CGROUP_UNIFIED], "cordon-x/cpu.stat", 0) == 0);
	usage_read(&c, "x", USAGE_ALL, &u);
	CHECK(u.cpu_us == 7);
	CHECK(unlinkat(c.dirs[0], "cordon-x/cpuacct.usage", 0) == 0);
	usage_read(&c, "x", USAGE_ALL, &u);
	CHECK(u.cpu_us == 0);
	usage_read(&c, "y", USAGE_ALL, &u);
	CHECK(u.cpu_us == 0 && u.memory_bytes == 0 && u.oom_kills == 0 && u.pids == 0);
	clean();
}

static void reads_v2(void)
{
	char path[64];
	struct cgroups c = { .version = 2, .dirs = { -1, -1, -1, -1, -1 } };
	struct usage u;

	CHECK(mkdtemp(top) != NULL);
	(void)snprintf(path, sizeof(path), "%s/0", top);
	c.dirs[0] = folder(path);
	fill_v1(c.dirs[0], c.dirs[0], c.dirs[0]); /* of no account here */
	put(c.dirs[0], "cpu.stat", "usage_usec 11\nuser_usec 1\n");
	put(c.dirs[0], "memory.current", "12\n");
	put(c.dirs[0], "memory.peak", "13\n");
	put(c.dirs[0], "memory.events", "low 0\noom 9\noom_kill 14\n");
	put(c.dirs[0], "pids.current", "15\n");
	put(c.dirs[0], "pids.peak", "16\n");
	put(c.dirs[0], "pids.events", "max 17\n");
	usage_read(&c, "x", USAGE_ALL, &u);
	CHECK(u.cpu_us == 11 && u.memory_bytes == 12 && u.memory_peak_bytes == 13);
	CHECK(u.oom_kills == 14 && u.pids == 15 && u.pids_peak == 16 && u.pids_refused == 17);
	clean();
}

static void knows_nothing_without_cgroups(void)
{
	const struct cgroups c = { .version = 0, .dirs = { -1, -1, -1, -1, -1 } };
	struct usage u;

	memset(&u, 0xff, sizeof(u));
	usage_read(&c, "x", USAGE_ALL, &u);
	CHECK(u.cpu_us == 0 && u.memory_bytes == 0 && u.memory_peak_bytes == 0 && u.pids == 0 &&
	      u.pids_peak == 0 && u.oom_kills == 0 && u.pids_refused == 0);
}

TEST_MAIN({ "finds fields", finds_fields }, { "reads v1", reads_v1 }, { "reads v2", reads_v2 },
	  { "knows nothing without cgroups", knows_nothing_without_cgroups })
