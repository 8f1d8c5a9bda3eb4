/* fd_std.h - descriptors 0, 1 and 2, which are open from the first line of main() to the end. */
#pragma once

/* Opens /dev/null for each that is closed: the first call of each main(). */
void fd_std_fill(void);

/* Makes fd a duplicate of `with`, which stays open. Returns -1 and sets errno on failure. */
int fd_std_replace(int fd, int with);
