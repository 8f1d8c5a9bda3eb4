/* run_guest.c - the files that the engine of a level needs, and the start of its guest. See
 * run_private.h. */
#include "run_private.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "buf.h"
#include "clock.h"
#include "root_image.h"
#include "shown_text.h"

#define BOOT_GRACE_MS                                                                       \
	5000	     /* the shim knows why a guest did not start in time: it is asked first \
		      */
#define VM_USER 1000 /* of the cell around a virtual machine; its programs are in the guest */
#define VM_MEMORY_MIN (128ULL << 20)
#define MIB (1ULL << 20)
#define REASON_MAX 160 /* of what the engine printed */
#define LINES_MAX 8    /* of it, before that */

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

/* What a virtual machine cannot do, or not yet. */
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

/* The engine holds the open files of all programs of the guest. */
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

/* As many as the command may use; one without a limit. */
static uint32_t processors(uint64_t millis)
{
	uint64_t n = (millis + 999) / 1000;
	long here = sysconf(_SC_NPROCESSORS_ONLN);

	if (here > 0 && n > (uint64_t)here)
		n = (uint64_t)here;
	if (n > BOOT_CPUS_MAX)
		n = BOOT_CPUS_MAX;
	return n == 0 ? 1 : (uint32_t)n;
}

static void fill_vm(struct run *r, struct boot_request *b)
{
	b->engine = BOOT_MICROVM;
	b->options = r->o.read_only ? BOOT_READ_ONLY : 0;
	b->memory_bytes = (r->o.memory + MIB - 1) / MIB * MIB;
	b->vcpus = processors(r->o.cpus);
	b->accel = r->machine.use_kvm ? BOOT_ACCEL_KVM : BOOT_ACCEL_TCG;
}

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
	(void)snprintf(b->hostname, sizeof(b->hostname), "%s", o->hostname);
	(void)snprintf(b->machine_id, sizeof(b->machine_id), "%.32s", r->machine_id);
}

/* The last line that the engine or the guest's console printed, which is untrusted. */
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

/* What the engine or the guest's console printed before the last line: the lines that say why the
 * guest ended, and some that came last. A kernel that panics prints much between them. */
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

static int boot_failure(struct run *r, const struct agent_event *v, struct err *e)
{
	char text[BOOT_TEXT_MAX + 1];
	const char *line = last_line(&r->agent, v, text, sizeof(text));

	print_console(text, line);
	return err_set(e, ERR_SYSTEM, "--level %s: the guest did not start (%s): %s%s%.*s",
		       level_of(r)->name, boot_stage_word(v->stage), strerror(v->sys),
		       line[0] == '\0' ? "" : ": ", REASON_MAX, line);
}

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
