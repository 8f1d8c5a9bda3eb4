/* fd_std.h - descriptors 0, 1 and 2, open from the first line of main() to the end. */
#pragma once

/* Open /dev/null for each closed one: the first call of each main(). */
void fd_std_fill(void);

/* Make fd a duplicate of `with`, which stays open. Return -1 and set errno on failure. */
int fd_std_replace(int fd, int with);
