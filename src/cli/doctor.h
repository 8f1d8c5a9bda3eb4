/* doctor.h - `cordon doctor`: what this machine can do for cells, what not, why, and what helps. */
#pragma once

#include "options.h"

extern const struct verb doctor_verb;

/* Lists cells of servers that are gone (doctor_cells.c). */
void doctor_cells(void);
