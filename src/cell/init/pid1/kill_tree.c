/* kill_tree.c - theory of operation
 *
 * A scan of /proc finds the processes of the tree: those with the program's mark, or with a mark
 * that PID 1 never assigned (lowered to hide), those in its session or process group, and all
 * children of these. A scan takes time, in which a fork bomb makes new processes. So processes that
 * the scan before did not find are stopped, not killed: a stopped process does not fork, and still
 * counts against the cell's limit of processes, so each scan finds fewer new ones. When a scan
 * finds no new one, all are killed. Scans are repeated until one finds no process.
 *
 * Processes of other programs may continue stopped ones. So in the second half of EFFORT_MS all
 * found ones are killed at once, and after EFFORT_MS the tree is reported with SOME_REMAIN.
 *
 * All trees are killed by the same scans. There is one scan for each turn of PID 1's loop, so that
 * its other work continues. */
#include "cell/init/pid1/kill_tree.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "cell/init/base/proc_stat.h"
#include "cell/init/base/tree_mark.h"
#include "lib/base/clock.h"

#define EFFORT_MS 2000ULL
#define SEEN_MAX 8192 /* processes of a scan, further ones are killed as they are found */

struct kill_tree_seen {
	pid_t pid, parent;
	bool victim;
};

/* Mapped while trees are being killed. */
struct scan {
	size_t n, nbefore;
	bool overflowed;
	struct kill_tree_seen seen[SEEN_MAX]; /* alive, in ascending order */
	pid_t before[SEEN_MAX];		      /* victims of the scan before, in ascending order */
};

static struct scan *scan;

void kill_tree_begin(struct program *p, uint64_t now_ns, bool report)
{
	p->agent.report_tree = p->agent.report_tree || report;
	p->agent.tree_flags = 0;
	if (p->kill_end_ns == 0)
		p->kill_end_ns = now_ns + EFFORT_MS * CLOCK_MS;
}

bool kill_tree_busy(void)
{
	for (struct program *p = NULL; (p = programs_next(p)) != NULL;)
		if (p->kill_end_ns != 0)
			return true;
	return false;
}

/* The id of a reaped program may belong to another process by now. Remaining processes of its
 * session have its mark, or one that PID 1 never assigned. */
static bool kill_tree_belongs(const struct program *p, const struct proc_stat *c)
{
	if (p->agent.mark != 0 && c->locks == p->agent.mark)
		return true;
	return !p->agent.exited &&
	       (c->pid == p->agent.pid || c->session == p->agent.pid || c->group == p->agent.pid);
}

static bool kill_tree_is_victim(const struct proc_stat *c)
{
	if (tree_mark_is_hiding(c->locks))
		return true;
	for (struct program *p = NULL; (p = programs_next(p)) != NULL;)
		if (p->kill_end_ns != 0 && kill_tree_belongs(p, c))
			return true;
	return false;
}

static void on_process(int proc_fd, pid_t pid, void *arg)
{
	struct proc_stat c;

	if (!proc_stat_read(proc_fd, pid, &c))
		return;
	if (!c.alive) {
		/* One that looks so, because its threads come and go, must not escape by that. */
		if (c.threads > 1 && kill_tree_is_victim(&c))
			(void)kill(c.pid, SIGKILL);
		return;
	}
	if (scan->n < SEEN_MAX) {
		scan->seen[scan->n++] =
			(struct kill_tree_seen){ c.pid, c.parent, kill_tree_is_victim(&c) };
	} else if (kill_tree_is_victim(&c)) {
		scan->overflowed = true;
		(void)kill(c.pid, SIGKILL);
	}
}

static const struct kill_tree_seen *kill_tree_find(pid_t pid)
{
	size_t low = 0, high = scan->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (scan->seen[middle].pid == pid)
			return &scan->seen[middle];
		if (scan->seen[middle].pid < pid)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

/* Children of victims are victims. Process ids wrap around, so a child may come before its parent:
 * the list is passed over until nothing changes. */
static void kill_tree_add_children(void)
{
	for (bool changed = true; changed;) {
		changed = false;
		for (size_t i = 0; i < scan->n; i++) {
			struct kill_tree_seen *s = &scan->seen[i];
			const struct kill_tree_seen *parent =
				s->victim ? NULL : kill_tree_find(s->parent);

			if (parent == NULL || !parent->victim)
				continue;
			s->victim = changed = true;
		}
	}
}

/* Stop the victims that the scan before did not find. True if there was one. Remembers all
 * victims. */
static bool kill_tree_stop_new(void)
{
	size_t n = 0, b = 0;
	bool any = false;

	for (size_t i = 0; i < scan->n; i++) {
		pid_t pid = scan->seen[i].pid;

		if (!scan->seen[i].victim)
			continue;
		while (b < scan->nbefore && scan->before[b] < pid)
			b++;
		if (b == scan->nbefore || scan->before[b] != pid) {
			(void)kill(pid, SIGSTOP);
			any = true;
		}
		scan->seen[n++].pid = pid; /* n <= i */
	}
	for (size_t i = 0; i < n; i++)
		scan->before[i] = scan->seen[i].pid;
	scan->nbefore = n;
	return any;
}

static void kill_tree_kill_found(void)
{
	for (size_t i = 0; i < scan->nbefore; i++)
		(void)kill(scan->before[i], SIGKILL);
}

static void kill_tree_finish(struct program *p, uint32_t flags)
{
	p->kill_end_ns = 0;
	p->agent.tree_flags = flags;
	if (p->agent.report_tree)
		p->agent.to_send |= AGENTD_SEND_TREE_DEAD;
	else if (p->agent.leftover)
		programs_forget(p);
	p->agent.report_tree = false;
}

/* Finish trees whose time has passed, or all if no process is left. True if one of the others has
 * less than half of its time left. */
static bool kill_tree_finish_some(uint64_t now_ns, bool all_dead)
{
	bool hurry = false;

	for (struct program *p = NULL; (p = programs_next(p)) != NULL;) {
		if (p->kill_end_ns == 0)
			continue;
		if (all_dead)
			kill_tree_finish(p, 0);
		else if (p->kill_end_ns <= now_ns)
			kill_tree_finish(p, AGENT_SOME_REMAIN);
		else if (p->kill_end_ns - now_ns < EFFORT_MS * CLOCK_MS / 2)
			hurry = true;
	}
	return hurry;
}

static void kill_tree_end_scans(void)
{
	if (scan != NULL)
		(void)munmap(scan, sizeof(*scan));
	scan = NULL;
}

static bool kill_tree_begin_scan(void)
{
	if (scan == NULL) {
		void *m = mmap(NULL, sizeof(*scan), PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (m == MAP_FAILED)
			return false;
		scan = m;
	}
	scan->n = 0;
	scan->overflowed = false;
	return true;
}

/* False if out of memory or descriptors for the moment. */
static bool kill_tree_scan_processes(void)
{
	OWN_FD proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (proc < 0 || !kill_tree_begin_scan() || proc_stat_each(proc, on_process, NULL) < 0)
		return false;
	kill_tree_add_children();
	return true;
}

int kill_tree_pass(uint64_t now_ns)
{
	bool scanned = kill_tree_scan_processes(), any_new = scanned && kill_tree_stop_new();
	bool all_dead = scanned && scan->nbefore == 0 && !scan->overflowed;
	bool hurry = kill_tree_finish_some(now_ns, all_dead);

	if (scanned && (!any_new || hurry))
		kill_tree_kill_found();
	if (!kill_tree_busy())
		kill_tree_end_scans();
	return any_new ? 0 : 1;
}
