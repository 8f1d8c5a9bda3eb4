/* run_guest.c - the files that the engine of a level needs, and the start of its guest. See
 * run_private.h. */
#include "run_private.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "clock.h"
#include "guest_files.h"

#define BOOT_WAIT_MS 60000 /* a machine without KVM takes seconds */
#define REASON_MAX 160	   /* of what the engine printed */

static const struct cell_level *level_of(const struct run *r)
{
	return cell_level_find(r->o.level);
}

bool run_guest_wanted(const struct run *r)
{
	return level_of(r)->engine != CELL_ENGINE_NONE;
}

int run_guest_check(struct run *r, struct err *e)
{
	const struct cell_level *level = level_of(r);
	const struct cell_level_state *state;

	if (!run_guest_wanted(r))
		return 0;
	level_machine_find_one(level->id, r->o.runsc, GUEST_STATE_DIR, &r->machine);
	state = &r->machine.states[level->id];
	if (!state->is_possible)
		return err_set(e, ERR_UNSUPPORTED, "--level %s: not possible here: %s", level->name,
			       state->why);
	if (r->o.mounts.n > 0 && !cell_level_can(level, CELL_CAN_MOUNT))
		return err_set(e, ERR_UNSUPPORTED,
			       "--mount: level %s has no directories of the machine", level->name);
	if (r->o.diff && !cell_level_can(level, CELL_CAN_DIFF))
		return err_set(e, ERR_UNSUPPORTED, "--diff: level %s cannot list changes",
			       level->name);
	return 0;
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

void run_guest_plan(const struct run *r, struct keeper_create *c)
{
	const struct cell_level *level = level_of(r);

	if (!run_guest_wanted(r))
		return;
	c->engine = level->engine;
	c->profile = level->engine == CELL_ENGINE_MICROVM ? CELL_LOCKED : CELL_STANDARD;
	if (c->limits.memory_bytes != 0)
		c->limits.memory_bytes += level->memory_bytes;
	if (c->limits.pids != 0)
		c->limits.pids = c->limits.pids * level->pids_each + level->pids;
	c->limits.nofile = open_files(level, c->limits.nofile);
}

/* The descriptors of BOOT, in the order of its bits. They are taken by agent_send_boot(). */
static uint32_t boot_files(struct run *r, int *ret_fds)
{
	size_t n = 0;

	if (level_of(r)->engine == CELL_ENGINE_GVISOR) {
		ret_fds[n++] = r->machine.files[SERVE_LEVEL_RUNSC];
		r->machine.files[SERVE_LEVEL_RUNSC] = -1;
		return BOOT_FD_ENGINE;
	}
	return 0;
}

static void fill_boot(struct run *r, struct boot_request *b, int *ret_fds)
{
	const struct run_options *o = &r->o;

	*b = (struct boot_request){
		.engine = level_of(r)->engine == CELL_ENGINE_GVISOR ? BOOT_GVISOR : BOOT_MICROVM,
		.profile = o->profile,
		.uid = r->uid,
		.gid = r->uid,
		.memory_bytes = o->memory,
		.disk_bytes = o->disk,
		.inodes = o->inodes,
		.pids = o->pids,
		.nofile = o->nofile,
	};
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

static int boot_failure(struct run *r, const struct agent_event *v, struct err *e)
{
	char text[BOOT_TEXT_MAX + 1];
	const char *line = last_line(&r->agent, v, text, sizeof(text));

	return err_set(e, ERR_SYSTEM, "--level %s: the guest did not start (%s): %s%s%.*s",
		       level_of(r)->name, boot_stage_word(v->stage), strerror(v->sys),
		       line[0] == '\0' ? "" : ": ", REASON_MAX, line);
}

int run_guest_boot(struct run *r, struct err *e)
{
	uint64_t end_ns = clock_now_ns() + BOOT_WAIT_MS * CLOCK_MS;
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
}
