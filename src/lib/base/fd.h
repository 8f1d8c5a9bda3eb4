/* fd.h - closing descriptors.
 *
 * 0, 1 and 2 stay open in every program for as long as it runs (fd_std.h). If one of them were
 * closed, the next connection or file would get its number, and a structure whose descriptor is 0
 * because it was zeroed and not set to -1 would close that one under its owner. fd_close() is the
 * only way to close (tools/check-banned), and it does not close these. */
#pragma once

/* Close fd. -1 is ignored. 0, 1 and 2 are not closed: such a call is a bug of the caller, and
 * aborts programs built with CORDON_STRICT=1 (tests are). */
void fd_close(int fd);
