/* installed.h - the programs installed beside the running one. Used by everything that starts or
 * copies one: cordon run, cordon serve, cordon doctor.
 *
 * Programs of different versions do not understand each other. After an installation, a running
 * server therefore continues with the files present at its start, until it is reloaded:
 * installed_keep() holds them open. */
#pragma once

#include <stddef.h>

#include "lib/base/err.h"

/* The path of a program. It may lead to a newer file than the one that installed_open() opens. */
int installed_path(const char *name, char *ret_path, size_t cap, struct err *e) MUST_USE;

/* Open a program to execute it (O_PATH). An error names the path. The caller owns *ret_fd. */
int installed_open(const char *name, int *ret_fd, struct err *e) MUST_USE;

/* Hold the present files of all programs, for each later installed_open(). Called once, before the
 * first program is started. A program missing now is looked for at each call. */
void installed_keep(void);
