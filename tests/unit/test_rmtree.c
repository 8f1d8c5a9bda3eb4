/* Goal: a tree goes away as a whole, and nothing outside it does. */
#include "lib/base/rmtree.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "support.h"

#define NOBODY 65534

static char dir[] = "/tmp/cordon-test-tree-XXXXXX";
static int top = -1; /* that directory */

static void begin(void)
{
	CHECK(mkdtemp(dir) != NULL);
	top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(top >= 0);
}

static void end(void)
{
	(void)close(top);
	CHECK(rmdir(dir) == 0); /* so the test itself left nothing, either */
}

static void make_file(int at, const char *name)
{
	OWN_FD fd = openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && write(fd, "x", 1) == 1);
}

static int is_there(const char *name)
{
	struct stat st;

	return fstatat(top, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* A chain of that many directories, "t/t/t", with a file in the last. */
static void make_chain(unsigned levels)
{
	int at = fcntl(top, F_DUPFD_CLOEXEC, 3);

	for (unsigned i = 0; i < levels; i++) {
		CHECK(mkdirat(at, "t", 0700) == 0);
		int below = openat(at, "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		CHECK(below >= 0);
		(void)close(at);
		at = below;
	}
	make_file(at, "leaf");
	(void)close(at);
}

static void removes_what_is_no_tree(void)
{
	int before = count_fds();

	begin();
	rmtree(top, "missing");
	make_file(top, "file");
	rmtree(top, "file");
	CHECK(!is_there("file"));
	CHECK(mkdirat(top, "empty", 0700) == 0);
	rmtree(top, "empty");
	CHECK(!is_there("empty"));
	CHECK(mkfifoat(top, "fifo", 0600) == 0); /* must not be opened: nobody writes to it */
	rmtree(top, "fifo");
	CHECK(!is_there("fifo"));
	end();
	CHECK(count_fds() == before);
}

static void removes_all_kinds(void)
{
	static const char *const names[] = { "plain", ".hidden",   "...",      "-rf",
					     " ",     "new\nline", "\xff\xfe", "*",
					     "~",     "\\",	   "%s%n" };
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int before = count_fds(), sock;

	begin();
	CHECK(mkdirat(top, "t", 0700) == 0 && mkdirat(top, "t/sub", 0700) == 0 &&
	      mkdirat(top, "t/sub/...", 0700) == 0 && mkfifoat(top, "t/sub/fifo", 0600) == 0 &&
	      symlinkat("nowhere", top, "t/sub/dangling") == 0 &&
	      symlinkat(".", top, "t/sub/itself") == 0 && symlinkat("..", top, "t/sub/up") == 0);
	for (size_t i = 0; i < COUNT(names); i++) {
		OWN_FD at = openat(top, "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		make_file(at, names[i]);
	}
	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s/t/socket", dir);
	sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(sock >= 0 && bind(sock, (struct sockaddr *)&a, sizeof(a)) == 0);
	(void)close(sock);
	rmtree(top, "t");
	CHECK(!is_there("t"));
	end();
	CHECK(count_fds() == before);
}

static void follows_no_link(void)
{
	int before = count_fds();

	begin();
	CHECK(mkdirat(top, "outside", 0700) == 0 && mkdirat(top, "t", 0700) == 0);
	make_file(top, "outside/precious");
	CHECK(symlinkat("outside", top, "link") == 0 &&
	      symlinkat("../outside", top, "t/link") == 0 &&
	      symlinkat("../outside/precious", top, "t/file") == 0);
	CHECK(linkat(top, "outside/precious", top, "t/hard", 0) == 0);
	rmtree(top, "link");
	CHECK(!is_there("link") && is_there("outside/precious"));
	rmtree(top, "t");
	CHECK(!is_there("t") && is_there("outside/precious"));
	rmtree(top, "outside");
	CHECK(!is_there("outside"));
	end();
	CHECK(count_fds() == before);
}

/* Where a link cannot be removed, what it leads to must not be, either. */
static void leaves_what_it_may_not_remove(void)
{
	begin();
	CHECK(mkdirat(top, "outside", 0700) == 0 && mkdirat(top, "t", 0700) == 0);
	make_file(top, "outside/precious");
	make_file(top, "t/file");
	CHECK(symlinkat("../outside", top, "t/link") == 0);
	CHECK(fchmodat(top, "t", 0555, 0) == 0);
	if (geteuid() == 0) { /* whom no mode stops */
		static const char *const owned[] = { ".", "outside", "outside/precious", "t",
						     "t/file" };

		for (size_t i = 0; i < COUNT(owned); i++)
			CHECK(fchownat(top, owned[i], NOBODY, NOBODY, 0) == 0);
		CHECK(setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
		      setresuid(NOBODY, NOBODY, NOBODY) == 0);
	}
	rmtree(top, "t");
	CHECK(is_there("t/link") && is_there("t/file") && is_there("outside/precious"));
	CHECK(fchmodat(top, "t", 0700, 0) == 0);
	rmtree(top, "t");
	CHECK(!is_there("t") && is_there("outside/precious"));
	rmtree(top, "outside");
	end();
}

static void leaves_the_neighbours(void)
{
	begin();
	CHECK(mkdirat(top, "t", 0700) == 0 && mkdirat(top, "tt", 0700) == 0);
	make_file(top, "t/x");
	make_file(top, "tt/x");
	make_file(top, "t.x");
	rmtree(top, "t");
	CHECK(!is_there("t") && is_there("tt/x") && is_there("t.x"));
	rmtree(top, "tt");
	rmtree(top, "t.x");
	end();
}

/* More than one read of the directory: removing while listing must not lose entries. */
static void removes_many(void)
{
	begin();
	CHECK(mkdirat(top, "t", 0700) == 0);
	for (int i = 0; i < 5000; i++) {
		char name[64];

		(void)snprintf(name, sizeof(name), "t/a-name-that-takes-some-room-%d", i);
		if (i % 50 == 0)
			CHECK(mkdirat(top, name, 0700) == 0);
		else
			CHECK(symlinkat("x", top, name) == 0);
	}
	rmtree(top, "t");
	CHECK(!is_there("t"));
	end();
}

static void removes_256_levels(void)
{
	int before = count_fds();

	begin();
	make_chain(256);
	rmtree(top, "t");
	CHECK(!is_there("t"));
	end();
	CHECK(count_fds() == before);
}

/* Beyond, it stays, and neither stack nor descriptors run out. */
static void stops_below_that(void)
{
	int before = count_fds(), at, below;

	begin();
	make_chain(600);
	rmtree(top, "t");
	CHECK(is_there("t"));
	CHECK(count_fds() == before + 1); /* top */
	for (int round = 0; round < 2;
	     round++) { /* from the 450th level, from the 225th, from the top */
		at = fcntl(top, F_DUPFD_CLOEXEC, 3);
		for (int i = 0; i < (round == 0 ? 450 : 225); i++) {
			below = openat(at, "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			CHECK(below >= 0);
			(void)close(at);
			at = below;
		}
		rmtree(at, "t");
		(void)close(at);
	}
	rmtree(top, "t");
	CHECK(!is_there("t"));
	end();
	CHECK(count_fds() == before);
}

TEST_MAIN({ "removes what is no tree", removes_what_is_no_tree },
	  { "removes all kinds", removes_all_kinds }, { "follows no link", follows_no_link },
	  { "leaves what it may not remove", leaves_what_it_may_not_remove },
	  { "leaves the neighbours", leaves_the_neighbours }, { "removes many", removes_many },
	  { "removes 256 levels", removes_256_levels }, { "stops below that", stops_below_that })
