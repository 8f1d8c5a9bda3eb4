/* diff.h - lists the changes of a cell, from the upper directories of its overlays.
 *
 * Not part of PID 1: cell/keeper/diff_reader.c executes cordon-init with the argument "diff", with
 * the rights of the cell's root and the cell's disk as root directory. It writes records to
 * standard output (lib/wire/diff_record.h): kind ('A'dded, 'C'hanged, 'D'eleted, 'T'runcated,
 * 'E'nd), mode in octal, size, time of the change, path, separated by tabs, each record ended by
 * NUL. */
#pragma once

/* places: where each layer is mounted in the cell. Consecutive equal ones are a stack, the lowest
 * first. Descriptor 3 is the cell's /, 4 and up are the layers. */
int diff_main(int nplaces, char **places);
