/* session_spec.c - from a client's specification to the row of a session (defaults, maxima), and
 * from the row to the request to the keeper. Every refusal names the setting and its bound. */
#include "daemon/session/session_spec.h"

#include "daemon/session/session_settings.h"
#include "daemon/session/volume_line.h"
#include "daemon/template/templates.h"

#include <stdio.h>
#include <string.h>

#include "daemon/guest/session_level.h"
#include "daemon/node/core_private.h"
#include "daemon/session/session.h"
#include "daemon/session/session_diff.h"
#include "daemon/session/session_volume.h"
#include "daemon/session/session_watch.h"
#include "daemon/template/template_stack.h"
#include "daemon/template/templates_private.h"
#include "daemon/tenant/quota.h"
#include "lib/base/clock.h"
#include "lib/base/err_missing.h"
#include "lib/base/rand.h"
#include "lib/base/str.h"

/* For a disk in memory: also the minima of the configuration's table. */
#define MEMORY_BYTES_MIN (64U << 10)
#define INODES_MIN 64
/* For an image: ext4 with a journal. */
#define IMAGE_BYTES_MIN (32U << 20)
#define IMAGE_INODES_MIN 1024
#define IMAGE_INODE_BYTES 16384 /* of the disk for each inode, by default, as mkfs.ext4 */
#define BPS_MIN (64U << 10)

/* setting: the one with the maximum. */
static int spec_between(const char *name, uint64_t value, uint64_t min, uint64_t max,
			const char *setting, struct err *e)
{
	if (value < min)
		return err_set(e, ERR_INVALID, "%s: %s is below the minimum of %s", name,
			       limit_text(name, value).s, limit_text(name, min).s);
	if (value > max)
		return err_set(e, ERR_INVALID, "%s: %s is above the maximum of %s (%s)", name,
			       limit_text(name, value).s, limit_text(name, max).s, setting);
	return 0;
}

/* A disk in memory counts against the node's memory, so its maximum is far below that of an image.
 * The message names the alternative. */
static int check_memory(const struct config *g, const struct cell_limits *a,
			struct cell_limits *ret, struct err *e)
{
	ret->disk_bytes = a->disk_bytes == 0 ? g->disk_default : a->disk_bytes;
	ret->inodes = a->inodes == 0 ? g->inodes_default : a->inodes;
	if (a->read_bps > 0 || a->write_bps > 0)
		return err_set(e, ERR_INVALID,
			       "disk_read_bps, disk_write_bps: only with storage disk");
	if (ret->disk_bytes > g->disk_max)
		return err_set(e, ERR_INVALID,
			       "disk: %s is above the maximum of %s for storage memory (disk_max); "
			       "storage disk (--storage disk) may have up to %s",
			       limit_text("disk", ret->disk_bytes).s,
			       limit_text("disk", g->disk_max).s,
			       limit_text("disk", g->storage_disk_max).s);
	if (spec_between("disk", ret->disk_bytes, MEMORY_BYTES_MIN, g->disk_max, "disk_max", e) < 0)
		return -1;
	return spec_between("inodes", ret->inodes, INODES_MIN, g->inodes_max, "inodes_max", e);
}

/* Check that this server and its machine can use images. */
static int check_machine(const struct core *c, struct err *e)
{
	if (c->cells.keeper.restrictions.rootless != 0)
		return err_set(e, ERR_UNSUPPORTED,
			       "storage disk: needs loop devices, which only root may use; this "
			       "server was started by an ordinary user");
	if (!c->o.has_storage)
		return err_set(e, ERR_UNSUPPORTED, "storage disk: this server has no storage_dir");
	/* Images may promise more than the disk has, but the free room must leave the reserve. */
	return layers_check_reserve(&c->layers, IMAGE_BYTES_MIN, e);
}

/* ERR_UNSUPPORTED: the machine cannot keep these rates. Checked before every cell, as the machine
 * may have been started otherwise since the session was created. 0: no limit. */
static int session_storage_check_rates(const struct core *c, uint64_t read_bps, uint64_t write_bps,
				       struct err *e)
{
	if ((read_bps == 0 && write_bps == 0) ||
	    (c->cells.keeper.restrictions.limits & CELL_LIMIT_DISK) != 0)
		return 0;
	return err_set(e, ERR_UNSUPPORTED,
		       "disk_read_bps, disk_write_bps: need cgroup v2 with the io controller, "
		       "which this machine does not have");
}

static int check_bps(const struct core *c, const struct cell_limits *a, struct cell_limits *ret,
		     struct err *e)
{
	if (session_storage_check_rates(c, a->read_bps, a->write_bps, e) < 0)
		return -1;
	ret->read_bps = a->read_bps;
	ret->write_bps = a->write_bps;
	if (a->read_bps > 0 &&
	    spec_between("disk_read_bps", a->read_bps, BPS_MIN, INT64_MAX, "63 bits", e) < 0)
		return -1;
	return a->write_bps == 0 ? 0
				 : spec_between("disk_write_bps", a->write_bps, BPS_MIN, INT64_MAX,
						"63 bits", e);
}

static int check_image(const struct core *c, const struct cell_limits *a, struct cell_limits *ret,
		       struct err *e)
{
	const struct config *g = c->o.config;
	uint64_t usual, most;

	if (check_machine(c, e) < 0)
		return -1;
	/* Whole blocks. */
	ret->disk_bytes =
		(a->disk_bytes == 0 ? g->storage_disk_default : a->disk_bytes) & ~(uint64_t)4095;
	if (spec_between("disk", ret->disk_bytes, IMAGE_BYTES_MIN, g->storage_disk_max,
			 "storage_disk_max", e) < 0)
		return -1;
	usual = ret->disk_bytes / IMAGE_INODE_BYTES;
	usual = usual < IMAGE_INODES_MIN ? IMAGE_INODES_MIN : usual;
	most = ret->disk_bytes / 4096;
	most = most > UINT32_MAX ? UINT32_MAX : most;
	ret->inodes = a->inodes > 0 ? a->inodes : usual > most ? most : usual;
	if (spec_between("inodes", ret->inodes, IMAGE_INODES_MIN, most,
			 "one for each 4096 bytes of the disk", e) < 0)
		return -1;
	return check_bps(c, a, ret, e);
}

/* A persistent session has a cell while it is used: idle_timeout ends the cell, not the session. So
 * does its timeout, and without one it gets the longest. */
static int check_keep(const struct config *g, const struct session_spec *spec,
		      struct store_session *row, struct err *e)
{
	if (!spec->persist) {
		if (spec->keep_ms > 0)
			return err_set(e, ERR_INVALID, "keep: only with persist");
		return 0;
	}
	row->keep_ms = spec->keep_ms == 0 ? g->persist_keep_default_ms : spec->keep_ms;
	if (row->keep_ms > g->persist_keep_max_ms)
		return err_set(e, ERR_INVALID, "keep: at most %llu s (persist_keep_max)",
			       (unsigned long long)g->persist_keep_max_ms / 1000);
	row->on_timeout = row->on_idle = SESSION_PAUSE_FILES;
	if (!spec->timeout_given)
		row->timeout_ms = g->session_timeout_max_ms;
	if (!spec->idle_given)
		row->idle_ms = g->persist_idle_ms;
	return 0;
}

/* Check the storage settings and fill in storage, read_only, keep_ms, limits.disk_bytes, .inodes,
 * .read_bps and .write_bps, and the times of a persistent session. */
static int session_storage_check(const struct core *c, const struct session_spec *spec,
				 struct store_session *row, struct err *e)
{
	if (spec->persist && spec->storage_given && spec->storage == SESSION_MEMORY)
		return err_set(e, ERR_INVALID,
			       "persist: needs storage disk: files in memory end with the cell");
	row->storage = spec->persist ? SESSION_DISK : spec->storage;
	row->read_only = spec->read_only;
	if (check_keep(c->o.config, spec, row, e) < 0)
		return -1;
	if (row->storage == SESSION_DISK)
		return check_image(c, &spec->limits, &row->limits, e);
	return check_memory(c->o.config, &spec->limits, &row->limits, e);
}

/* The CELL_* flags of its cell. */
static uint32_t session_storage_flags(const struct store_session *row)
{
	return (row->read_only ? (uint32_t)CELL_READ_ONLY : 0) |
	       (row->storage == SESSION_DISK ? (uint32_t)CELL_DISK_IMAGE : 0);
}

#define DEFAULT_UID 1000 /* "user" of every template */
/* Also the minima of the defaults in the configuration's table. */
#define MEMORY_MIN (4U << 20)
#define INTERPRETER_MEMORY (512U << 20)
#define CPU_MILLIS_MIN 10
#define PIDS_MIN 4
#define NOFILE_MIN 16
#define TEXTS_MAX (3U << 20) /* environment, metadata, mounts, rules and policy together */

/* Apply a default and bounds to one limit. asked 0: the client did not say. min: below it no cell
 * can be made. setting: the one with the maximum. */
static int spec_bound(const char *name, uint64_t asked, uint64_t fallback, uint64_t min,
		      uint64_t max, const char *setting, uint64_t *ret, struct err *e)
{
	*ret = asked == 0 ? fallback : asked;
	return asked == 0 ? 0 : spec_between(name, asked, min, max, setting, e);
}

/* A requested limit that the machine cannot enforce is refused. A default limit that it cannot
 * enforce is left out, and shown as 0. */
static int spec_enforceable(const struct core *c, const char *name, unsigned limit, uint64_t asked,
			    uint64_t *value, struct err *e)
{
	const struct cell_restrictions *w = &c->cells.keeper.restrictions;

	if ((w->limits & limit) != 0)
		return 0;
	if (asked > 0)
		return err_set(e, ERR_UNSUPPORTED, "%s cannot be limited on this machine: %.100s",
			       name, w->no_limits_why);
	*value = 0;
	return 0;
}

/* An interpreter kernel needs more memory than an operator may have set for commands. */
static uint64_t usual_memory(const struct core *c, const struct template_version *v)
{
	const struct config *g = c->o.config;

	if (!v->row.interpreter || g->memory_default >= INTERPRETER_MEMORY)
		return g->memory_default;
	return g->memory_max < INTERPRETER_MEMORY ? g->memory_max : INTERPRETER_MEMORY;
}

static int check_limits(const struct core *c, const struct template_version *v,
			const struct cell_limits *a, struct store_session *row, struct err *e)
{
	const struct config *g = c->o.config;
	struct cell_limits *ret = &row->limits;

	if (spec_bound("memory", a->memory_bytes, usual_memory(c, v), MEMORY_MIN, g->memory_max,
		       "memory_max", &ret->memory_bytes, e) < 0 ||
	    spec_bound("cpus", a->cpu_millis, g->cpus_default_milli, CPU_MILLIS_MIN,
		       g->cpus_max_milli, "cpus_max", &ret->cpu_millis, e) < 0 ||
	    spec_bound("pids", a->pids, g->pids_default, PIDS_MIN, g->pids_max, "pids_max",
		       &ret->pids, e) < 0 ||
	    spec_bound("nofile", a->nofile, g->nofile_default, NOFILE_MIN, g->nofile_max,
		       "nofile_max", &ret->nofile, e) < 0)
		return -1;
	row->output_limit = g->output_limit_default;
	if (session_level_limits(row, e) < 0)
		return -1;
	/* A guest's memory is enforced by its engine, not by the cgroup. */
	if (session_level_has_own_memory(row->level))
		return spec_enforceable(c, "cpus", CELL_LIMIT_CPU, a->cpu_millis, &ret->cpu_millis,
					e);
	if (spec_enforceable(c, "memory", CELL_LIMIT_MEMORY, a->memory_bytes, &ret->memory_bytes,
			     e) < 0 ||
	    spec_enforceable(c, "cpus", CELL_LIMIT_CPU, a->cpu_millis, &ret->cpu_millis, e) < 0)
		return -1;
	return spec_enforceable(c, "pids", CELL_LIMIT_PIDS, a->pids, &ret->pids, e);
}

/* Find the root above a source, and return the rest of the source's path. */
static const struct core_mount_root *find_root(const struct core *c, const char *source,
					       const char **ret_rest)
{
	for (unsigned i = 0; i < c->o.nroots; i++) {
		const char *path = c->o.roots[i].path;
		size_t n = strlen(path);

		while (n > 1 && path[n - 1] == '/')
			n--;
		if (strncmp(source, path, n) != 0 || (source[n] != '/' && source[n] != '\0'))
			continue;
		source += n;
		while (*source == '/')
			source++;
		*ret_rest = source;
		return &c->o.roots[i];
	}
	return NULL;
}

/* A tab or newline in a path would break the lines of the row. */
static int check_mount(const struct core *c, const char *source, const char *target, bool writable,
		       struct err *e)
{
	const char *rest = "";
	const struct core_mount_root *root = NULL;

	if (!volume_line_is(source) && (root = find_root(c, source, &rest)) == NULL)
		return err_set(e, ERR_DENIED, "mount source %.100s: not below an allowed root",
			       source);
	if (writable && root != NULL && !root->writable)
		return err_set(e, ERR_DENIED, "mount source %.100s: may only be mounted read-only",
			       source);
	if (strlen(rest) >= CELL_PATH_MAX || strpbrk(source, "\t\n") != NULL)
		return err_set(e, ERR_INVALID, "mount source %.100s: too long, or a tab in it",
			       source);
	if (strpbrk(target, "\t\n") != NULL || !cell_is_place(target, CELL_PATH_MAX))
		return err_set(e, ERR_INVALID, "mount target %.100s: not an absolute path", target);
	return 0;
}

/* Copy a text behind the others and return its place. */
static char *spec_put(char **at, const char *text, size_t len)
{
	char *here = *at;

	memcpy(here, text, len);
	here[len] = '\0';
	*at += len + 1;
	return here;
}

/* All texts of a row are in one allocation, because they live and end together. `need` is computed
 * before anything is copied. */
static int copy_texts(const struct core *c, const struct template_version *v,
		      const struct session_spec *spec, struct store_session *row, char **ret_texts,
		      struct err *e)
{
	const char *metadata = spec->metadata == NULL ? "" : spec->metadata;
	const char *writable = spec->writable == NULL ? "" : spec->writable;
	const char *exportable = spec->exportable == NULL ? "" : spec->exportable;
	const char *network = spec->network == NULL ? "" : spec->network;
	const char *client = spec->client == NULL ? "" : spec->client;
	const char *policy = spec->policy == NULL ? "" : spec->policy;
	const char *secrets = spec->secrets == NULL ? "" : spec->secrets;
	const char *alarms = spec->alarms == NULL ? "" : spec->alarms;
	const char *redact = spec->redact == NULL ? "" : spec->redact;
	const char *watch = spec->watch_reads == NULL ? "" : spec->watch_reads;
	size_t need = spec->env_len + strlen(alarms) + strlen(redact) + strlen(watch) +
		      strlen(metadata) + strlen(writable) + strlen(exportable) + strlen(network) +
		      strlen(client) + strlen(policy) + strlen(secrets) + strlen(v->row.mounts) +
		      64;
	char line[2 * 4096 + 16], *at, *begin;

	for (unsigned i = 0; i < spec->nmounts; i++)
		need += strlen(spec->mounts[i].source) + strlen(spec->mounts[i].target) + 8;
	if (need > TEXTS_MAX)
		return err_set(e, ERR_LIMIT,
			       "environment, metadata, network and mounts are over %u bytes",
			       TEXTS_MAX);
	begin = at = malloc(need);
	if (at == NULL)
		return err_sys(e, "allocate");
	*ret_texts = at;
	row->env = spec_put(&at, spec->env == NULL ? "" : spec->env, spec->env_len);
	row->env_len = spec->env_len;
	row->metadata = spec_put(&at, metadata, strlen(metadata));
	row->network = spec_put(&at, network, strlen(network));
	row->client = spec_put(&at, client, strlen(client));
	row->policy = spec_put(&at, policy, strlen(policy));
	row->secrets = spec_put(&at, secrets, strlen(secrets));
	row->alarms = spec_put(&at, alarms, strlen(alarms));
	row->redact = spec_put(&at, redact, strlen(redact));
	row->watch_reads = spec_put(&at, watch, strlen(watch));
	row->detail = row->diff_why = row->refused = spec_put(&at, "", 0);
	str_copy(row->traceparent, spec->traceparent == NULL ? "" : spec->traceparent);
	row->keep_diff = spec->keep_diff ? KEPT_DIFF_WANTED : KEPT_DIFF_NO;
	row->rules = at;
	at += snprintf(at, need - (size_t)(at - begin), "%s\n%s", writable, exportable) + 1;
	row->mounts = at;
	at += snprintf(at, need - (size_t)(at - begin), "%s", v->row.mounts);
	for (unsigned i = 0; i < spec->nmounts; i++) {
		const char *source = spec->mounts[i].source, *target = spec->mounts[i].target;

		if (strlen(source) > 4095 || strlen(target) > 4095)
			return err_set(e, ERR_INVALID, "mount %u: path too long", i);
		if (check_mount(c, source, target, spec->mounts[i].writable, e) < 0)
			return -1;
		int n = snprintf(line, sizeof(line), "%s\t%s\t%s\n", source, target,
				 spec->mounts[i].writable ? "rw" : "ro");
		memcpy(at, line, (size_t)n + 1);
		at += n;
	}
	return 0;
}

int session_spec_check_pause(const struct core *c, const struct store_session *row, struct err *e)
{
	if ((row->on_timeout != SESSION_KILL ||
	     (row->idle_ms > 0 && row->on_idle != SESSION_KILL)) &&
	    c->cells.keeper.restrictions.freezer == 0)
		return err_set(e, ERR_UNSUPPORTED,
			       "pause needs cgroup v2, which this machine does not have");
	return 0;
}

/* A pause needs the freezer, so a session that will pause is refused at its create, not at its
 * timeout. */
static int check_times(const struct core *c, const struct session_spec *spec,
		       struct store_session *row, struct err *e)
{
	const struct config *g = c->o.config;
	uint64_t max = g->session_timeout_max_ms;

	row->timeout_ms = spec->timeout_given ? spec->timeout_ms : g->session_timeout_default_ms;
	row->idle_ms = spec->idle_given ? spec->idle_ms : g->idle_timeout_default_ms;
	if (max > 0 && (row->timeout_ms > max || row->timeout_ms == 0))
		return err_set(e, ERR_INVALID, "timeout: at most %llu s (session_timeout_max)",
			       (unsigned long long)max / 1000);
	row->on_timeout = spec->on_timeout;
	row->on_idle = spec->on_idle;
	return session_spec_check_pause(c, row, e);
}

static uint64_t spec_lesser(uint64_t value, uint64_t max)
{
	return max > 0 && value > max ? max : value;
}

/* The client's limits. Missing ones come from the template, as far as the maxima allow. */
static struct cell_limits asked_limits(const struct core *c, const struct template_version *v,
				       const struct session_spec *spec)
{
	struct cell_limits a = spec->limits;

	if (a.memory_bytes == 0)
		a.memory_bytes = spec_lesser(v->row.memory_bytes, c->o.config->memory_max);
	if (a.cpu_millis == 0)
		a.cpu_millis = spec_lesser(v->row.cpu_millis, c->o.config->cpus_max_milli);
	return a;
}

int session_spec_check(const struct core *c, const struct template_version *v,
		       const struct session_spec *spec, struct store_session *row, char **ret_texts,
		       struct err *e)
{
	struct cell_limits asked = asked_limits(c, v, spec);

	memset(row, 0, sizeof(*row));
	*ret_texts = NULL;
	if (session_level_choose(c, v, spec, row, e) < 0)
		return -1;
	memcpy(row->template, v->row.name, sizeof(row->template));
	memcpy(row->template_id, v->row.id, sizeof(row->template_id));
	row->profile = spec->profile < 0 ? CELL_STANDARD : (uint32_t)spec->profile;
	row->trace = spec->trace;
	row->watch_reads = spec->watch_reads;
	if (session_watch_allowed(row, e) < 0)
		return -1;
	if (check_limits(c, v, &asked, row, e) < 0 || check_times(c, spec, row, e) < 0 ||
	    session_storage_check(c, spec, row, e) < 0)
		return -1;
	session_level_inherit(v, row);
	session_ports_init(row, spec->ports, spec->nports);
	if (copy_texts(c, v, spec, row, ret_texts, e) < 0) {
		free(*ret_texts);
		*ret_texts = NULL;
		return -1;
	}
	return 0;
}

/* One line of a row's mounts, cut into its parts. */
struct mount_line {
	char text[2 * 4096 + 16];
	const char *source, *target;
	bool writable;
};

static int cut_mount(const char *line, size_t len, struct mount_line *ret, struct err *e)
{
	char *target, *mode;

	if (len >= sizeof(ret->text))
		return err_set(e, ERR_LIMIT, "mounts: a line is too long");
	memcpy(ret->text, line, len);
	ret->text[len] = '\0';
	target = strchr(ret->text, '\t');
	mode = target == NULL ? NULL : strchr(target + 1, '\t');
	if (mode == NULL)
		return err_set(e, ERR_INVALID, "mounts: malformed record");
	*target++ = '\0';
	*mode++ = '\0';
	ret->source = ret->text;
	ret->target = target;
	ret->writable = strcmp(mode, "rw") == 0;
	return 0;
}

/* The roots may have changed since the session was created, so its mounts are checked again. */
static int plan_source(const struct core *c, const char *source, struct cell_source *ret,
		       struct err *e)
{
	const char *rest;
	const struct core_mount_root *root = find_root(c, source, &rest);

	if (root == NULL)
		return err_set(e, ERR_DENIED, "mount source %.100s: not below an allowed root",
			       source);
	str_copy(ret->path, rest);
	ret->root = root->root;
	return 0;
}

static int plan_mount(const struct core *c, const struct mount_line *m, struct keeper_create *r,
		      struct err *e)
{
	if (r->nmounts >= CELL_MOUNTS_MAX)
		return err_set(e, ERR_LIMIT, "mounts: at most %d", CELL_MOUNTS_MAX);
	if ((volume_line_is(m->source) ? volume_mount_plan : plan_source)(
		    c, m->source, &r->mounts[r->nmounts].from, e) < 0)
		return -1;
	str_copy(r->mounts[r->nmounts].at, m->target);
	r->mounts[r->nmounts].flags = m->writable ? CELL_MOUNT_WRITABLE : 0;
	r->nmounts++;
	return 0;
}

/* Visit each mount of a row. r NULL: only check it. */
static int each_mount(const struct core *c, const char *lines, struct keeper_create *r,
		      struct err *e)
{
	unsigned n = 0;

	for (const char *line = lines; line != NULL && *line != '\0'; n++) {
		const char *end = strchr(line, '\n');
		size_t len = end == NULL ? strlen(line) : (size_t)(end - line);
		struct mount_line m;

		if (cut_mount(line, len, &m, e) < 0)
			return -1;
		if (r == NULL ? check_mount(c, m.source, m.target, m.writable, e) < 0
			      : plan_mount(c, &m, r, e) < 0)
			return -1;
		line = end == NULL ? NULL : end + 1;
	}
	if (n > CELL_MOUNTS_MAX)
		return err_set(e, ERR_LIMIT, "mounts: at most %d", CELL_MOUNTS_MAX);
	return 0;
}

int session_spec_check_mounts(const struct core *c, const char *lines, struct err *e)
{
	return each_mount(c, lines, NULL, e);
}

int session_spec_stack(const struct template_version *v, const struct store_session *row,
		       const struct template_stack *own, struct template_stack *ret,
		       size_t *ret_own, struct err *e)
{
	if (v == NULL)
		return err_missing(e, "template", row->template);
	if (template_stack_read(template_row(v), ret, e) < 0)
		return -1;
	if (ret_own != NULL)
		*ret_own = ret->nlayers;
	return own == NULL ? 0 : template_stack_push(ret, own->layers, own->nlayers, e);
}

void session_each_layer(const struct session *s, void (*fn)(const char *layer, void *arg),
			void *arg)
{
	struct template_stack stack;
	struct err e;

	if (s->template == NULL ||
	    session_spec_stack(s->template, &s->row, s->own, &stack, NULL, &e) < 0)
		return; /* there can be no cell of it either */
	for (size_t i = 0; i < stack.nlayers; i++)
		fn(stack.layers[i], arg);
}

/* The keeper trusts no path in this request: sources are relative to roots that its starter passed
 * in. */
int session_spec_plan(const struct core *c, const struct template_version *v,
		      const struct store_session *row, const struct template_stack *own,
		      struct keeper_create *ret, struct err *e)
{
	struct template_stack stack;

	if (session_spec_stack(v, row, own, &stack, NULL, e) < 0 ||
	    session_storage_check_rates(c, row->limits.read_bps, row->limits.write_bps, e) < 0)
		return -1;
	memset(ret, 0, sizeof(*ret));
	ret->op = KEEPER_CREATE;
	ret->profile = row->profile;
	ret->flags = CELL_LINGER | session_storage_flags(row) | session_watch_flags(row);
	ret->uid = ret->gid = DEFAULT_UID;
	ret->limits = row->limits;
	str_copy(ret->id, row->id);
	str_copy(ret->hostname, row->id);
	rand_machine_id(ret->machine_id);
	if (template_stack_plan(c, &stack, ret, e) < 0 || each_mount(c, row->mounts, ret, e) < 0)
		return -1;
	session_level_plan(c, row, ret);
	return 0;
}
