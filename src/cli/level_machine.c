/* level_machine.c - see level_machine.h. One function for each engine; the level container is
 * always possible, as far as the keeper says (cell_restrictions). */
#include "level_machine.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "child_process.h"
#include "guest_machine.h"
#include "hex.h"
#include "io.h"
#include "keeper_client.h"
#include "runsc.h"
#include "sha256.h"

static void set_possible(struct cell_level_state *s, const char *note)
{
	s->is_possible = 1;
	(void)snprintf(s->note, sizeof(s->note), "%s", note);
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

	if (child_process_beside("cordon-init", program, sizeof(program), e) < 0 ||
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
	(void)snprintf(m->guest_key, sizeof(m->guest_key), "%s", f.key);
	(void)snprintf(m->guest_origin, sizeof(m->guest_origin),
		       "kernel\t%s\npackage\t%s\nkernel_digest\tsha256:%s\n"
		       "modules_digest\tsha256:%s\nagent_digest\tsha256:%s\n"
		       "cordon\t" CORDON_VERSION "\n",
		       f.manifest.release, f.manifest.package, f.manifest.vmlinux,
		       f.manifest.modules, f.agent);
	return 0;
}

/* Memory images are of one engine: another version may not read what this one has written. */
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
		(void)snprintf(s->why, sizeof(s->why), "%s", e.msg);
}

void level_machine_init(struct level_machine *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (int i = 0; i < SERVE_LEVEL_FILES; i++)
		ret->files[i] = -1;
}

void level_machine_find(const char *runsc, const char *state_dir, struct level_machine *ret)
{
	level_machine_init(ret);
	for (unsigned i = 0; i < CELL_LEVELS; i++)
		level_machine_find_one((enum cell_level_id)i, runsc, state_dir, ret);
}

void level_machine_release(struct level_machine *m)
{
	io_close_all(m->files, SERVE_LEVEL_FILES);
}
