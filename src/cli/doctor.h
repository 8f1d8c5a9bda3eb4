/* doctor.h - `cordon doctor`: prints which features of cells work on this machine, and what is
 * missing for the others. */
#pragma once

#include "doctor_trial.h"
#include "options.h"

extern const struct verb doctor_verb;

struct doctor_options {
	const char *state_dir; /* of the server; NULL: the usual one */
	const char *runsc;     /* NULL: the machine's */
	uint64_t trial_ms;     /* how long a guest may take to start */
	bool quick;	       /* no guest is started */
	bool cells;	       /* lists each cell of servers that are gone */
	bool clean, help;
};

/* Where rows are collected: the verdict is printed before them. */
FILE *doctor_out(void);

/* Prints one line: does it work, and what, or what would help. */
void doctor_row(const char *group, const char *name, bool ok, const char *detail, const char *help);
/* The same for a level, and the lines that its engine or guest printed (doctor_levels.c).
 * container: how the trial of the standard profile ended. */
void doctor_levels(const struct doctor_options *o, const struct trial_result *container);
/* Counts cells of servers that are gone (doctor_cells.c); all: lists them with the commands that
 * remove them. */
void doctor_cells(bool all);
/* Removes them, or only those that are named. Returns an exit code. */
int doctor_clean(int n, char **names);
