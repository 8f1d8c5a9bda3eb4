/* builtin_table.h - the built-ins, one function each. builtin.h has their arguments and records.
 * Called by the table in builtin.c.
 *
 * argv are the arguments behind the name, as many as the table allows. Each returns the exit
 * status, or -1 with the error, which builtin.c writes as the last record. */
#pragma once

#include "lib/base/err.h"

int file_read(int argc, char **argv, struct err *e) MUST_USE;
int file_write(int argc, char **argv, struct err *e) MUST_USE;
int file_change_stat(int argc, char **argv, struct err *e) MUST_USE;
int file_change_mkdir(int argc, char **argv, struct err *e) MUST_USE;
int file_change_move(int argc, char **argv, struct err *e) MUST_USE;
int file_join(int argc, char **argv, struct err *e) MUST_USE;
int file_list(int argc, char **argv, struct err *e) MUST_USE;
int file_remove(int argc, char **argv, struct err *e) MUST_USE;
int tar_out(int argc, char **argv, struct err *e) MUST_USE;
int tar_in(int argc, char **argv, struct err *e) MUST_USE;
int copy_in(int argc, char **argv, struct err *e) MUST_USE;
int watch_directory(int argc, char **argv, struct err *e) MUST_USE;
int processes_list(int argc, char **argv, struct err *e) MUST_USE;
int secret_builtin(int argc, char **argv, struct err *e) MUST_USE;
int processes_kill(int argc, char **argv, struct err *e) MUST_USE;
