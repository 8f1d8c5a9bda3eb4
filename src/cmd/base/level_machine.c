/* level_machine.c - see level_machine.h. One function for each engine. The level container is
 * always possible, as far as the keeper says (cell_restrictions). */
#include "cmd/base/level_machine.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "cell/cellctl/installed.h"
#include "cell/cellctl/keeper_client.h"
#include "cell/cellctl/runsc.h"
#include "cell/kernel/guest_machine.h"
#include "lib/base/fd.h"
#include "lib/base/hex.h"
#include "lib/base/io.h"
#include "lib/base/sha256.h"
#include "lib/base/str.h"

/* ---- the size of the template host: one fstatat(2) for each file, about a second for 200,000
 * files in the caches of the kernel. */

#define DEPTH_MAX 64
#define FILES_MAX 4000000U /* more than an image can have */
#define BLOCK 4096U
#define ENTRY 512U /* inode, name, attributes */

struct level_machine_sum {
	uint64_t bytes;
	unsigned files;
};

static void level_machine_add(struct level_machine_sum *s, const struct stat *st)
{
	uint64_t size = S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0;

	s->files++;
	s->bytes += ENTRY + (size + BLOCK - 1) / BLOCK * BLOCK;
}

static int add_tree(struct level_machine_sum *s, int parent, const char *name, unsigned depth,
		    struct err *e)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), result = 0;
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	struct stat st;

	if (list == NULL) {
		fd_close(fd);
		return err_sys(e, "read %.120s", name);
	}
	for (struct dirent *d; result == 0 && (d = readdir(list)) != NULL;) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		if (s->files >= FILES_MAX)
			break;
		if (fstatat(fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue; /* removed in the meantime */
		level_machine_add(s, &st);
		if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
			result = add_tree(s, fd, d->d_name, depth + 1, e);
	}
	(void)closedir(list);
	return result;
}

int host_size(uint64_t enough, uint64_t *ret_bytes, struct err *e)
{
	struct statvfs v;
	struct level_machine_sum s = { 0 };

	if (statvfs("/usr", &v) == 0 && (v.f_blocks - v.f_bfree) <= enough / v.f_frsize) {
		*ret_bytes = (v.f_blocks - v.f_bfree) * v.f_frsize;
		return 0;
	}
	if (add_tree(&s, AT_FDCWD, "/usr", 0, e) < 0)
		return err_wrap(e, "the size of /usr");
	*ret_bytes = s.bytes;
	return 0;
}

uint64_t host_size_room(const char *dir)
{
	struct statvfs v;

	return statvfs(dir, &v) == 0 ? v.f_bavail * v.f_frsize : 0;
}

static void set_possible(struct cell_level_state *s, const char *note)
{
	s->is_possible = 1;
	str_copy(s->note, note);
}

static int find_gvisor(const char *runsc, struct level_machine *m, char note[static 160],
		       struct err *e)
{
	uint32_t release;
	int opened = -1;

	if (runsc_open(runsc == NULL ? "" : runsc, &opened, e) < 0)
		return -1;
	OWN_FD fd = opened;
	if (runsc_check(fd, &release, e) < 0)
		return -1;
	m->files[SERVE_LEVEL_RUNSC] = TAKE_FD(fd);
	(void)snprintf(note, 160, "runsc of %u", release);
	return 0;
}

/* The kernel and the initramfs, with this version's cordon-init in it. */
static int load_guest(const char *state_dir, struct level_machine *m, struct err *e)
{
	struct guest_files f;
	char program[4096];
	int dir = -1, loaded;

	if (installed_path("cordon-init", program, sizeof(program), e) < 0 ||
	    guest_files_open_dir(state_dir, &dir, e) < 0)
		return -1;
	OWN_FD held = dir;
	OWN_FD init = open(program, O_RDONLY | O_CLOEXEC);
	if (init < 0)
		return err_sys(e, "open %s", program);
	loaded = guest_files_load(held, init, &f, e);
	if (loaded < 0)
		return -1;
	m->files[SERVE_LEVEL_KERNEL] = f.kernel;
	m->files[SERVE_LEVEL_INITRD] = f.initramfs;
	str_copy(m->guest_key, f.key);
	(void)snprintf(m->guest_origin, sizeof(m->guest_origin),
		       "kernel\t%s\npackage\t%s\nkernel_digest\tsha256:%s\n"
		       "modules_digest\tsha256:%s\nagent_digest\tsha256:%s\n"
		       "cordon\t" CORDON_VERSION "\n",
		       f.manifest.release, f.manifest.package, f.manifest.vmlinux,
		       f.manifest.modules, f.agent);
	return 0;
}

/* Memory images belong to one engine: another version may not be able to read them. */
static void add_engine(const struct guest_machine *machine, struct level_machine *m)
{
	const char *accel = machine->use_kvm ? "kvm" : "tcg";
	size_t n = strlen(m->guest_origin);
	char *key = m->guest_key;
	char text[SERVE_GUEST_KEY_MAX + 64];
	uint8_t sum[SHA256_SIZE];

	(void)snprintf(text, sizeof(text), "%s\nqemu %u.%u\n%s\n", key, machine->qemu[0],
		       machine->qemu[1], accel);
	sha256_of(text, strlen(text), sum);
	hex_encode(sum, sizeof(sum), key);
	(void)snprintf(m->guest_origin + n, sizeof(m->guest_origin) - n,
		       "engine\tqemu %u.%u\naccelerator\t%s\n", machine->qemu[0], machine->qemu[1],
		       accel);
}

static int find_microvm(const char *state_dir, struct level_machine *m, char note[static 160],
			struct err *e)
{
	struct guest_machine machine;

	if (guest_machine_find(state_dir, &machine, e) < 0 || load_guest(state_dir, m, e) < 0)
		return -1;
	m->use_kvm = machine.use_kvm;
	add_engine(&machine, m);
	guest_machine_accel_text(&machine, note, 160);
	return 0;
}

void level_machine_find_one(enum cell_level_id level, const char *runsc, const char *state_dir,
			    struct level_machine *ret)
{
	struct cell_level_state *s = &ret->states[level];
	char note[160] = "";
	struct err e = { 0 };
	int found = 0;

	if (level != CELL_CONTAINER && !keeper_client_has_shim())
		found = err_set(&e, ERR_UNSUPPORTED, "cordon-shim is not installed");
	else if (level == CELL_GVISOR)
		found = find_gvisor(runsc, ret, note, &e);
	else if (level == CELL_MICROVM)
		found = find_microvm(state_dir, ret, note, &e);
	if (found == 0)
		set_possible(s, note);
	else
		str_copy(s->why, e.msg);
}

void level_machine_init(struct level_machine *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (int i = 0; i < SERVE_LEVEL_FILES; i++)
		ret->files[i] = -1;
}

void level_machine_release(struct level_machine *m)
{
	io_close_all(m->files, SERVE_LEVEL_FILES);
}
