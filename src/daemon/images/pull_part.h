/* pull_part.h - the node's data for pulls. For image_pull.c and pull_part.c only. */
#pragma once

#include "daemon/images/image_pull.h"

struct image_pulls {
	struct pull_link link;
	struct image_pull *first; /* list.h */
};

struct image_pulls *image_pulls_of(const struct core *c);
