/* watch.h - cordon-init as the watcher of a cell ("cordon-init watch", "cordon-init trace",
 * "cordon-init calls", "cordon-init files"): a process beside the cell, started by the keeper
 * (cell/keeper/watcher.c).
 */
#pragma once

enum {
	WATCH_FD_LISTENER, /* notifications of the cell's filter of system calls */
	WATCH_FD_FILE,	   /* watch_file.h */
};

/* The events it records beside refused calls: starts and ends of programs, and some calls, too
 * (trace.h). */
enum watch_mode { WATCH_REFUSED, WATCH_PROGRAMS, WATCH_SOME_CALLS, WATCH_FILES };

/* Answer refused calls of the cell until its last process has ended. Return the exit status. */
int watch_main(enum watch_mode mode);
