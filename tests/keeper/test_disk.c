/* Cells whose disk is an image: what they wrote is there for the next cell of that name, owners are
 * the ids inside, limits are those of the image, and an image never has two loop devices. */
#include "server.h"

static struct server s;

static void run(const char *const *argv)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		(void)execvp(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_CASE(argv[0], status == 0);
}

static void image_path(const char *id, char *ret, size_t cap)
{
	(void)snprintf(ret, cap, "%s/disks/%s.img", s.folder, id);
}

static void make_image(const char *id, const char *size, const char *inodes)
{
	char path[192];

	image_path(id, path, sizeof(path));
	run((const char *const[]){ "truncate", "-s", size, path, NULL });
	run((const char *const[]){ "mkfs.ext4", "-q", "-F", "-m", "0", "-b", "4096", "-N", inodes,
				   path, NULL });
}

/* How many loop devices have files of this test; a keeper's are freed by the kernel a moment after
 * the last process. */
static unsigned count_loops(void)
{
	unsigned n = 0;

	for (int i = 0; i < 256; i++) {
		char path[64], text[512] = "";

		(void)snprintf(path, sizeof(path), "/sys/block/loop%d/loop/backing_file", i);
		OWN_FD fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 &&
		    strncmp(text, s.folder, strlen(s.folder)) == 0)
			n++;
	}
	return n;
}

static struct keeper_create disk_plan(const char *id)
{
	struct keeper_create r = plan(&s, id);

	r.flags |= CELL_DISK_IMAGE;
	return r;
}

static void end_cell(struct cell *c)
{
	struct err e = { 0 };
	int tries = 400;

	while (ask_named(&s, KEEPER_DESTROY, c->id, c->pid, 0, &e) < 0 && tries-- > 0)
		CHECK_CASE(e.msg, e.code == ERR_CONFLICT);
	CHECK(tries > 0);
	(void)close(c->pidfd);
	(void)close(c->agent.sock);
}

static void expect(struct cell *c, const char *script, const char *user, const char *want)
{
	char *text = run_shell(c, script, user);

	CHECK_STR(text, want);
	free(text);
}

static void files_outlive_the_cell(void)
{
	struct keeper_create r;
	struct cell c;

	start_server(&s, true);
	r = disk_plan("Disk");
	make_image(r.id, "64M", "4096");
	make_plan(&s, &r, &c);
	expect(&c, "echo kept >/home/user/a; stat -c %u:%g /home/user/a; stat -f -c %T /dev/shm",
	       "user", "1000:1000\ntmpfs\n");
	expect(&c, "chown 5:6 /home/user/a; rm -r /srv; mkdir /opt/x; sync; ls /home/user", "root",
	       "a\n");
	end_cell(&c);
	make_plan(&s, &r, &c);
	expect(&c,
	       "cat /home/user/a; stat -c %u:%g /home/user/a; ls -d /srv 2>&1 | grep -c No; ls "
	       "-d /opt/x",
	       "root", "kept\n5:6\n1\n/opt/x\n");
	kill_keeper(&s);
	spawn_keeper(&s);
	expect(&c, "echo more >>/home/user/a; sync", "root", "");
	end_cell(&c);
	CHECK(count_loops() == 0);
	make_plan(&s, &r, &c);
	expect(&c, "cat /home/user/a", "root", "kept\nmore\n");
	end_cell(&c);
	stop_server(&s);
}

static void an_image_is_used_once(void)
{
	struct keeper_create r;
	struct cell c, second;
	char from[192], to[192];

	start_server(&s, true);
	r = disk_plan("Once");
	REFUSED("no image", try_create(&s, &r, &second, &e), ERR_SYSTEM, "No such file");
	make_image(r.id, "64M", "4096");
	make_plan(&s, &r, &c);
	/* The same file by another name: the lock is the file's. */
	image_path(r.id, from, sizeof(from));
	r = disk_plan("Twice");
	image_path(r.id, to, sizeof(to));
	CHECK(rename(from, to) == 0);
	REFUSED("in use", try_create(&s, &r, &second, &e), ERR_CONFLICT, "in use");
	CHECK(rename(to, from) == 0 && count_loops() == 1);
	end_cell(&c);
	CHECK(count_loops() == 0);
	CHECK(symlink(from, to) == 0);
	REFUSED("a link", try_create(&s, &r, &second, &e), ERR_SYSTEM, "ymbolic link");
	CHECK(unlink(to) == 0 && link(from, to) == 0);
	REFUSED("two names", try_create(&s, &r, &second, &e), ERR_DENIED, "not a file");
	CHECK(unlink(to) == 0 && rename(from, to) == 0 && chown(to, 1000, 1000) == 0);
	REFUSED("another user's", try_create(&s, &r, &second, &e), ERR_DENIED, "not a file");
	CHECK(count_loops() == 0);
	stop_server(&s);
}

static void its_size_is_the_limit(void)
{
	struct keeper_create r;
	struct cell c;

	start_server(&s, true);
	r = disk_plan("Full");
	make_image(r.id, "32M", "512");
	make_plan(&s, &r, &c);
	expect(&c,
	       "head -c 40M /dev/zero 2>/dev/shm/why >/tmp/big; grep -c 'No space' /dev/shm/why; "
	       "n=$(stat -c %s /tmp/big); rm /tmp/big; [ $n -lt 33554432 ] && [ $n -gt 20000000 ]",
	       "root", "1\n");
	expect(&c,
	       "i=0; while [ $i -lt 600 ] && true 2>/dev/null >/tmp/f$i; do i=$((i+1)); done; "
	       "[ $i -lt 512 ] && [ $i -gt 300 ] && echo full",
	       "root", "full\n");
	end_cell(&c);
	stop_server(&s);
}

static void a_read_only_root_keeps_its_places(void)
{
	struct keeper_create r;
	struct cell c;

	start_server(&s, true);
	r = disk_plan("Only");
	r.flags |= CELL_READ_ONLY;
	make_image(r.id, "64M", "4096");
	make_plan(&s, &r, &c);
	expect(&c, "echo kept >/home/user/a; touch /opt/x 2>/dev/null || echo read-only", "root",
	       "read-only\n");
	end_cell(&c);
	make_plan(&s, &r, &c);
	expect(&c, "cat /home/user/a", "root", "kept\n");
	end_cell(&c);
	stop_server(&s);
}

TEST_MAIN({ "files outlive the cell", files_outlive_the_cell },
	  { "an image is used once", an_image_is_used_once },
	  { "its size is the limit", its_size_is_the_limit },
	  { "a read-only root keeps its places", a_read_only_root_keeps_its_places })
