/* rmtree.h - removes a directory tree that Cordon made, such as a cached template. Not for trees
 * that cells wrote. */
#pragma once

/* Remove dir_fd/name and everything below it, at most 256 levels deep. Links are not followed.
 * Entries that cannot be removed stay. */
void rmtree(int dir_fd, const char *name);
