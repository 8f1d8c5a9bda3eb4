/* refused_calls.c - see refused_calls.h. */
#include "daemon/alarms/refused_calls.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/alarms/alarm.h"
#include "daemon/alarms/watched_files.h"
#include "daemon/cells/cell_socket.h"
#include "daemon/cells/live_cell.h"
#include "daemon/session/session_watch.h"
#include "lib/base/clock.h"
#include "seccomp_program.h"

/* A row whose counts are known begins with this line, so that "" can mean that they are not. */
#define COUNTED "counted\n"
#define OTHERS "other"
#define WINDOW_MS 10000
#define NAMED 3 /* calls in an event */
#define GONE_LOOKS                                                                               \
	3 /* seconds without a watcher before it counts as dead: a cell that ends loses it first \
	   */

/* Programs need these to change mounts, kernel, keys or processes of the machine. A cell refuses
 * all of them, always has, and no program that it is made for calls them. */
static const char *const of_escapes[] = {
	"init_module",
	"finit_module",
	"delete_module",
	"kexec_load",
	"kexec_file_load",
	"bpf",
	"open_by_handle_at",
	"setns",
	"pivot_root",
	"mount",
	"umount2",
	"move_mount",
	"open_tree",
	"fsopen",
	"fsconfig",
	"fsmount",
	"fspick",
	"mount_setattr",
	"userfaultfd",
	"keyctl",
	"add_key",
	"request_key",
	"pidfd_getfd",
	"iopl",
	"ioperm",
	"swapon",
	"swapoff",
	"reboot",
	"acct",
	"open_tree_attr",
};

struct refused_session {
	uint64_t total;	     /* of the file, when it was last read */
	bool counted;	     /* there was a watcher */
	bool lost;	     /* the watcher has died, and the cell has not */
	unsigned gone_looks; /* in a row */
	uint64_t window_ns, in_window;
	struct watch_file *last; /* owned. NULL: no call was refused */
	/* owned: lines of the row. Those of earlier cells, and at the end all. */
	char kept[REFUSED_CALLS_TEXT_MAX];
};

static bool is_of_escape[WATCH_CALLS];
static const char *names[WATCH_CALLS]; /* by number. NULL: the kernel has no such call */

static struct refused_session *state_of(struct session *s)
{
	void **at = session_parts_of(s, &refused_calls_part);
	const char *before = session_row(s)->refused;
	struct refused_session *r = *at;

	if (r != NULL)
		return r;
	*at = r = calloc(1, sizeof(*r));
	assert(r != NULL);
	if (before != NULL && strlen(before) < sizeof(r->kept))
		memcpy(r->kept, before, strlen(before) + 1);
	r->counted = r->kept[0] != '\0';
	return r;
}

/* ---- names */

const char *refused_calls_name(unsigned nr)
{
	return nr < WATCH_CALLS && names[nr] != NULL ? names[nr] : OTHERS;
}

/* The number in the line of that name, 0 if there is none. */
static uint64_t kept_number(const char *lines, const char *name)
{
	size_t n = strlen(name);

	for (; *lines != '\0'; lines += strcspn(lines, "\n"), lines += *lines == '\n')
		if (strncmp(lines, name, n) == 0 && lines[n] == '\t')
			return strtoull(lines + n + 1, NULL, 10);
	return 0;
}

/* The sums of the present cell and of those before it. A line that does not fit is left out: there
 * are about a hundred refused calls. */
static void write_lines(const struct refused_session *r, char ret[REFUSED_CALLS_TEXT_MAX])
{
	size_t at = (size_t)snprintf(ret, REFUSED_CALLS_TEXT_MAX, COUNTED);
	bool any_kept = strlen(r->kept) > strlen(COUNTED);

	if (r->last == NULL) { /* as in most sessions */
		if (any_kept)
			memcpy(ret, r->kept, strlen(r->kept) + 1);
		return;
	}
	for (unsigned nr = 0; nr < WATCH_CALLS; nr++) {
		const char *name = refused_calls_name(nr);
		bool last = nr == WATCH_CALLS - 1;
		uint64_t sum = r->last->refused[nr];
		char line[80];
		int n;

		if (!last && names[nr] == NULL)
			continue;
		sum += any_kept ? kept_number(r->kept, name) : 0;
		n = snprintf(line, sizeof(line), "%s\t%llu\n", name, (unsigned long long)sum);
		if (sum == 0 || n < 0 || at + (size_t)n >= REFUSED_CALLS_TEXT_MAX)
			continue;
		memcpy(ret + at, line, (size_t)n + 1);
		at += (size_t)n;
	}
}

/* ---- alarms */

/* "calls TAB name number, ...": the first grown lines in the order of numbers. */
static void tell_grown(const struct watch_file *before, const struct watch_file *now, bool escapes,
		       char *ret, size_t cap)
{
	size_t at = (size_t)snprintf(ret, cap, "calls\t");
	unsigned told = 0;

	for (unsigned nr = 0; nr < WATCH_CALLS && told < NAMED && at < cap - 64; nr++) {
		uint64_t was = before == NULL ? 0 : before->refused[nr];

		if (now->refused[nr] <= was || (escapes && !is_of_escape[nr]))
			continue;
		at += (size_t)snprintf(ret + at, cap - at, "%s%s %llu", told++ == 0 ? "" : ", ",
				       refused_calls_name(nr),
				       (unsigned long long)(now->refused[nr] - was));
	}
	(void)snprintf(ret + at, cap - at, "\n");
}

static void look_for_alarms(struct session *s, struct refused_session *r,
			    const struct watch_file *now)
{
	uint64_t escapes = 0, ns = clock_now_ns();
	char facts[320];

	for (unsigned nr = 0; nr < WATCH_CALLS; nr++)
		if (is_of_escape[nr] &&
		    (r->last == NULL || now->refused[nr] > r->last->refused[nr]))
			escapes += now->refused[nr] - (r->last == NULL ? 0 : r->last->refused[nr]);
	if (escapes > 0) {
		tell_grown(r->last, now, true, facts, sizeof(facts));
		alarm_raise(s, ALARM_ESCAPE_ATTEMPT, escapes, facts);
	}
	if (ns - r->window_ns > WINDOW_MS * CLOCK_MS) {
		r->window_ns = ns;
		r->in_window = 0;
	}
	r->in_window += now->total > r->total ? now->total - r->total : 0;
	tell_grown(r->last, now, false, facts, sizeof(facts));
	alarm_raise(s, ALARM_REFUSED_CALLS, r->in_window, facts);
}

/* ---- looking */

/* Read the file, if it says something new. */
static void read_file(struct session *s, struct refused_session *r, bool alarms)
{
	const struct live_cell *cell = session_cell(s);
	struct watch_file now;

	if (cell == NULL || !cell_watch_read(cell->cells->dir_fd, cell->id, &now))
		return;
	r->counted = true;
	if (now.total <= r->total)
		return;
	if (alarms)
		look_for_alarms(s, r, &now);
	r->total = now.total;
	if (r->last == NULL)
		r->last = malloc(sizeof(*r->last));
	assert(r->last != NULL);
	*r->last = now;
}

static void on_session_second(struct session *s)
{
	const struct live_cell *cell = session_cell(s);
	struct refused_session *r;
	enum cell_watch_state state;
	uint64_t total;

	if (cell == NULL || cell->state != LIVE_UP || session_row(s)->state >= SESSION_ENDING)
		return;
	state = cell_watch_look(cell->cells->dir_fd, cell->id, &total);
	if (state == CELL_WATCH_NONE)
		return;
	watched_files_look(s, false);
	r = state_of(s);
	r->counted = true;
	if (total != r->total)
		read_file(s, r, true);
	r->gone_looks = state == CELL_WATCH_DEAD && !cell->dead ? r->gone_looks + 1 : 0;
	if (r->gone_looks < GONE_LOOKS || r->lost)
		return;
	r->lost = true;
	/* No program can start, or open a file, in a traced cell without it. */
	if (session_watch_flags(session_row(s)) != 0)
		alarm_end(s, ALARM_CELL_FAULT, "what\tthe watcher of its programs has ended\n");
	else
		alarm_raise(s, ALARM_CELL_FAULT, 1,
			    "what\tthe watcher of its refused system calls has ended\n");
}

/* The cell is gone or will be: what its file says is kept. */
static void refused_calls_settle(struct session *s)
{
	struct refused_session *r = state_of(s);
	char lines[REFUSED_CALLS_TEXT_MAX];

	watched_files_look(s, true);
	read_file(s, r, false);
	if (!r->counted)
		return;
	write_lines(r, lines);
	free(r->last);
	r->last = NULL;
	r->total = 0;
	if (strcmp(r->kept, lines) == 0)
		return;
	memcpy(r->kept, lines, strlen(lines) + 1);
	session_set_refused(s, r->kept);
}

static void on_gone(struct session *s, const struct err *why)
{
	refused_calls_settle(s);
}

static void on_free(struct session *s, const struct err *why)
{
	void **at = session_parts_of(s, &refused_calls_part);
	struct refused_session *r = *at;

	if (r == NULL)
		return;
	free(r->last);
	free(r);
	*at = NULL;
}

static int refused_calls_setup(struct core *c, struct err *e)
{
	for (size_t k = 0; k < COUNT(seccomp_names); k++)
		if (seccomp_names[k].nr >= 0 && seccomp_names[k].nr < WATCH_CALLS)
			names[seccomp_names[k].nr] = seccomp_names[k].name;
	for (size_t i = 0; i < COUNT(of_escapes); i++)
		for (size_t k = 0; k < COUNT(seccomp_names); k++)
			if (strcmp(seccomp_names[k].name, of_escapes[i]) == 0)
				is_of_escape[seccomp_names[k].nr] = true;
	return 0;
}

/* ---- shown */

bool refused_calls_now(struct session *s, char ret[REFUSED_CALLS_TEXT_MAX])
{
	struct refused_session *r = state_of(s);

	if (session_row(s)->state < SESSION_ENDING)
		read_file(s, r, true);
	if (!r->counted || r->lost)
		return false;
	write_lines(r, ret);
	memmove(ret, ret + strlen(COUNTED), strlen(ret + strlen(COUNTED)) + 1);
	return true;
}

const char *refused_calls_kept(const struct store_session *row)
{
	if (row->refused == NULL || strncmp(row->refused, COUNTED, strlen(COUNTED)) != 0)
		return NULL;
	return row->refused + strlen(COUNTED);
}

const struct session_part refused_calls_part = {
	.name = "refused calls",
	.setup = refused_calls_setup,
	.on_session_second = on_session_second,
	.on_cell_gone = on_gone,
	.on_ending = on_gone,
	.on_free = on_free,
};
