/* fd.h - closing descriptors, and the three that are never closed.
 *
 * 0, 1 and 2 stay open in every program for as long as it runs. If one of them were closed, the
 * next connection or file would get its number, and a structure whose descriptor is 0 because it
 * was zeroed and not set to -1 would close that one under its owner. fd_close() is the only way to
 * close (tools/check-banned), and it does not close these. */
#pragma once

/* Opens /dev/null for each of 0, 1 and 2 that is closed: the first call of each main(). */
void fd_fill_std(void);

/* Closes fd if it is one: -1 is none. 0, 1 and 2 are left as they are: to be asked for them is a
 * mistake of the caller's, and ends a program that was built with FD_STRICT (tests do). */
void fd_close(int fd);

/* Replaces one of 0, 1 and 2 with with, which stays open. Returns -1 and sets errno if it cannot.
 */
int fd_replace_std(int fd, int with);
