/* diff.h - what a cell changed, read from the writable layers it left.
 *
 * A separate start of the same program, not part of PID 1: it runs from the sealed copy with the
 * rights of the cell's root, in a root directory that is the cell's store, and writes records to
 * standard output: kind ('A'dded, 'C'hanged, 'D'eleted, 'T'runcated), mode in octal, size, path,
 * separated by tabs, each record ended by NUL. */
#pragma once

/* places: where each layer is mounted in the cell; descriptors 3: the cell's /, 4 and up: layers.
 */
int diff_main(int nplaces, char **places);
