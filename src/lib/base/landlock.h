/* landlock.h - which rights Landlock has in which version, for the programs that restrict
 * themselves (lib/base/confine.c for daemons, cell/keeper/restrict.c for cells). Header
 * only, so that the keeper links nothing more. linux/landlock.h of the oldest system that Cordon is
 * built on ends with version 2. The rest is here.
 *
 * Both calls return as system calls do: -1 and errno. */
#pragma once

#include <linux/landlock.h>

#include "lib/base/kernel.h"

enum { LANDLOCK_NET_BIND = 1, LANDLOCK_NET_CONNECT = 2, LANDLOCK_FS_IOCTL_DEV = 1 << 15 };

/* The kernel's version. -1 with ENOSYS or EOPNOTSUPP: it has no Landlock, or it is off. */
static inline int landlock_abi(void)
{
	return (int)syscall(SYS_landlock_create_ruleset, NULL, 0, 1U);
}

/* Every right over files that this version knows: 13 of version 1, then refer (2), truncate (3) and
 * ioctl of devices (5). */
static inline uint64_t landlock_fs_all(int abi)
{
	return (1ULL << (abi >= 5 ? 16 : abi >= 3 ? 15 : abi == 2 ? 14 : 13)) - 1;
}

/* A rule set without rules: denies all use of files, the TCP rights `net` (from version 4), and
 * abstract sockets and signals of processes outside (from version 6). Return its descriptor. */
static inline int landlock_open(int abi, uint64_t net)
{
	const uint64_t set[3] = { landlock_fs_all(abi), abi >= 4 ? net : 0, abi >= 6 ? 3 : 0 };
	const size_t size = abi >= 6 ? 24 : abi >= 4 ? 16 : 8;

	return (int)syscall(SYS_landlock_create_ruleset, set, size, 0U);
}
