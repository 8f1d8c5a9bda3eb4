/* layer_walk.h - steps between directories, of layer_tree.c for layer_walk.c. */
#pragma once

#include "layer_tree.h"

int layer_go_top(struct layer_tree *t, struct err *e) MUST_USE;
int layer_go_up(struct layer_tree *t, struct err *e) MUST_USE;
/* Into a directory that this layer has; mask: lower layers that have it, too. */
int layer_go_down(struct layer_tree *t, const char *name, const struct layer_mask *mask,
		  struct err *e) MUST_USE;
