#include "confine_egress.h"

#include <linux/filter.h>
#include <linux/seccomp.h>

#include "confine_net.h"
#include "own.h"
#include "egress_program.h"

int confine_egress(struct err *e)
{
	return confine_net(seccomp_egress, COUNT(seccomp_egress), e);
}
