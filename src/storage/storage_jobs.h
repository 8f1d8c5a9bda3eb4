/* storage_jobs.h - channel D: receives requests, runs each in a process of its own, answers. Called
 * by main.c. */
#pragma once

#include "err.h"

/* Sends HELLO and serves until the channel closes. Returns the exit status of the program. */
int storage_jobs_serve(int channel);

/* Sends HELLO with the reason why the program cannot work. */
void storage_jobs_refuse(int channel, const struct err *why);
