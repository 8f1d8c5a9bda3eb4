/* fd.h - closing descriptors.
 *
 * 0, 1 and 2 stay open in every program for as long as it runs (fd_std.h). If one of them were
 * closed, the next connection or file would get its number, and a structure whose descriptor is 0
 * because it was zeroed and not set to -1 would close that one under its owner. fd_close() is the
 * only way to close (tools/check-banned), and it does not close these. */
#pragma once

/* Closes fd if it is one: -1 is none. 0, 1 and 2 are left as they are: to be asked for them is a
 * mistake of the caller's, and ends a program that was built with FD_STRICT=1 (tests do). */
void fd_close(int fd);
