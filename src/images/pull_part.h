/* pull_part.h - what is kept for pulls of the node. For image_pull.c and pull_part.c only. */
#pragma once

#include "image_pull.h"

struct image_pulls {
	struct pull_link link;
	struct image_pull *first; /* list.h */
};

struct image_pulls *image_pulls_of(const struct core *c);
