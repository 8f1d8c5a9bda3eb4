/* guest_files.h - the installed guest kernel below a state directory, in the folder `guest`:
 *
 *   vmlinux   the kernel, as QEMU boots it
 *   modules   an initramfs with the kernel's modules, in the order of loading
 *   manifest  lines of a name and a value: kernel (its release), package, vmlinux and modules
 *             (SHA-256)
 *
 * `cordon guest install` replaces the folder as a whole (guest_install.h). A program that boots
 * guests calls guest_files_load(), which adds the running version's cordon-init to the modules: so
 * an upgrade of Cordon needs no new installation, and the two ends of the stream are of one
 * version. */
#pragma once

#include <stdbool.h>

#include "lib/base/err.h"
#include "lib/base/sha256.h"

#define GUEST_FOLDER "guest"
#define GUEST_STATE_DIR "/var/lib/cordon" /* of the service, and of cordon run */
#define GUEST_RELEASE_MAX 64
#define GUEST_PACKAGE_MAX 128
#define GUEST_HEX (2 * SHA256_SIZE + 1)

struct guest_manifest {
	char release[GUEST_RELEASE_MAX];
	char package[GUEST_PACKAGE_MAX];
	char vmlinux[GUEST_HEX], modules[GUEST_HEX];
};

/* ERR_NOT_FOUND: no guest kernel is installed there. */
int guest_manifest_read(int dir, struct guest_manifest *ret, struct err *e) MUST_USE;
int guest_manifest_write(int dir, const struct guest_manifest *m, struct err *e) MUST_USE;

/* Open the folder below a state directory. */
int guest_files_open_dir(const char *state_dir, int *ret_fd, struct err *e) MUST_USE;

/* The SHA-256 of a file from its start, as text. */
int guest_files_hash(int fd, char ret_hex[GUEST_HEX], struct err *e) MUST_USE;

struct guest_files {
	struct guest_manifest manifest;
	int kernel, initramfs; /* owned: sealed memfds */
	char agent[GUEST_HEX]; /* SHA-256 of cordon-init */
	/* Changes with the kernel, a module or cordon-init: part of the key of a memory image. */
	char key[GUEST_HEX];
};

/* Read and check the files of an open folder, and make the initramfs with this cordon-init
 * (borrowed: a descriptor of the program). The files may be replaced later. Loaded ones stay as
 * they are. */
int guest_files_load(int dir, int init, struct guest_files *ret, struct err *e) MUST_USE;
void guest_files_release(struct guest_files *f);
