/* doctor.h - `cordon doctor`: prints which features of cells work on this machine, and what is
 * missing for the others. */
#pragma once

#include "options.h"

extern const struct verb doctor_verb;

/* Prints one line: does it work, and what, or what would help. */
void doctor_row(const char *group, const char *name, bool ok, const char *detail, const char *help);
/* Level microvm (doctor_levels.c). state_dir: of the server; NULL: the usual one. */
void doctor_microvm(const char *state_dir);
/* Lists cells of servers that are gone (doctor_cells.c). */
void doctor_cells(void);
/* Removes them, or only those that are named. Returns an exit code. */
int doctor_clean(int n, char **names);
