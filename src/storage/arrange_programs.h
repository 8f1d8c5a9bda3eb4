/* arrange_programs.h - puts Cordon's programs for cells (the code interpreter, its kernels) into
 * the layer above an image, as cells of the host template have them (template/cell_programs.h).
 * Called by op_arrange.c, in a worker. */
#pragma once

#include "arrange_file.h"

/* from: /opt/cordon of the host template, written by Cordon. An image in which the names are
 * something else than directories goes without them. */
int arrange_programs(struct arranging *a, int from, struct err *e) MUST_USE;
