/* session_level.c - see session_level.h. */
#include "daemon/guest/session_level.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "daemon/node/core.h"
#include "daemon/node/core_private.h"
#include "daemon/session/session.h"
#include "daemon/session/volume_line.h"
#include "daemon/template/templates.h"
#include "daemon/template/templates_private.h"
#include "daemon/tenant/quota.h"

#define MIB ((uint64_t)1 << 20)
#define MICROVM_MEMORY_MIN (128 * MIB) /* below it the guest's kernel has no room for programs */
#define MICROVM_DISK (16 * MIB) /* of the cell around the guest: QEMU writes next to nothing */
#define MICROVM_INODES 1024

static int level_refuse(const char *what, const struct cell_level *level, struct err *e)
{
	return err_set(e, ERR_UNSUPPORTED, "%s: not possible at level %s", what, level->name);
}

/* A directory of the machine has one owner in the cell, who is not root: gVisor, which makes files
 * as root, cannot write to it. In a cell with a volume no user namespace can be made, which gVisor
 * needs. */
static bool writes_mounts(const struct template_version *v, const struct session_spec *spec)
{
	for (unsigned i = 0; i < spec->nmounts; i++)
		if (spec->mounts[i].writable || volume_line_is(spec->mounts[i].source))
			return true;
	return strstr(v->row.mounts, "\trw\n") != NULL;
}

static int check_abilities(const struct cell_level *l, const struct template_version *v,
			   const struct session_spec *spec, struct err *e)
{
	if ((spec->nmounts > 0 || v->row.mounts[0] != '\0') && !cell_level_can(l, CELL_CAN_MOUNT))
		return level_refuse("mounts", l, e);
	if (writes_mounts(v, spec) && !cell_level_can(l, CELL_CAN_MOUNT_WRITABLE))
		return level_refuse("volumes and writable mounts", l, e);
	if ((spec->on_timeout != SESSION_KILL || spec->on_idle != SESSION_KILL) &&
	    !cell_level_can(l, CELL_CAN_PAUSE))
		return level_refuse("pause", l, e);
	if (spec->storage_given && spec->storage == SESSION_DISK &&
	    !cell_level_can(l, CELL_CAN_USE_DISK))
		return level_refuse("storage disk", l, e);
	if (spec->persist && !cell_level_can(l, CELL_CAN_USE_DISK))
		return level_refuse("persist", l, e);
	if (spec->profile == CELL_LOCKED && !cell_level_can(l, CELL_CAN_LOCK))
		return level_refuse("profile locked", l, e);
	if (spec->read_only && !cell_level_can(l, CELL_CAN_READ_ONLY))
		return level_refuse("root read-only", l, e);
	return 0;
}

/* A snapshot with memory fits only a session like the one it was made of. */
static int check_snapshot(const struct cell_level *l, const struct template_version *v,
			  const struct session_spec *spec, struct err *e)
{
	const struct cell_level *was = cell_level_of(v->row.level);

	if (!template_has_memory(v))
		return 0;
	if (l != was)
		return err_set(e, ERR_UNSUPPORTED,
			       "level: the snapshot has the memory of a session at level %s",
			       was->name);
	if (spec->profile >= 0 && (uint32_t)spec->profile != v->row.memory_profile)
		return err_set(e, ERR_UNSUPPORTED,
			       "profile: the snapshot has the memory of a session of profile %s",
			       cell_profile_name(v->row.memory_profile));
	if (spec->read_only && !v->row.memory_read_only)
		return err_set(e, ERR_UNSUPPORTED,
			       "root: the snapshot has the memory of a session whose root is "
			       "writable");
	return 0;
}

int session_level_choose(const struct core *c, const struct template_version *v,
			 const struct session_spec *spec, struct store_session *row, struct err *e)
{
	const struct cell_level *level = cell_level_find(spec->level);

	if (spec->level == NULL || *spec->level == '\0')
		level = v->row.level != CELL_CONTAINER ? cell_level_of(v->row.level)
						       : cell_level_find(spec->usual_level);
	if (level == NULL)
		return err_set(e, ERR_UNSUPPORTED, "level %.60s: must be " CELL_LEVEL_NAMES,
			       spec->level);
	row->level = level->id;
	if (core_level_check(c, level, e) < 0 || check_snapshot(level, v, spec, e) < 0)
		return -1;
	return check_abilities(level, v, spec, e);
}

/* Programs in the memory of a snapshot continue with their own settings. */
void session_level_inherit(const struct template_version *v, struct store_session *row)
{
	if (!template_has_memory(v))
		return;
	row->profile = v->row.memory_profile;
	row->read_only = v->row.memory_read_only;
}

bool session_level_has_own_memory(uint32_t level)
{
	return cell_level_of(level)->engine == CELL_ENGINE_MICROVM;
}

int session_level_limits(struct store_session *row, struct err *e)
{
	if (!session_level_has_own_memory(row->level))
		return 0;
	row->limits.memory_bytes = (row->limits.memory_bytes + MIB - 1) / MIB * MIB;
	if (row->limits.memory_bytes < MICROVM_MEMORY_MIN)
		return err_set(e, ERR_INVALID, "memory: %s is below the minimum of %s at level %s",
			       limit_text("memory", row->limits.memory_bytes).s,
			       limit_text("memory", MICROVM_MEMORY_MIN).s,
			       cell_level_of(row->level)->name);
	return 0;
}

int session_level_check_memory(const struct template_version *v, const struct store_session *row,
			       struct err *e)
{
	if (!template_has_memory(v) || row->limits.memory_bytes == v->row.memory_bytes)
		return 0;
	return err_set(e, ERR_UNSUPPORTED,
		       "memory: the snapshot has the memory of a session with %llu MiB, not %llu",
		       (unsigned long long)(v->row.memory_bytes / MIB),
		       (unsigned long long)(row->limits.memory_bytes / MIB));
}

/* The guest has the session's files: the cell around it is made of the machine's own programs, of
 * which QEMU is one, and nothing can be written in it. */
static void plan_microvm(const struct core *c, struct keeper_create *plan)
{
	plan->profile = CELL_LOCKED;
	plan->flags |= CELL_READ_ONLY | (c->o.use_kvm ? (uint32_t)CELL_KVM : 0);
	plan->limits.disk_bytes = MICROVM_DISK;
	plan->limits.inodes = MICROVM_INODES;
	plan->nmounts = 0;
	plan->nlayers = c->o.host.nlayers;
	memset(plan->layer_at, 0, sizeof(plan->layer_at));
	memset(plan->layer_from, 0, sizeof(plan->layer_from));
	for (uint32_t i = 0; i < plan->nlayers; i++) {
		plan->layer_from[i].root = c->o.host.layers[i].root;
		memcpy(plan->layer_at[i], c->o.host.layers[i].at, sizeof(plan->layer_at[i]));
	}
}

/* At most this process's own limit: the keeper, with the same one, cannot give more. */
static uint64_t nofile_of(const struct cell_level *l)
{
	struct rlimit most;

	if (getrlimit(RLIMIT_NOFILE, &most) < 0 || most.rlim_max >= l->nofile)
		return l->nofile;
	return most.rlim_max;
}

void session_level_plan(const struct core *c, const struct store_session *row,
			struct keeper_create *plan)
{
	const struct cell_level *l = cell_level_of(row->level);

	if (l->engine == CELL_ENGINE_NONE)
		return;
	plan->engine = l->engine;
	plan->profile = CELL_STANDARD; /* the session's own is that of its programs in the guest */
	if (plan->limits.memory_bytes > 0)
		plan->limits.memory_bytes =
			l->memory_each * plan->limits.memory_bytes + l->memory_bytes;
	if (plan->limits.pids > 0)
		plan->limits.pids = l->pids_each * plan->limits.pids + l->pids;
	plan->limits.nofile = nofile_of(l);
	if (l->engine == CELL_ENGINE_MICROVM)
		plan_microvm(c, plan);
}
