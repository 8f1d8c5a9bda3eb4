/* rmtree.h - removes a directory tree of ours, such as a cached template. Not for what cells wrote.
 */
#pragma once

/* Removes dir_fd/name and everything below it, 256 levels deep, following no link. What cannot be
 * removed stays. */
void rmtree(int dir_fd, const char *name);
