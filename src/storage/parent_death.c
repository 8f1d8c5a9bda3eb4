/* parent_death.c - see parent_death.h. */
#include "storage/parent_death.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#define FIRST_PROCESS 1 /* the parent of orphans. Never that of a worker */

int parent_death_follow(struct err *e)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return err_sys(e, "death signal");
	/* A parent that died before the call above does not send the signal. */
	if (getppid() == FIRST_PROCESS)
		return err_set(e, ERR_SYSTEM, "the process that asked for this has ended");
	return 0;
}
