/* doctor.h - `cordon doctor`: prints which features of cells work on this machine, and what is
 * missing for the others. */
#pragma once

#include "options.h"

extern const struct verb doctor_verb;

/* Lists cells of servers that are gone (doctor_cells.c). */
void doctor_cells(void);
/* Removes them, or only those that are named. Returns an exit code. */
int doctor_clean(int n, char **names);
