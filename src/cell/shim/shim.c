#include "cell/shim/shim.h"

struct loop *shim_loop;
struct loop_task shim_settle;
bool shim_shares_network;

void shim_wake(void)
{
	loop_defer(shim_loop, &shim_settle);
}
