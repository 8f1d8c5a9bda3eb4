/* Goal: sessions that set no memory and no disk have those of doc/limits.md, on machines of every
 * size, and never more than the operator allows. */
#include "cmd/serve/serve_sizes.h"

#include "lib/base/own.h"
#include "test.h"

#define MIB (1ULL << 20)
#define GIB (1ULL << 30)
#define LEFT 95 /* percent of its memory that a kernel has left when it has started */

static struct config with(uint64_t memory_max, uint64_t disk_max)
{
	return (struct config){ .memory_max = memory_max, .disk_max = disk_max };
}

/* The table of doc/limits.md. */
static void follow_the_machine(void)
{
	static const struct {
		uint64_t machine, memory, disk;
	} rows[] = {
		{ GIB / 2, 512 * MIB, 384 * MIB },    { GIB, 512 * MIB, 384 * MIB },
		{ 2 * GIB, 512 * MIB, 384 * MIB },    { 4 * GIB, GIB, 768 * MIB },
		{ 8 * GIB, GIB, 768 * MIB },	      { 16 * GIB, GIB, 768 * MIB },
		{ 24 * GIB, 1536 * MIB, 1152 * MIB }, { 32 * GIB, 2 * GIB, 1536 * MIB },
		{ 1024 * GIB, 2 * GIB, 1536 * MIB },
	};

	for (size_t i = 0; i < COUNT(rows); i++) {
		struct config c = with(8 * GIB, 8 * GIB);

		serve_sizes_set(&c, rows[i].machine);
		CHECK(c.memory_default == rows[i].memory && c.disk_default == rows[i].disk);
		c = with(8 * GIB, 8 * GIB);
		serve_sizes_set(&c, rows[i].machine / 100 * LEFT);
		CHECK(c.memory_default <= rows[i].memory);
		CHECK(c.memory_default >= rows[i].memory / 100 * (LEFT - 1));
		CHECK(c.disk_default < c.memory_default);
	}
}

/* What an agent's installation takes (bench/measurements.md), on a machine of 4 GiB or more. */
static void have_room_for_an_agent(void)
{
	for (uint64_t machine = 4 * GIB; machine <= 64 * GIB; machine += GIB / 2) {
		struct config c = with(8 * GIB, 8 * GIB);

		serve_sizes_set(&c, machine / 100 * LEFT);
		CHECK(c.disk_default > 570 * MIB && c.memory_default > 800 * MIB);
	}
}

static void obey_the_operator(void)
{
	struct config c = with(300 * MIB, 100 * MIB);

	serve_sizes_set(&c, 64 * GIB);
	CHECK(c.memory_default == 300 * MIB && c.disk_default == 100 * MIB);
	c = with(8 * GIB, 8 * GIB);
	c.node_max_memory = 700 * MIB;
	c.tenant_max_memory = 600 * MIB;
	c.tenant_max_storage = 50 * MIB;
	serve_sizes_set(&c, 64 * GIB);
	CHECK(c.memory_default == 600 * MIB && c.disk_default == 50 * MIB);
	c = with(8 * GIB, 8 * GIB);
	c.memory_default = 3 * GIB;
	serve_sizes_set(&c, 4 * GIB);
	CHECK(c.memory_default == 3 * GIB && c.disk_default == 2304 * MIB);
	c.disk_default = 5 * MIB;
	serve_sizes_set(&c, 4 * GIB);
	CHECK(c.memory_default == 3 * GIB && c.disk_default == 5 * MIB);
}

TEST_MAIN({ "follow the machine", follow_the_machine },
	  { "have room for an agent", have_room_for_an_agent },
	  { "obey the operator", obey_the_operator })
