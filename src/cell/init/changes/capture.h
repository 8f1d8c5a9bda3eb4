/* capture.h - writes the changes of a cell as an archive, from the upper directories of its
 * overlays.
 *
 * Not part of PID 1: cell/keeper/diff_reader.c executes cordon-init with the argument "capture",
 * with the rights of the cell's root and the cell's disk as root directory, while the cell is
 * frozen. The archive goes to standard output and is read by cordon-storage (doc/archive-format.md
 * has its form). */
#pragma once

/* As diff_main(). */
int capture_main(int nplaces, char **places);
