#include "large_blocks.h"

#include <malloc.h>

/* Answers and bodies may have some MiB each, and slow clients keep them for a while. From 1 MiB on
 * a block is a mapping of its own, which goes back to the kernel when it is freed. Otherwise malloc
 * raises that bound with the first large block, and what is freed between blocks in use stays. */
void large_blocks_set_up(void)
{
	(void)mallopt(M_MMAP_THRESHOLD, 1 << 20);
	(void)mallopt(M_TRIM_THRESHOLD, 2 << 20);
}
