/* kill_tree.c - theory of operation
 *
 * A pass over /proc (a look) finds the processes of the tree: those with the program's mark, or
 * with a mark that was never assigned (lowered to hide), those in its session or process group, and
 * all children of these. A look takes time, in which a fork bomb makes new processes. So processes
 * that the look before did not find are stopped, not killed: a stopped process does not fork, and
 * still counts against the cell's limit of processes, so each look finds fewer new ones. When a
 * look finds no new one, all are killed. Looks are repeated until one finds no process.
 *
 * Processes of other programs may continue those that are stopped. So in the second half of
 * EFFORT_MS all that are found are killed at once, and after EFFORT_MS the tree is reported with
 * SOME_REMAIN.
 *
 * All trees are killed by the same looks. One look for each turn of PID 1's loop, so that its other
 * work continues. */
#include "kill_tree.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "clock.h"
#include "tree_mark.h"
#include "proc_stat.h"

#define EFFORT_MS 2000ULL
#define SEEN_MAX 8192 /* processes of a look; further ones are killed as they are found */

struct seen {
	pid_t pid, parent;
	bool victim;
};

/* Mapped while trees are being killed. */
struct look {
	size_t n, nbefore;
	bool overflowed;
	struct seen seen[SEEN_MAX]; /* alive, in ascending order */
	pid_t before[SEEN_MAX];	    /* victims of the look before, in ascending order */
};

static struct look *look;

void kill_tree_begin(struct program *p, uint64_t now_ns, bool report)
{
	p->report_tree = p->report_tree || report;
	p->tree_flags = 0;
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

/* The id of a program that was reaped may belong to another process by now. Processes that are left
 * of its session have its mark, or one that was never assigned. */
static bool belongs(const struct program *p, const struct proc_stat *c)
{
	if (p->mark != 0 && c->locks == p->mark)
		return true;
	return !p->exited && (c->pid == p->pid || c->session == p->pid || c->group == p->pid);
}

static bool is_victim(const struct proc_stat *c)
{
	if (tree_mark_is_hiding(c->locks))
		return true;
	for (struct program *p = NULL; (p = programs_next(p)) != NULL;)
		if (p->kill_end_ns != 0 && belongs(p, c))
			return true;
	return false;
}

static void see(int proc_fd, pid_t pid, void *arg)
{
	struct proc_stat c;

	(void)arg;
	if (!proc_stat_read(proc_fd, pid, &c) || !c.alive)
		return;
	if (look->n < SEEN_MAX) {
		look->seen[look->n++] = (struct seen){ c.pid, c.parent, is_victim(&c) };
	} else if (is_victim(&c)) {
		look->overflowed = true;
		(void)kill(c.pid, SIGKILL);
	}
}

static const struct seen *find(pid_t pid)
{
	size_t low = 0, high = look->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (look->seen[middle].pid == pid)
			return &look->seen[middle];
		if (look->seen[middle].pid < pid)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

/* Children of victims are victims. Process ids wrap around, so a child may come before its parent:
 * the list is passed over until nothing changes. */
static void add_children(void)
{
	for (bool changed = true; changed;) {
		changed = false;
		for (size_t i = 0; i < look->n; i++) {
			struct seen *s = &look->seen[i];
			const struct seen *parent = s->victim ? NULL : find(s->parent);

			if (parent == NULL || !parent->victim)
				continue;
			s->victim = changed = true;
		}
	}
}

/* Stops the victims that the look before did not find; true if there was one. Remembers all
 * victims. */
static bool stop_new(void)
{
	size_t n = 0, b = 0;
	bool any = false;

	for (size_t i = 0; i < look->n; i++) {
		pid_t pid = look->seen[i].pid;

		if (!look->seen[i].victim)
			continue;
		while (b < look->nbefore && look->before[b] < pid)
			b++;
		if (b == look->nbefore || look->before[b] != pid) {
			(void)kill(pid, SIGSTOP);
			any = true;
		}
		look->seen[n++].pid = pid; /* n <= i */
	}
	for (size_t i = 0; i < n; i++)
		look->before[i] = look->seen[i].pid;
	look->nbefore = n;
	return any;
}

static void kill_found(void)
{
	for (size_t i = 0; i < look->nbefore; i++)
		(void)kill(look->before[i], SIGKILL);
}

static void finish(struct program *p, uint32_t flags)
{
	p->kill_end_ns = 0;
	p->tree_flags = flags;
	if (p->report_tree)
		p->to_send |= PROGRAM_SEND_TREE_DEAD;
	else if (p->leftover)
		programs_forget(p);
	p->report_tree = false;
}

/* Finishes trees whose time is over, or all if no process is left. True if one of the others has
 * less than half of its time left. */
static bool finish_some(uint64_t now_ns, bool all_dead)
{
	bool hurry = false;

	for (struct program *p = NULL; (p = programs_next(p)) != NULL;) {
		if (p->kill_end_ns == 0)
			continue;
		if (all_dead)
			finish(p, 0);
		else if (p->kill_end_ns <= now_ns)
			finish(p, AGENT_SOME_REMAIN);
		else if (p->kill_end_ns - now_ns < EFFORT_MS * CLOCK_MS / 2)
			hurry = true;
	}
	return hurry;
}

static void end_looks(void)
{
	if (look != NULL)
		(void)munmap(look, sizeof(*look));
	look = NULL;
}

static bool begin_look(void)
{
	if (look == NULL) {
		void *m = mmap(NULL, sizeof(*look), PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (m == MAP_FAILED)
			return false;
		look = m;
	}
	look->n = 0;
	look->overflowed = false;
	return true;
}

/* False if it cannot look: out of memory or descriptors for the moment. */
static bool look_around(void)
{
	OWN_FD proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (proc < 0 || !begin_look() || proc_stat_each(proc, see, NULL) < 0)
		return false;
	add_children();
	return true;
}

int kill_tree_pass(uint64_t now_ns)
{
	bool looked = look_around(), any_new = looked && stop_new();
	bool all_dead = looked && look->nbefore == 0 && !look->overflowed;
	bool hurry = finish_some(now_ns, all_dead);

	if (looked && (!any_new || hurry))
		kill_found();
	if (!kill_tree_busy())
		end_looks();
	return any_new ? 0 : 1;
}
