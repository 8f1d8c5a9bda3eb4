/* runsc.h - finds runsc, the engine of level gvisor, and checks that it is new enough. Called by
 * cordon run, cordon serve and cordon doctor at their start.
 *
 * runsc runs inside cells, from a descriptor. Only its version is asked for here, as the user that
 * starts Cordon. So it must be a program that no other user but root can change. */
#pragma once

#include <stdint.h>

#include "lib/base/err.h"

/* Releases are named by date. The first release with everything that engine_gvisor.c uses: the
 * platform systrap, --pass-fd, --exec-fd and direct access to files. */
#define RUNSC_OLDEST 20240729U

/* Open runsc. path "" searches the usual directories of programs. ERR_UNSUPPORTED, with how to get
 * it, if there is none. The caller owns *ret_fd, open for reading and close-on-exec. */
int runsc_open(const char *path, int *ret_fd, struct err *e) MUST_USE;

/* Runs it with --version, for at most RUNSC_CHECK_MS. ERR_UNSUPPORTED, with how to get a newer one,
 * if it is too old. *ret_release: 20240729, ... */
#define RUNSC_CHECK_MS 10000
int runsc_check(int fd, uint32_t *ret_release, struct err *e) MUST_USE;

/* The release in what runsc prints: "runsc version 0.0~20240729.0" (Debian), "runsc version
 * release-20240729.0". 0: none. Pure. */
uint32_t runsc_release_of(const char *text);
