/* ids.c - reserves id ranges and writes id maps. See ids.h.
 *
 * Invariant: a range is used only while its slot is locked. The lock is released by the
 * kernel when the last process that holds the descriptor dies, so a crash leaves no range taken. */
#include "cell/keeper/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "lib/base/io.h"
#include "lib/base/kernel.h"
#include "lib/wire/keeper_msg.h"

/* 1,879,048,192 to 2,147,483,647: above what distributions, systemd and container managers hand
 * out, below the numbers that some programs take for negative. */
#define RANGE_FIRST 0x70000000U
/* One empty file for each range, locked while the range is in use. PID 1 of a lingering cell holds
 * the descriptor, too. With it, it can neither write the file nor lock another one. */
#define SLOTS "/run/cordon/ids.d"
#define RANGE_SLOTS 4094U /* the last ones are systemd's "foreign" range */
/* Further ranges, from 2,147,483,648 on, for machines with more cells than that: taken only when
 * RANGE_TRIES of the others were found in use, which does not happen before most of them are. */
#define RANGE_MORE 4096U
#define RANGE_MORE_SLOTS 12288U
#define RANGE_TRIES 64U

int ids_take_range(struct ids *ret, struct err *e)
{
	uint32_t start = 0;

	if ((mkdir("/run/cordon", 0755) < 0 && errno != EEXIST) ||
	    (mkdir(SLOTS, 0700) < 0 && errno != EEXIST))
		return err_sys(e, "mkdir " SLOTS);
	/* Random: processes of the last cell with a range may still be exiting. */
	if (getrandom(&start, sizeof(start), 0) != sizeof(start))
		return err_sys(e, "getrandom");
	for (uint32_t i = 0; i < RANGE_TRIES + RANGE_MORE_SLOTS; i++) {
		uint32_t slot = i < RANGE_TRIES ? (start + i) % RANGE_SLOTS
						: RANGE_MORE + (start + i) % RANGE_MORE_SLOTS;
		char path[64];

		(void)snprintf(path, sizeof(path), SLOTS "/%u", slot);
		OWN_FD fd = open(path, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0)
			return err_sys(e, "open %s", path);
		if (flock(fd, LOCK_EX | LOCK_NB) < 0)
			continue;
		struct ids_run run = { 0, RANGE_FIRST + slot * CELL_IDS, CELL_IDS };

		*ret = (struct ids){ .uid = { run }, .gid = { run }, .runs = 1, .setgroups = true };
		ret->slot_fd = TAKE_FD(fd);
		return 0;
	}
	return err_set(e, ERR_LIMIT, "all %u id ranges of this machine are in use",
		       RANGE_SLOTS + RANGE_MORE_SLOTS);
}

/* Outside, 0 is the user and 1 the first subordinate id. Make the user `id` inside, and the other
 * ids inside subordinate ids. */
static void ids_run_around(struct ids_run *ret, uint32_t id)
{
	const struct ids_run runs[] = { { 0, 1, id },
					{ id, 0, 1 },
					{ id + 1, id + 1, CELL_IDS - 1 - id } };

	memcpy(ret, runs + (id == 0), sizeof(runs) - (id == 0) * sizeof(runs[0]));
}

void ids_rootless(struct ids *ret, uint32_t available, uint32_t uid, uint32_t gid, bool keep)
{
	*ret = (struct ids){ .uid = { { 0, 1, CELL_IDS } },
			     .gid = { { 0, 1, CELL_IDS } },
			     .runs = 1,
			     .slot_fd = -1,
			     .setgroups = available >= CELL_IDS };
	if (available < CELL_IDS) {
		ret->uid[0] = (struct ids_run){ uid, 0, 1 };
		ret->gid[0] = (struct ids_run){ gid, 0, 1 };
	} else if (keep) {
		ret->runs = uid == 0 ? 2 : 3;
		ids_run_around(ret->uid, uid);
		ids_run_around(ret->gid, uid == 0 ? 0 : gid);
	}
}

int ids_write(const struct ids *ids, pid_t pid, struct err *e)
{
	for (const char *kind = "ug"; *kind != '\0'; kind++) {
		const struct ids_run *runs = *kind == 'u' ? ids->uid : ids->gid;
		char path[64], text[256];
		size_t len = 0;

		(void)snprintf(path, sizeof(path), "/proc/%d/%cid_map", (int)pid, *kind);
		for (unsigned i = 0; i < ids->runs; i++)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%u %u %u\n",
						runs[i].inside, runs[i].outside, runs[i].count);
		if (io_write_file(AT_FDCWD, path, text, e) < 0)
			return err_wrap(e, "user namespace");
	}
	return 0;
}

int ids_open_ns(pid_t pid, const char *name, int *ret_fd, struct err *e)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, name);
	*ret_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (*ret_fd < 0)
		return err_sys(e, "open %s", path);
	return 0;
}

uint32_t ids_outside(const struct ids *ids, char kind, uint32_t inside)
{
	const struct ids_run *runs = kind == 'u' ? ids->uid : ids->gid;

	for (unsigned i = 0; i < ids->runs; i++)
		if (inside >= runs[i].inside && inside - runs[i].inside < runs[i].count)
			return runs[i].outside + (inside - runs[i].inside);
	return runs[0].outside;
}

/* A child process keeps the namespace alive until its maps are written and it is opened. */
int ids_translator(uint32_t from_uid, uint32_t to_uid, uint32_t from_gid, uint32_t to_gid,
		   int *ret_fd, struct err *e)
{
	struct ids ids = { .uid = { { from_uid, to_uid, 1 } },
			   .gid = { { from_gid, to_gid, 1 } },
			   .runs = 1,
			   .slot_fd = -1 };
	struct clone_args args = { .flags = CLONE_NEWUSER, .exit_signal = SIGCHLD };
	pid_t parent = getpid();
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	int result;

	if (pid < 0)
		return err_sys(e, "user namespace for a mount");
	if (pid == 0) {
		/* Close all descriptors: another process may wait for the end of a channel whose
		 * copy this child has. */
		if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 &&
		    kernel_close_range(0, ~0U) == 0)
			while (getppid() == parent)
				(void)pause();
		_exit(1);
	}
	result = ids_write(&ids, pid, e);
	if (result == 0)
		result = ids_open_ns(pid, "user", ret_fd, e);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	return result;
}
