/* level_machine.h - the isolation levels (cell_level.h) possible on this machine, and each engine's
 * needs: its programs and files, opened. Called by cordon serve at its start, by cordon run and by
 * cordon doctor.
 *
 * It looks at files and versions and starts no guest. An impossible level has the reason, in words
 * that name the packages to install. */
#pragma once

#include <stdint.h>

#include "lib/base/err.h"
#include "lib/wire/supervisor_msg.h"

/* How large the template host is: the size of a root image of the machine's /usr, for sessions at
 * level microvm. Known before an image is begun: see
 * doc/decisions/037-the-host-at-level-microvm.md. Called by cordon serve, cordon
 * doctor and cordon level. */
/* Bytes of a root image of /usr, a little more than its final size. If the file system of /usr
 * holds at most `enough`, that size is the answer, and no file is read. */
int host_size(uint64_t enough, uint64_t *ret_bytes, struct err *e) MUST_USE;

/* Bytes free for an ordinary program in the file system of a directory. 0: not known. */
uint64_t host_size_room(const char *dir);

struct level_machine {
	struct cell_level_state states[CELL_LEVELS];
	int files[SERVE_LEVEL_FILES];	     /* owned: by enum serve_level_file. -1 if missing */
	char guest_key[SERVE_GUEST_KEY_MAX]; /* of the guest's kernel and agent. "" if missing */
	char guest_origin[SERVE_GUEST_ORIGIN_MAX]; /* of layer_origin.h. "" if missing */
	bool use_kvm;				   /* for guests, otherwise emulated */
};

/* One level only, of several after each other. */
void level_machine_init(struct level_machine *ret);
void level_machine_find_one(enum cell_level_id level, const char *runsc, const char *state_dir,
			    struct level_machine *ret);
void level_machine_release(struct level_machine *m);
