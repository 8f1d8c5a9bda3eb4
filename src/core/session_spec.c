/* session_spec.c - from the specification that a client sends to the row of a session (defaults,
 * maxima), and from the row to the request to the keeper. Every refusal names the setting and its
 * bound. */
#include "session_spec.h"

#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "core_private.h"
#include "kept_diff.h"
#include "limit_text.h"
#include "rand.h"
#include "session_ports.h"
#include "session_storage.h"
#include "session_level.h"
#include "template_stack.h"
#include "templates_private.h"
#include "volume_mount.h"

#define DEFAULT_UID 1000 /* "user" of every template */
/* Also the minima of the defaults in the configuration's table. */
#define MEMORY_MIN (4U << 20)
#define INTERPRETER_MEMORY (512U << 20)
#define CPU_MILLIS_MIN 10
#define PIDS_MIN 4
#define NOFILE_MIN 16
#define TEXTS_MAX (3U << 20) /* environment, metadata, mounts, rules and policy together */

/* asked 0: the client did not say. min: below it no cell can be made. */
static int bound(const char *name, uint64_t asked, uint64_t fallback, uint64_t min, uint64_t max,
		 uint64_t *ret, struct err *e)
{
	if (asked > 0 && asked < min)
		return err_set(e, ERR_INVALID, "%s: %s is below the minimum of %s", name,
			       limit_text(name, asked).s, limit_text(name, min).s);
	if (asked > max)
		return err_set(e, ERR_INVALID, "%s: %s is above the maximum of %s", name,
			       limit_text(name, asked).s, limit_text(name, max).s);
	*ret = asked == 0 ? fallback : asked;
	return 0;
}

/* A limit that a client asks for and that cannot be enforced is refused; a default limit that
 * cannot be enforced is left out, and is shown as 0. */
static int enforceable(const struct core *c, const char *name, unsigned limit, uint64_t asked,
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

/* A kernel of the code interpreter needs more than an operator may have set for commands. */
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
	struct store_limits *ret = &row->limits;

	if (bound("memory", a->memory_bytes, usual_memory(c, v), MEMORY_MIN, g->memory_max,
		  &ret->memory_bytes, e) < 0 ||
	    bound("cpus", a->cpu_millis, g->cpus_default_milli, CPU_MILLIS_MIN, g->cpus_max_milli,
		  &ret->cpu_millis, e) < 0 ||
	    bound("pids", a->pids, g->pids_default, PIDS_MIN, g->pids_max, &ret->pids, e) < 0 ||
	    bound("nofile", a->nofile, g->nofile_default, NOFILE_MIN, g->nofile_max, &ret->nofile,
		  e) < 0)
		return -1;
	ret->output_bytes = g->output_limit_default;
	if (session_level_limits(row, e) < 0)
		return -1;
	if (session_level_has_own_memory(row->level))
		return enforceable(c, "cpus", CELL_LIMIT_CPU, a->cpu_millis, &ret->cpu_millis, e);
	if (enforceable(c, "memory", CELL_LIMIT_MEMORY, a->memory_bytes, &ret->memory_bytes, e) <
		    0 ||
	    enforceable(c, "cpus", CELL_LIMIT_CPU, a->cpu_millis, &ret->cpu_millis, e) < 0)
		return -1;
	return enforceable(c, "pids", CELL_LIMIT_PIDS, a->pids, &ret->pids, e);
}

/* The root that a source lies below, and what is left of its path. */
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

/* Copies a text behind the others; returns where it is. */
static char *put(char **at, const char *text, size_t len)
{
	char *here = *at;

	memcpy(here, text, len);
	here[len] = '\0';
	*at += len + 1;
	return here;
}

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
	size_t need = spec->env_len + strlen(metadata) + strlen(writable) + strlen(exportable) +
		      strlen(network) + strlen(client) + strlen(policy) + strlen(secrets) +
		      strlen(v->row.mounts) + 64;
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
	row->env = put(&at, spec->env == NULL ? "" : spec->env, spec->env_len);
	row->env_len = spec->env_len;
	row->metadata = put(&at, metadata, strlen(metadata));
	row->network = put(&at, network, strlen(network));
	row->client = put(&at, client, strlen(client));
	row->policy = put(&at, policy, strlen(policy));
	row->secrets = put(&at, secrets, strlen(secrets));
	row->detail = row->diff_why = put(&at, "", 0);
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

static int check_times(const struct core *c, const struct session_spec *spec,
		       struct store_session *row, struct err *e)
{
	const struct config *g = c->o.config;
	uint64_t max = g->session_timeout_max_ms;

	row->timeout_ms = spec->timeout_given ? spec->timeout_ms : g->session_timeout_default_ms;
	row->idle_ms = spec->idle_given ? spec->idle_ms : g->idle_timeout_default_ms;
	if (max > 0 && (row->timeout_ms > max || row->timeout_ms == 0))
		return err_set(e, ERR_INVALID, "timeout: at most %llu s",
			       (unsigned long long)max / 1000);
	row->on_timeout = spec->on_timeout;
	row->on_idle = spec->on_idle;
	if ((row->on_timeout != SESSION_KILL ||
	     (row->idle_ms > 0 && row->on_idle != SESSION_KILL)) &&
	    c->cells.keeper.restrictions.freezer == 0)
		return err_set(e, ERR_UNSUPPORTED,
			       "pause needs cgroup v2, which this machine does not have");
	return 0;
}

static uint64_t lesser(uint64_t value, uint64_t max)
{
	return max > 0 && value > max ? max : value;
}

/* What the client does not ask for is as the template has it, as far as that is allowed. */
static struct cell_limits asked_limits(const struct core *c, const struct template_version *v,
				       const struct session_spec *spec)
{
	struct cell_limits a = spec->limits;

	if (a.memory_bytes == 0)
		a.memory_bytes = lesser(v->row.memory_bytes, c->o.config->memory_max);
	if (a.cpu_millis == 0)
		a.cpu_millis = lesser(v->row.cpu_millis, c->o.config->cpus_max_milli);
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

static int plan_source(const struct core *c, const char *source, struct cell_source *ret,
		       struct err *e)
{
	const char *rest;
	const struct core_mount_root *root = find_root(c, source, &rest);

	if (root == NULL)
		return err_set(e, ERR_DENIED, "mount source %.100s: not below an allowed root",
			       source);
	(void)snprintf(ret->path, CELL_PATH_MAX, "%s", rest);
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
	(void)snprintf(r->mounts[r->nmounts].at, CELL_PATH_MAX, "%s", m->target);
	r->mounts[r->nmounts].flags = m->writable ? CELL_MOUNT_WRITABLE : 0;
	r->nmounts++;
	return 0;
}

/* r NULL: only checked. */
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
		return err_set(e, ERR_NOT_FOUND, "template %.60s: not found", row->template);
	if (template_stack_read(template_row(v), ret, e) < 0)
		return -1;
	if (ret_own != NULL)
		*ret_own = ret->nlayers;
	return own == NULL ? 0 : template_stack_push(ret, own->layers, own->nlayers, e);
}

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
	ret->flags = CELL_LINGER | session_storage_flags(row);
	ret->uid = ret->gid = DEFAULT_UID;
	ret->limits = (struct cell_limits){ .memory_bytes = row->limits.memory_bytes,
					    .cpu_millis = row->limits.cpu_millis,
					    .pids = row->limits.pids,
					    .disk_bytes = row->limits.disk_bytes,
					    .inodes = row->limits.inodes,
					    .nofile = row->limits.nofile,
					    .read_bps = row->limits.read_bps,
					    .write_bps = row->limits.write_bps };
	(void)snprintf(ret->id, sizeof(ret->id), "%s", row->id);
	(void)snprintf(ret->hostname, sizeof(ret->hostname), "%s", row->id);
	rand_machine_id(ret->machine_id);
	if (template_stack_plan(c, &stack, ret, e) < 0 || each_mount(c, row->mounts, ret, e) < 0)
		return -1;
	session_level_plan(c, row, ret);
	return 0;
}
