/* dockerfile_stage.h - the stages of a Dockerfile, for dockerfile.c. Pure. */
#pragma once

#include "dockerfile.h"

/* A stage before the last one, by its name or by its number; NULL: there is none. */
const struct dockerfile *dockerfile_stage_find(const struct dockerfile *last, const char *name);
/* Room for the steps of a stage that is all zeros. */
int dockerfile_stage_begin(struct dockerfile *d, struct err *e) MUST_USE;
