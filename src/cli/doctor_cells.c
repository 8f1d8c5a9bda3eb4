/* doctor_cells.c - the part of cordon doctor that lists cells of servers that are gone, with the
 * commands that remove them. It removes nothing itself: a server that is just being restarted would
 * lose its cells. */
#include <stdio.h>

#include "doctor.h"
#include "orphans.h"

static void print_cell(const struct orphan *c)
{
	(void)printf("cell      %-18s      ", c->id[0] == '\0' ? "?" : c->id);
	if (c->pid1 == 0)
		(void)printf("ended, its cgroups are left\n");
	else
		(void)printf("PID 1 is %d, %u processes%s\n", (int)c->pid1, c->processes,
			     c->frozen ? ", frozen: it cannot end by itself" : "");
	(void)printf("%-34s-> ", "");
	if (c->pid1 != 0)
		(void)printf("kill -9 %d%s", (int)c->pid1, c->ndirs > 0 ? "; sleep 1; " : "");
	for (unsigned i = 0; i < c->ndirs; i++)
		(void)printf("%s%s", i == 0 ? "rmdir " : " ", c->dirs[i]);
	(void)printf("\n");
}

void doctor_cells(void)
{
	struct orphans o;
	struct err e;

	if (orphans_find(&o, &e) < 0) {
		(void)printf("\ncells of no running server cannot be listed: %s\n", e.msg);
		return;
	}
	if (o.n > 0 || o.ngroups > 0)
		(void)printf("\ncells of no running server, and how to remove them:\n");
	for (size_t i = 0; i < o.n; i++)
		print_cell(&o.list[i]);
	if (o.ngroups > 0)
		(void)printf("server    %-18s      gone\n%-34s-> rmdir", "", "");
	for (size_t i = 0; i < o.ngroups; i++)
		(void)printf(" %s%s", o.groups[i], i + 1 == o.ngroups ? "\n" : "");
	if (o.more)
		(void)printf("there are more of them\n");
	orphans_release(&o);
}
