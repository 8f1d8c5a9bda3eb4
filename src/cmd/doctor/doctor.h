/* doctor.h - `cordon doctor`: prints which features of cells work on this machine, and the missing
 * parts of the others. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cmd/base/options.h"
#include "lib/json/json.h"

/* One trial of cordon doctor: `cordon run` with these options, in a child, with a
 * bound on its time. Nothing of it is left, whatever happens: if the child is killed, its keeper
 * sees that and removes the cell. */
#define TRIAL_WORDS_MAX 32
#define TRIAL_GRACE_MS 15000 /* for all but the guest's start and the program */

struct trial {
	const char *words[TRIAL_WORDS_MAX]; /* options and command of cordon run, NULL at the end */
	const char *expected;		    /* exactly the printed text */
	unsigned bound_ms;
};

struct trial_result {
	bool ok;
	unsigned ms;	   /* that it took */
	bool can_redirect; /* the cell's connections, to cordon-egress */
	char why[256];	   /* one line, if it is not ok. Untrusted bytes are escaped */
	/* The lines before: the last output of the engine or the guest's console. */
	char console[2048];
};

void trial_run(const struct trial *t, struct trial_result *ret);

extern const struct verb doctor_verb;

struct doctor_options {
	const char *state_dir; /* of the server. NULL: the usual one */
	const char *runsc;     /* NULL: the machine's */
	uint64_t trial_ms;     /* how long a guest may take to start */
	bool quick;	       /* no guest is started */
	bool cells;	       /* lists each cell of gone servers */
	bool record;	       /* keeps the findings for reports */
	const char *tests;     /* results of tests, to be kept for reports. NULL: none */
	bool clean, json, help;
};

/* Where rows are collected: the verdict is printed before them. */
FILE *doctor_out(void);
/* The object printed in their place with --json. NULL: none. */
struct json *doctor_json(void);

/* Print one line: does it work, and what, or what would help. Then the lines that an engine or
 * guest printed, if there are any. */
void doctor_row(const char *group, const char *name, bool ok, const char *detail, const char *help,
		const char *console);
/* doctor_record.c: write a document for `cordon report` into the folder "evidence" of the state
 * directory. Return an exit code. */
int doctor_record(const char *state_dir, const char *name, const char *text, size_t len);
/* Read results of tests as Meson writes them (testlog.json), and record their numbers. */
int doctor_record_tests(const char *state_dir, const char *path);
/* The server's, by its default settings. */
const char *doctor_state_dir(void);

/* The rows of the levels. container: how the trial of the standard profile ended. */
void doctor_levels(const struct doctor_options *o, const struct trial_result *container);
/* Count cells of gone servers. all: list them with the commands that remove them. */
void doctor_cells(bool all);
/* Remove them, or only the named ones. Return an exit code. */
int doctor_clean(int n, char **names);
