/* large_blocks.h - where malloc takes large blocks from. Called by main.c, before any is allocated.
 */
#pragma once

void large_blocks_set_up(void);
