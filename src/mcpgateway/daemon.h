/* daemon.h - mcp-gateway goes into the background when its servers have answered: the first process
 * waits for the second, and ends with its outcome. Called by main.c. */
#pragma once

#include "err.h"

/* Forks. Returns in the second process only, which has no terminal, an empty standard input and its
 * log as standard output and error. The first one exits 0 after daemon_report(fd, NULL); after a
 * text it prints that to standard error and exits 1, as it does if the second ends without a word.
 * Returns the descriptor for daemon_report(). */
int daemon_begin(const char *log_path, struct err *e) MUST_USE;
/* Closes the descriptor. */
void daemon_report(int fd, const char *failure);
