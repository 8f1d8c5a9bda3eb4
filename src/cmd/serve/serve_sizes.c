/* serve_sizes.c - theory of operation
 *
 * Files of a session are in its memory unless it has a disk. So both follow what people install in
 * sessions: npm install -g of a coding agent writes 120 to 570 MiB, its cache included, and has a
 * peak of 270 to 800 MiB of memory (bench/measurements.md). numpy, scipy, pandas and matplotlib
 * take 500 MB. A session of 1 GiB with 768 MiB of files has room for each of them, and 256 MiB for
 * programs beside a full disk.
 *
 * These are limits, and nothing is reserved by them: memory counts when it is used. So a machine of
 * 4 GiB has sessions of that size, too, although four of them could fill it. node_memory_limit
 * bounds all cells together, and no session is made while the machine is short of memory. */
#include "cmd/serve/serve_sizes.h"

#define MIB (1ULL << 20)
#define MEMORY_LEAST (512 * MIB)   /* on the smallest machine */
#define MEMORY_ENOUGH (1024 * MIB) /* if this is at most a quarter of the machine */
#define MEMORY_MOST (2048 * MIB)
#define DISK_LEAST (256 * MIB)

static uint64_t serve_sizes_lesser(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t serve_sizes_larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* 0: no bound. */
static uint64_t serve_sizes_bounded(uint64_t value, uint64_t bound)
{
	return bound > 0 ? serve_sizes_lesser(value, bound) : value;
}

static uint64_t memory_for(uint64_t machine)
{
	uint64_t part = serve_sizes_lesser(machine / 16, MEMORY_MOST);
	uint64_t enough = serve_sizes_lesser(machine / 4, MEMORY_ENOUGH);

	return serve_sizes_larger(serve_sizes_larger(part, enough), MEMORY_LEAST) & ~(MIB - 1);
}

void serve_sizes_set(struct config *c, uint64_t machine_bytes)
{
	if (c->memory_default == 0) {
		c->memory_default = serve_sizes_lesser(memory_for(machine_bytes), c->memory_max);
		c->memory_default = serve_sizes_bounded(c->memory_default, c->node_max_memory);
		c->memory_default = serve_sizes_bounded(c->memory_default, c->tenant_max_memory);
	}
	if (c->disk_default == 0) {
		c->disk_default = serve_sizes_larger(c->memory_default / 4 * 3, DISK_LEAST);
		c->disk_default = serve_sizes_lesser(c->disk_default, c->disk_max);
		c->disk_default = serve_sizes_bounded(c->disk_default, c->tenant_max_storage);
	}
}
