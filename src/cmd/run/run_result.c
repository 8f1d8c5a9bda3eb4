#include "cmd/run/run_result.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/io.h"
#include "lib/json/json.h"
#include "lib/wire/cell_level.h"

/* The order of the rows is the order of the answer: `limit` has the first one, which is the most
 * likely cause of the end. Both sources count, because a guest reports its limits in EXITED and
 * the kernel reports those of the cell. */
size_t run_result_limits(const struct run_result *o, const char *ret[RUN_RESULT_LIMITS])
{
	const struct {
		bool hit;
		const char *name;
	} limits[RUN_RESULT_LIMITS] = {
		{ o->timed_out, "timeout" },
		{ o->usage.oom_kills > 0 || (o->event.flags & AGENT_HIT_MEMORY) != 0, "memory" },
		{ o->output_truncated, "output" },
		{ o->usage.pids_refused > 0 || (o->event.flags & AGENT_HIT_PIDS) != 0, "pids" },
		{ o->disk.bytes_full || o->event.disk_full > 0, "disk" },
		{ o->disk.inodes_full || o->event.inodes_full > 0, "inodes" },
		{ o->ended && o->event.signal == SIGXCPU, "cpu" },
	};

	size_t n = 0;

	for (size_t i = 0; i < COUNT(limits); i++)
		if (limits[i].hit)
			ret[n++] = limits[i].name;
	return n;
}

/* A command may hide a limit by ending with 0, so the line says this, too. */
void run_result_say_limits(const struct run_result *o, FILE *to)
{
	const char *names[RUN_RESULT_LIMITS];
	size_t n = run_result_limits(o, names);

	if (n == 0)
		return;
	(void)fprintf(to, "cordon: limit reached: %s", names[0]);
	for (size_t i = 1; i < n; i++)
		(void)fprintf(to, ", %s", names[i]);
	(void)fputs(run_result_exit_code(o) == 0 ? ", although the command ended with 0\n" : "\n",
		    to);
}

/* The order decides between causes: wrong use, timeout, a start that failed, memory, then any
 * failure of Cordon. Only without these does the command's own code count. */
int run_result_exit_code(const struct run_result *o)
{
	if (o->wrong_use)
		return EXIT_USAGE;
	if (o->timed_out)
		return EXIT_TIMEOUT;
	if (o->start_failed != 0)
		return o->start_failed;
	/* The kernel killed PID 1 itself for memory. */
	if (!o->ended && o->usage.oom_kills > 0)
		return EXIT_MEMORY;
	if (!o->ended || o->err.code != ERR_NONE)
		return EXIT_CORDON;
	return o->event.signal != 0 ? EXIT_SIGNAL + (int)o->event.signal : (int)o->event.exit_code;
}

/* "failed" means that the end of the command was not seen. */
static const char *run_result_state(const struct run_result *o)
{
	if (!o->ended && !o->timed_out)
		return "failed";
	return o->timed_out || o->event.signal != 0 ? "killed" : "exited";
}

static void write_error(struct json *j, const struct run_result *o)
{
	if (o->err.code == ERR_NONE) {
		json_none(j, "error");
		return;
	}
	json_open(j, "error", '{');
	json_text(j, "code", err_code_name(o->err.code));
	json_text(j, "message", o->err.msg);
	json_text(j, "fault", o->user_fault ? "user" : "platform");
	json_close(j, '}');
}

/* A command line with an unknown level made nothing. */
static const struct cell_level *level_of(const struct run_result *o)
{
	return o->level == NULL ? cell_level_find(NULL) : o->level;
}

/* The cell's filter. doc/shim-protocol.md has the restrictions of programs in a guest. */
static const char *filter_of(const struct run_result *o)
{
	switch (level_of(o)->engine) {
	case CELL_ENGINE_GVISOR:
		return "engine";
	case CELL_ENGINE_MICROVM:
		return cell_profile_name(CELL_LOCKED);
	case CELL_ENGINE_NONE:
	case CELL_ENGINES:
		break;
	}
	return cell_profile_name(o->profile);
}

/* Restrictions that were in force, as the keeper reported them. Without a cell the object is
 * empty. */
static void write_restrictions(struct json *j, const struct run_result *o)
{
	const struct cell_restrictions *w = &o->restrictions;
	char text[64];

	json_open(j, "restrictions", '{');
	if (o->cell_made) {
		json_text(j, "namespaces", "user mount pid net ipc uts cgroup time");
		json_uint(j, "ids", w->ids);
		json_bool(j, "rootless", w->rootless != 0);
		json_bool(j, "idmapped_layers", w->idmapped != 0);
		json_text(j, "seccomp", filter_of(o));
		json_bool(j, "no_new_privs", o->profile == CELL_LOCKED);
		json_text(j, "capabilities", o->profile == CELL_LOCKED ? "none" : "cut");
		json_uint(j, "landlock",
			  level_of(o)->engine == CELL_ENGINE_GVISOR ? 0 : w->landlock_abi);
		json_text(j, "network", o->network.wanted ? "by policy" : "loopback only");
		json_bool(j, "egress_redirect", w->redirect != 0);
		json_text(j, "disk", "tmpfs with bytes and inodes limited");
		if (w->cgroup_version == 0)
			json_none(j, "cgroup");
		else
			json_uint(j, "cgroup", w->cgroup_version);
		json_bool(j, "memory_limit", (w->limits & CELL_LIMIT_MEMORY) != 0);
		json_bool(j, "cpu_limit", (w->limits & CELL_LIMIT_CPU) != 0);
		json_bool(j, "pids_limit", (w->limits & CELL_LIMIT_PIDS) != 0);
		(void)snprintf(text, sizeof(text), "%.63s", w->no_limits_why);
		json_text(j, "missing", text[0] == '\0' ? NULL : text);
	}
	json_close(j, '}');
}

/* null: the command had no network access. */
static void write_network(struct json *j, const struct run_result_network *n)
{
	if (!n->wanted) {
		json_none(j, "network");
		return;
	}
	json_open(j, "network", '{');
	json_uint(j, "connections", n->connections);
	json_uint(j, "requests", n->requests);
	json_uint(j, "refused", n->refused);
	json_uint(j, "bytes", n->bytes);
	json_close(j, '}');
}

static void write_limits(struct json *j, const struct run_result *o)
{
	const char *names[RUN_RESULT_LIMITS];
	size_t n = run_result_limits(o, names);

	json_text(j, "limit", n == 0 ? NULL : names[0]);
	json_open(j, "limits_hit", '[');
	for (size_t i = 0; i < n; i++)
		json_text(j, NULL, names[i]);
	json_close(j, ']');
}

/* The whole object is built in a fixed buffer: every text in it is bounded. Use by cgroups
 * counts where it exists, else the numbers of PID 1. */
int run_result_write(const struct run_result *o, int fd, struct err *e)
{
	char text[8192];
	struct json j;
	uint64_t cpu_us = o->usage.cpu_us > 0 ? o->usage.cpu_us : o->event.cpu_us;
	uint64_t peak =
		o->usage.memory_peak_bytes > 0 ? o->usage.memory_peak_bytes : o->event.maxrss_bytes;

	json_init(&j, text, sizeof(text) - 1);
	json_open(&j, NULL, '{');
	json_text(&j, "id", o->id);
	json_text(&j, "state", run_result_state(o));
	json_uint(&j, "exit_code", (uint64_t)run_result_exit_code(o));
	if (o->ended && o->event.signal != 0)
		json_uint(&j, "signal", o->event.signal);
	else
		json_none(&j, "signal");
	write_limits(&j, o);
	write_error(&j, o);
	json_text(&j, "started_at", o->started_at);
	json_uint(&j, "wall_ms", o->wall_ms);
	json_uint(&j, "cpu_ms", cpu_us / 1000);
	json_uint(&j, "memory_peak_bytes", peak);
	if (o->usage.pids_peak > 0)
		json_uint(&j, "pids_peak", o->usage.pids_peak);
	else
		json_none(&j, "pids_peak");
	json_uint(&j, "disk_bytes", o->disk.bytes);
	json_uint(&j, "output_bytes", o->output_bytes);
	json_bool(&j, "output_truncated", o->output_truncated);
	json_text(&j, "level", level_of(o)->name);
	json_text(&j, "profile", cell_profile_name(o->profile));
	write_restrictions(&j, o);
	write_network(&j, &o->network);
	json_close(&j, '}');
	if (!json_ok(&j))
		return err_set(e, ERR_LIMIT, "result is larger than %zu bytes", sizeof(text));
	text[j.len] = '\n';
	return io_write_all(fd, text, j.len + 1, e);
}
