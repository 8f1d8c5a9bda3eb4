#include "confine_pull.h"

#include <linux/filter.h>
#include <linux/seccomp.h>

#include "confine_net.h"
#include "own.h"
#include "pull_program.h"

int confine_pull(struct err *e)
{
	return confine_net(seccomp_pull, COUNT(seccomp_pull), e);
}
