/* ends.h - what tests of the ends of requests share: how often the request under test has ended,
 * and how. Included once by each program. */
#pragma once

#include "bed.h"
#include "daemon/node/core_private.h"

static unsigned ends; /* of the request under test */
static struct err last;

static void note(const struct err *e)
{
	ends++;
	last = e == NULL ? (struct err){ 0 } : *e;
}

static bool has_ended(void)
{
	return ends > 0;
}

/* Nothing more comes, whatever happens to the rest. */
static void check_once(unsigned want)
{
	bed_turn(20);
	CHECK(ends == want);
	bed_end();
	CHECK(ends == want);
}

#define T(name)             \
	{                   \
#name, name \
	}
