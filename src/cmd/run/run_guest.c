/* run_guest.c - the files that the engine of a level needs, and the start of its guest. See
 * run_private.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cell/template/cache_dir.h"
#include "cell/template/template.h"
#include "cmd/base/child_process.h"
#include "cmd/run/diff_print.h"
#include "cmd/run/run_private.h"
#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/fnv.h"
#include "lib/base/io.h"
#include "lib/base/shown_text.h"
#include "lib/base/str.h"

/* clang-format off */
/* ---- the root image of a virtual machine without a server, for `cordon run --level microvm`: an
 * erofs file with the whole root file system. The option names one of:
 *
 *	host	the machine's /usr and the root directory made for cells (template.h). The image is
 *		made once and kept in the cache directory until a file of it changes.
 *	/DIR	a directory with a root file system. The image is made each time.
 *	/FILE	an erofs image
 *
 * cordon-storage writes the image, started for this one job with the caller's rights. A kept image
 * has the fingerprint of all files in its name: their numbers, sizes and times of change. It is made
 * under no name and linked when it is whole. When a new image is made, older ones are removed. A
 * guest that uses one keeps it open. */
/* clang-format on */

#define ROOT_IMAGE_MAX (8ULL << 30) /* of a directory. The host has as much as it takes */

#define FORMAT 1 /* raise it when images are written in another way */
#define DEPTH_MAX 64
#define SLACK (64ULL << 20) /* directories, and files added in between */
#define EROFS_MAGIC 0xe0f5e1e2U
#define EROFS_MAGIC_AT 1024
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW)

/* ---- fingerprint */

struct print {
	uint64_t hash, bytes;
};

/* No byte of a file is read, because /usr has gigabytes. `bytes` estimates the image size: whole
 * blocks of 4096 bytes, and 512 for each inode. */
static void add_stat(struct print *p, const struct stat *st)
{
	const uint64_t parts[] = { st->st_ino, st->st_mode, (uint64_t)st->st_size,
				   (uint64_t)st->st_ctim.tv_sec, (uint64_t)st->st_ctim.tv_nsec };

	p->hash = fnv_add(p->hash, parts, sizeof(parts));
	p->bytes += 512 + (S_ISREG(st->st_mode) ? ((uint64_t)st->st_size + 4095) / 4096 * 4096 : 0);
}

/* The replacement, change or removal of a file changes its own times or those of its directory. */
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
			continue; /* removed in the meantime */
		add_stat(p, &st);
		p->hash = fnv_add(p->hash, d->d_name, strlen(d->d_name));
		if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
			result = add_tree(p, fd, d->d_name, depth + 1, e);
	}
	(void)closedir(list);
	return result;
}

/* FORMAT is part of the hash, so a new form makes new images. */
static int run_guest_fingerprint(const struct template *t, struct print *ret, struct err *e)
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

/* cordon-storage writes its own message, so only success or failure is left to tell. */
static int wait_for_tool(pid_t pid, struct err *e)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_sys(e, "make a root image");
	/* The cause is on standard error already. */
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

/* The image was written through this descriptor. The engine gets another one, which cannot
 * write. */
static int run_guest_reopen(int fd, int *ret, struct err *e)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	*ret = open(path, O_RDONLY | O_CLOEXEC);
	return *ret < 0 ? err_sys(e, "open the root image") : 0;
}

/* The file has no name, so nothing stays if this process ends before it is whole. */
static int make_in(int cache, const struct template *t, uint64_t max, int *ret, struct err *e)
{
	*ret = openat(cache, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (*ret < 0)
		return err_sys(e, "make a file in the cache directory");
	return make_image(t, max, *ret, e);
}

/* ---- where it comes from */

/* A running guest holds its image open, so the removal of the name does not disturb it. */
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

/* For a person who waits: gigabytes take a minute or more. Programs read the command's output.
 */
static void tell_making(uint64_t bytes)
{
	if (isatty(STDERR_FILENO))
		(void)fprintf(stderr,
			      "cordon: making the root image of this machine, %" PRIu64
			      " MiB: once, and after each change of its packages\n",
			      bytes >> 20);
}

/* Return the kept image for these files, or make it. Two processes may make it at the same time:
 * both images are whole, the first link stays, and EEXIST is no error. */
static int open_kept(const struct template *host, int *ret, struct err *e)
{
	char name[32], path[32];
	struct statvfs v;
	struct print print;
	int folder = -1, made = -1;

	if (cache_dir_open(&folder, e) < 0)
		return -1;
	OWN_FD cache = folder;
	if (run_guest_fingerprint(host, &print, e) < 0)
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
	tell_making(print.bytes);
	int result = make_in(cache, host, print.bytes + SLACK, &made, e);
	OWN_FD image = made;
	if (result < 0)
		return -1;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", image);
	if (linkat(AT_FDCWD, path, cache, name, AT_SYMLINK_FOLLOW) < 0 && errno != EEXIST)
		return err_sys(e, "keep the root image");
	remove_others(cache, name);
	return run_guest_reopen(image, ret, e);
}

/* The image of a directory is made for each command and not kept. */
static int open_directory(int dir, int *ret, struct err *e)
{
	struct template t = { .nlayers = 1, .fds = { dir } };
	int folder = -1, made = -1;

	if (cache_dir_open(&folder, e) < 0)
		return -1;
	OWN_FD cache = folder;
	int result = make_in(cache, &t, ROOT_IMAGE_MAX, &made, e);
	OWN_FD image = made;
	return result < 0 ? -1 : run_guest_reopen(image, ret, e);
}

/* The magic number refuses a wrong file here, before a guest fails to boot from it. */
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

/* Open it for reading. Make it first, if need be. host: of template_open("host"). */
static int root_image_open(const char *from, const struct template *host, int *ret_fd,
			   struct err *e)
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

/* ---- changes of the command in a virtual machine
 *
 * The keeper does not see the files of the guest. The guest's agent lists them by the built-in
 * program diff, in the keeper's form, when every program of the guest is dead. That list is
 * untrusted: its size and time are bounded, and diff_print() checks its form. */

#define LIST_HANDLE (RUN_HANDLE + 1)
#define LIST_MS 300000U
#define LIST_MAX (256U << 20)
#define EVENTS_MAX 64 /* before the answer, of killed programs */

/* Start the built-in program. Events of killed programs may come before its answer, so a bounded
 * number is skipped. */
static int run_guest_start(struct run *r, struct agent_event *ret_started, struct err *e)
{
	static const char name[] = "diff";
	const struct agent_spawn how = { .handle = LIST_HANDLE,
					 .flags = AGENT_BUILTIN,
					 .user = "root",
					 .cwd = "/",
					 .argc = 1,
					 .strings = name,
					 .strings_len = sizeof(name) };
	enum agent_type type = AGENT_READY;

	if (agent_send_spawn(&r->agent, &how, e) < 0)
		return -1;
	for (int i = 0; i < EVENTS_MAX; i++) {
		if (run_command_receive(r, &type, ret_started, e) < 0 ||
		    (type == AGENT_GUEST && run_guest_event(r, ret_started, e) < 0))
			return -1;
		if (type == AGENT_STARTED && ret_started->handle == LIST_HANDLE)
			return 0;
		if (type != AGENT_FAILED || ret_started->handle != LIST_HANDLE)
			continue;
		errno = ret_started->sys;
		return err_sys(e, "the guest's agent");
	}
	return err_set(e, ERR_INVALID,
		       "internal protocol error: the guest's agent does not answer");
}

/* The guest may send slowly or without end, so time and bytes are bounded. */
static int run_guest_copy(int from, int to, struct err *e)
{
	const uint64_t end_ns = clock_now_ns() + LIST_MS * CLOCK_MS;
	char block[16384];
	uint64_t total = 0;

	for (;;) {
		struct pollfd p = { .fd = from, .events = POLLIN };
		uint64_t now_ns = clock_now_ns();
		ssize_t n;

		if (now_ns >= end_ns)
			return err_set(e, ERR_SYSTEM, "the guest does not list its changes");
		if (poll(&p, 1, (int)((end_ns - now_ns) / CLOCK_MS) + 1) <= 0)
			continue;
		n = read(from, block, sizeof(block));
		if (n == 0)
			return 0;
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (n < 0)
			return err_sys(e, "read the guest's list of changes");
		total += (uint64_t)n;
		if (total > LIST_MAX)
			return err_set(e, ERR_LIMIT, "more changes than %u MiB of names",
				       LIST_MAX >> 20);
		if (io_write_all(to, block, (size_t)n, e) < 0)
			return -1;
	}
}

/* The list goes to a memory file first: diff_print() reads with blocking calls, and a guest that
 * stops in the middle must not block it. */
int run_guest_changes(struct run *r, struct err *e)
{
	OWN_FD list = memfd_create("changes", MFD_CLOEXEC);
	struct agent_event started;
	int in = -1, outs[2] = { -1, -1 };

	if (list < 0)
		return err_sys(e, "memory file");
	if (run_guest_start(r, &started, e) < 0)
		return -1;
	agent_take_stdio(&r->agent, &started, &in, outs, COUNT(outs));
	OWN_FD from = outs[0];
	io_close_all(&in, 1);
	io_close_all(&outs[1], 1);
	if (from < 0)
		return err_set(e, ERR_INVALID, "the guest sent no pipes");
	if (run_guest_copy(from, list, e) < 0)
		return -1;
	if (lseek(list, 0, SEEK_SET) < 0)
		return err_sys(e, "memory file");
	return diff_print(list, stdout, e);
}

#define BOOT_GRACE_MS                                                                       \
	5000	     /* the shim knows why a guest did not start in time: it is asked first \
		      */
#define VM_USER 1000 /* of the cell around a virtual machine. Its programs are in the guest */
#define VM_MEMORY_MIN (128ULL << 20)
#define MIB (1ULL << 20)
#define REASON_MAX 160 /* of the engine's output */
#define LINES_MAX 8    /* of it, before that */

/* ---- levels with a guest. The cell holds cordon-shim and an engine (gVisor or QEMU), and the
 * command runs behind the engine. The guest enforces the command's limits, the kernel of this
 * machine those of the cell. run_guest_plan() makes the cell's limits larger, so that the engine
 * fits in beside the command. */
static const struct cell_level *level_of(const struct run *r)
{
	return cell_level_find(r->o.level);
}

bool run_guest_wanted(const struct run *r)
{
	return level_of(r)->engine != CELL_ENGINE_NONE;
}

static bool is_vm(const struct run *r)
{
	return level_of(r)->engine == CELL_ENGINE_MICROVM;
}

bool run_guest_has_files(const struct run *r)
{
	return is_vm(r);
}

/* Refuse options that a virtual machine cannot serve. */
static int check_vm(const struct run *r, struct err *e)
{
	if (!is_vm(r))
		return 0;
	if (r->o.profile == CELL_LOCKED && r->uid == 0)
		return err_set(e, ERR_UNSUPPORTED,
			       "--user root: not in the profile locked at level microvm");
	if (r->o.memory < VM_MEMORY_MIN)
		return err_set(e, ERR_UNSUPPORTED, "--memory: level microvm needs at least %lluM",
			       VM_MEMORY_MIN / MIB);
	return 0;
}

/* gVisor makes every file as root and then gives it to its owner. In a directory of the machine,
 * only one user of the cell stands for the owner outside. */
static int check_writable(const struct run *r, struct err *e)
{
	for (size_t i = 0; r->uid != 0 && i < r->o.mounts.n; i++)
		if (r->o.mount[i].writable)
			return err_set(e, ERR_UNSUPPORTED,
				       "--mount %.100s: at level gvisor only root can write to "
				       "directories of the machine (--user root)",
				       r->o.mount[i].at);
	return 0;
}

/* First the level, then each option against the abilities of the level. No case falls back to a
 * weaker level. */
int run_guest_check(struct run *r, struct err *e)
{
	const struct cell_level *level = level_of(r);
	const struct cell_level_state *state;

	if (!run_guest_wanted(r))
		return 0;
	level_machine_find_one(level->id, r->o.runsc, r->o.state_dir, &r->machine);
	state = &r->machine.states[level->id];
	if (!state->is_possible)
		return err_set(e, ERR_UNSUPPORTED, "--level %s: not possible here: %s", level->name,
			       state->why);
	if (r->o.mounts.n > 0 && !cell_level_can(level, CELL_CAN_MOUNT))
		return err_set(e, ERR_UNSUPPORTED,
			       "--mount: level %s has no directories of the machine", level->name);
	if (level->engine == CELL_ENGINE_GVISOR && check_writable(r, e) < 0)
		return -1;
	if (r->o.diff && !cell_level_can(level, CELL_CAN_DIFF))
		return err_set(e, ERR_UNSUPPORTED, "--diff: level %s cannot list changes",
			       level->name);
	return check_vm(r, e);
}

const char *run_guest_cell_template(const struct run *r)
{
	return is_vm(r) ? "host" : r->o.template;
}

int run_guest_root(struct run *r, struct err *e)
{
	return is_vm(r) ? root_image_open(r->o.template, &r->template, &r->root_fd, e) : 0;
}

/* The engine holds the open files of all guest programs. */
static uint64_t open_files(const struct cell_level *level, uint64_t asked)
{
	uint64_t want = level->nofile > asked ? level->nofile : asked;
	struct rlimit own;

	if (getrlimit(RLIMIT_NOFILE, &own) == 0 && own.rlim_max < want)
		want = own.rlim_max;
	return want;
}

int run_guest_ids(const struct run *r, struct err *e)
{
	if (level_of(r)->engine != CELL_ENGINE_GVISOR || r->keeper.restrictions.ids > 1)
		return 0;
	return err_set(
		e, ERR_UNSUPPORTED,
		"--level gvisor: not possible here: it needs a range of ids for this user in "
		"/etc/subuid and /etc/subgid, and newuidmap");
}

/* The user's limits are those of the command. The row of the level adds factors and allowances
 * for the engine. Around a virtual machine the cell is locked and read-only, whichever profile
 * the command gets inside. */
void run_guest_plan(const struct run *r, struct keeper_create *c)
{
	const struct cell_level *level = level_of(r);

	if (!run_guest_wanted(r))
		return;
	c->engine = level->engine;
	c->profile = is_vm(r) ? CELL_LOCKED : CELL_STANDARD;
	if (is_vm(r)) {
		c->flags = CELL_READ_ONLY | (r->machine.use_kvm ? CELL_KVM : 0);
		c->uid = c->gid = VM_USER;
	}
	if (c->limits.memory_bytes != 0 && level->memory_each > 1)
		c->limits.memory_bytes *= level->memory_each;
	if (c->limits.memory_bytes != 0)
		c->limits.memory_bytes += level->memory_bytes;
	if (c->limits.pids != 0)
		c->limits.pids = c->limits.pids * level->pids_each + level->pids;
	c->limits.nofile = open_files(level, c->limits.nofile);
}

/* The descriptors of BOOT, in the order of its bits. They are taken by agent_send_boot(). */
static uint32_t boot_files(struct run *r, int *ret_fds)
{
	int *files = r->machine.files;

	if (!is_vm(r)) {
		ret_fds[0] = TAKE_FD(files[SERVE_LEVEL_RUNSC]);
		return BOOT_FD_ENGINE;
	}
	ret_fds[0] = TAKE_FD(files[SERVE_LEVEL_KERNEL]);
	ret_fds[1] = TAKE_FD(files[SERVE_LEVEL_INITRD]);
	ret_fds[2] = TAKE_FD(r->root_fd);
	return BOOT_FD_KERNEL | BOOT_FD_INITRD | BOOT_FD_ROOT;
}

/* As many as the command may use. One without a limit. */
static uint32_t run_guest_processors(uint64_t millis)
{
	uint64_t n = (millis + 999) / 1000;
	long here = sysconf(_SC_NPROCESSORS_ONLN);

	if (here > 0 && n > (uint64_t)here)
		n = (uint64_t)here;
	if (n > BOOT_CPUS_MAX)
		n = BOOT_CPUS_MAX;
	return n == 0 ? 1 : (uint32_t)n;
}

/* The memory of a virtual machine is a whole number of MiB, rounded up. */
static void fill_vm(struct run *r, struct boot_request *b)
{
	b->engine = BOOT_MICROVM;
	b->options = r->o.read_only ? BOOT_READ_ONLY : 0;
	b->memory_bytes = (r->o.memory + MIB - 1) / MIB * MIB;
	b->vcpus = run_guest_processors(r->o.cpus);
	b->accel = r->machine.use_kvm ? BOOT_ACCEL_KVM : BOOT_ACCEL_TCG;
}

/* The guest gets the user's own limits, without the allowances of the cell. */
static void fill_boot(struct run *r, struct boot_request *b, int *ret_fds)
{
	const struct run_options *o = &r->o;

	*b = (struct boot_request){
		.engine = BOOT_GVISOR,
		.profile = o->profile,
		.uid = r->uid,
		.gid = r->uid,
		.memory_bytes = o->memory,
		.disk_bytes = o->disk,
		.inodes = o->inodes,
		.pids = o->pids,
		.nofile = o->nofile,
		.wait_s = (uint32_t)((o->boot_ms + 999) / 1000),
	};
	if (is_vm(r))
		fill_vm(r, b);
	b->fds = boot_files(r, ret_fds);
	str_copy(b->hostname, o->hostname);
	(void)snprintf(b->machine_id, sizeof(b->machine_id), "%.32s", r->machine_id);
}

/* The last, untrusted line of the engine or the guest's console. */
static const char *last_line(const struct agent *a, const struct agent_event *v, char *text,
			     size_t cap)
{
	char *end;

	agent_read_text(a, v, text, cap);
	end = text + strlen(text);
	while (end > text && (end[-1] == '\n' || end[-1] == '\r'))
		*--end = '\0';
	end = strrchr(text, '\n');
	return end == NULL ? text : end + 1;
}

/* The lines that matter for a failed start: those by the init of the guest, and a panic of its
 * kernel. */
static bool names_reason(const char *line, size_t n)
{
	return memmem(line, n, "cordon-init: ", 13) != NULL || memmem(line, n, "panic", 5) != NULL;
}

/* The beginning of the n lines before this one. */
static const char *lines_before(const char *text, const char *line, unsigned n)
{
	while (n-- > 0 && line > text) {
		line--;
		while (line > text && line[-1] != '\n')
			line--;
	}
	return line;
}

/* Print output of the engine or the guest's console before the last line: the lines about the
 * guest's end, and some last ones. A kernel that panics prints much between them. */
static void print_console(const char *text, const char *last)
{
	struct buf shown = BUF_INIT((size_t)BOOT_TEXT_MAX * SHOWN_TEXT_GROWTH);
	const char *recent = lines_before(text, last, LINES_MAX);

	for (const char *at = text; at < last; at += strcspn(at, "\n") + 1) {
		size_t n = strcspn(at, "\r\n");

		if (n == 0 || (at < recent && !names_reason(at, n)))
			continue;
		shown_text(&shown, (const uint8_t *)at, n);
		buf_put(&shown, "\n", 1);
	}
	(void)fputs(buf_text(&shown), stderr);
	buf_release(&shown);
}

/* The last line becomes part of the error. The lines before it go to stderr. */
static int boot_failure(struct run *r, const struct agent_event *v, struct err *e)
{
	char text[BOOT_TEXT_MAX + 1];
	const char *line = last_line(&r->agent, v, text, sizeof(text));

	print_console(text, line);
	return err_set(e, ERR_SYSTEM, "--level %s: the guest did not start (%s): %s%s%.*s",
		       level_of(r)->name, boot_stage_word(v->stage), strerror(v->sys),
		       line[0] == '\0' ? "" : ": ", REASON_MAX, line);
}

/* Wait until the guest takes commands. The shim's own timeout is BOOT_GRACE_MS shorter, so its
 * reason usually arrives first. */
int run_guest_boot(struct run *r, struct err *e)
{
	uint64_t end_ns = clock_now_ns() + (r->o.boot_ms + BOOT_GRACE_MS) * CLOCK_MS;
	enum agent_type type = AGENT_READY;
	struct boot_request b;
	struct agent_event v;
	int fds[BOOT_FDS_MAX];

	fill_boot(r, &b, fds);
	if (agent_send_boot(&r->agent, &b, fds, e) < 0)
		return -1;
	while (type != AGENT_BOOTED) {
		uint64_t now = clock_now_ns();
		int got = now >= end_ns
				  ? 0
				  : agent_next(&r->agent, (int)((end_ns - now) / CLOCK_MS) + 1,
					       &type, &v, e);

		if (got < 0)
			return err_wrap(e, "start of the guest");
		if (got == 0)
			return err_set(e, ERR_SYSTEM, "--level %s: the guest did not start in time",
				       level_of(r)->name);
		if (type == AGENT_GUEST && run_guest_event(r, &v, e) < 0)
			return -1;
	}
	return v.sys == 0 ? 0 : boot_failure(r, &v, e);
}

/* A guest that does not answer may recover, so only its end is an error. */
int run_guest_event(struct run *r, const struct agent_event *v, struct err *e)
{
	char text[BOOT_TEXT_MAX + 1];
	const char *line;

	if (v->stage == BOOT_GUEST_ALIVE || v->stage == BOOT_GUEST_UNRESPONSIVE)
		return 0;
	line = last_line(&r->agent, v, text, sizeof(text));
	return err_set(e, ERR_SYSTEM, "level %s: the guest has ended (%s)%s%.*s", level_of(r)->name,
		       boot_guest_word(v->stage), line[0] == '\0' ? "" : ": ", REASON_MAX, line);
}

void run_guest_release(struct run *r)
{
	level_machine_release(&r->machine);
	fd_close(TAKE_FD(r->root_fd));
}
