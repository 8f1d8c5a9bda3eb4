/* cell_socket.h - RUN/cells/<id>.sock, by which a daemon finds a cell that an earlier one made, and
 * RUN/cells/<id>.calls, the file of the cell's watcher (watch_file.h). */
#pragma once

#include <stdbool.h>

#include "lib/base/err.h"
#include "lib/wire/watch_file.h"

/* Bind a socket to the name. PID 1 calls listen(2) on it, so that a process that connects sees PID
 * 1 as its peer. */
int cell_socket_bind(int cells_fd, const char *id, int *ret_fd, struct err *e) MUST_USE;

/* ERR_NOT_FOUND: no process listens there (any more). */
int cell_socket_connect(int cells_fd, const char *id, int *ret_fd, struct err *e) MUST_USE;

/* Remove both. */
void cell_socket_remove(int cells_fd, const char *id);

/* Make a new file for the watcher, for the keeper. -1 with errno. */
int cell_watch_create(int cells_fd, const char *id);
/* The sum of refused calls, unless there is no watcher, or none yet. CELL_WATCH_DEAD: it has ended.
 */
enum cell_watch_state { CELL_WATCH_NONE, CELL_WATCH_DEAD, CELL_WATCH_ALIVE };
enum cell_watch_state cell_watch_look(int cells_fd, const char *id, uint64_t *ret);
/* The file, to read parts of it: -1 if there is none. */
int cell_watch_open(int cells_fd, const char *id);
/* The processor time of the watcher, 0 if there is none. */
uint64_t cell_watch_cpu_us(int cells_fd, const char *id);
/* To write the cursor of struct watch_wish, too. */
int cell_watch_open_rw(int cells_fd, const char *id) MUST_USE;
/* All but the ring. */
bool cell_watch_head(int fd, struct watch_file *ret);
/* The entry of that number. False: it is not there, or not any more. */
bool cell_watch_entry(int fd, uint64_t seq, struct watch_entry *ret);
/* All but the ring. */
bool cell_watch_read(int cells_fd, const char *id, struct watch_file *ret);
