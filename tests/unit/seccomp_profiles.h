/* seccomp_profiles.h - the generated filters of all profiles, for test_seccomp*.c. */
#pragma once

#include "seccomp_program.h"
#include "test.h"

#include <stddef.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum profile { STANDARD, LOCKED, ENGINE, SETID };

static const struct program {
	const char *name;
	const struct sock_filter *code;
	size_t len;
} programs[] = {
	[STANDARD] = { "standard", seccomp_standard, COUNT(seccomp_standard) },
	[LOCKED] = { "locked", seccomp_locked, COUNT(seccomp_locked) },
	[ENGINE] = { "engine", seccomp_engine, COUNT(seccomp_engine) },
	[SETID] = { "setid", seccomp_setid, COUNT(seccomp_setid) },
};
