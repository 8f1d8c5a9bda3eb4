/* doctor_trial.h - one trial of cordon doctor: `cordon run` with these options, in a child, with a
 * bound on its time. Nothing of it is left, whatever happens: if the child is killed, its keeper
 * sees that and removes the cell. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define TRIAL_WORDS_MAX 32
#define TRIAL_GRACE_MS 15000 /* for all but the guest's start and the program */

struct trial {
	const char *words[TRIAL_WORDS_MAX]; /* options and command of cordon run, NULL at the end */
	const char *expected;		    /* exactly what the command prints */
	unsigned bound_ms;
};

struct trial_result {
	bool ok;
	unsigned ms;	   /* that it took */
	bool can_redirect; /* the cell's connections, to cordon-egress */
	char why[256];	   /* one line, if it is not ok; untrusted bytes are escaped */
	/* Lines before that: what the engine or the guest's console printed last. */
	char console[2048];
};

void trial_run(const struct trial *t, struct trial_result *ret);
