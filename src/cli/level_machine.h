/* level_machine.h - which isolation levels (cell_level.h) this machine can make cells of, and what
 * each engine needs: its programs and files, opened. Called by cordon serve at its start, by
 * cordon run and by cordon doctor.
 *
 * It looks at files and versions and starts no guest. A level that is not possible has the reason,
 * in words that say what to install. */
#pragma once

#include "supervisor_msg.h"

struct level_machine {
	struct cell_level_state states[CELL_LEVELS];
	int files[SERVE_LEVEL_FILES];	     /* owned: by enum serve_level_file; -1 if missing */
	char guest_key[SERVE_GUEST_KEY_MAX]; /* of the guest's kernel and agent; "" if missing */
	char guest_origin[SERVE_GUEST_ORIGIN_MAX]; /* of layer_origin.h; "" if missing */
	bool use_kvm;				   /* for guests; else they are emulated */
};

/* runsc: its path; NULL or "": where it usually is. state_dir: of the server; the guest kernel is
 * in it. Takes about 0.2 s. */
void level_machine_find(const char *runsc, const char *state_dir, struct level_machine *ret);
/* One level only, of several after each other. */
void level_machine_init(struct level_machine *ret);
void level_machine_find_one(enum cell_level_id level, const char *runsc, const char *state_dir,
			    struct level_machine *ret);
void level_machine_release(struct level_machine *m);
